"""The judge notices every planted fault."""

from __future__ import annotations

import pytest

from tests.ops.attention_decode import judge
from tests.ops.attention_decode.cases import Case
from tests.ops.attention_decode.mutants import CASES, MUTANTS, Mutant
from workbench.gpu.launch import Kernel
from workbench.measure.attention_inputs import AttentionInputs
from workbench.ops.attention_decode import cuda

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("compiled")]


@pytest.fixture(scope="module")
def batches() -> list[tuple[Case, AttentionInputs, judge.Reference]]:
    made = [(case, case.inputs()) for case in CASES]
    return [(case, inputs, judge.Reference.of(inputs)) for case, inputs in made]


def test_the_kernel_itself_passes(batches: list[tuple[Case, AttentionInputs, judge.Reference]]) -> None:
    assert [judge.try_case(*batch).complaints for batch in batches] == [()] * len(CASES)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_fault_is_noticed(
    mutant: Mutant, batches: list[tuple[Case, AttentionInputs, judge.Reference]], monkeypatch: pytest.MonkeyPatch
) -> None:
    noticed = []
    for case, inputs, reference in batches:
        wrong = Kernel(mutant.job(case).compile())
        monkeypatch.setattr(cuda, "kernel", lambda *_, wrong=wrong: wrong)
        noticed.append(judge.try_case(case, inputs, reference).complaints)
    assert any(noticed), f"no case notices {mutant.name!r}"
