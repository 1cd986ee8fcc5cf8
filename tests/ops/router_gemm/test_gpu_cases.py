"""Every family of configurations against float64, and every planted fault, on a GPU."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.ops.router_gemm.cases import Case, families
from tests.ops.router_gemm.judge import try_case
from tests.ops.router_gemm.mutants import CASES, MUTANTS, Mutant
from workbench.gpu.launch import Kernel
from workbench.ops.router_gemm import cuda

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("compiled")]


@pytest.mark.parametrize("case", dict.fromkeys(chain.from_iterable(families().values())), ids=str)
def test_scores_agree_with_float64(case: Case) -> None:
    assert try_case(case).complaints == ()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_kernel_passes_where_faults_are_planted(case: Case) -> None:
    assert try_case(case).complaints == ()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_fault_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    noticed = []
    for case in CASES:
        wrong = Kernel(mutant.job(case).compile())
        monkeypatch.setattr(cuda, "kernel", lambda *_, wrong=wrong: wrong)
        noticed.append(try_case(case).complaints)
    assert any(noticed), f"no case notices {mutant.name!r}"
