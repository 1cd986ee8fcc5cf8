"""Planted faults are where they should be, and are kernels."""

from __future__ import annotations

import pytest

from tests.ops.router_gemm.mutants import CASES, MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_fault_compiles(mutant: Mutant) -> None:
    mutant.job(CASES[MUTANTS.index(mutant) % len(CASES)]).compile()


def test_names_are_told_apart() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_a_fault_that_is_no_longer_in_the_kernel_is_told() -> None:
    with pytest.raises(AssertionError, match="no longer holds"):
        Mutant("lost", "bool accumulate(", "no such text", "").source()
