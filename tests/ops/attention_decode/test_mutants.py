"""The faults planted in the kernel still apply to it."""

from __future__ import annotations

import pytest

from tests.ops.attention_decode.mutants import CASES, LOW_PAGES, MUTANTS, Mutant, whole_kernel
from workbench.gpu.ahead import compile_ahead


@pytest.mark.parametrize("mutant", [*MUTANTS, LOW_PAGES], ids=lambda m: m.name)
def test_the_fault_is_planted(mutant: Mutant) -> None:
    assert mutant.source().text != whole_kernel()


def test_no_fault_is_planted_twice() -> None:
    assert len({mutant.source().text for mutant in MUTANTS}) == len(MUTANTS)


def test_a_fault_whose_place_is_gone_is_noticed() -> None:
    with pytest.raises(AssertionError, match="no longer holds"):
        Mutant("stale", (("void slab(", "text that is not there", ""),)).source()


def test_every_fault_compiles_and_reaches_the_machine_code() -> None:
    """In one of the cases at least; a switch of another precision may leave a fault out."""
    wanted = list(MUTANTS)
    for case in CASES:
        jobs = [(mutant, mutant.job(case)) for mutant in wanted]
        compile_ahead([case.job, *(job for _, job in jobs)])
        real = case.job.compile().cubin
        wanted = [mutant for mutant, job in jobs if job.compile().cubin == real]
    assert not wanted
