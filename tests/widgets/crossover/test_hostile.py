"""Rules and engine tables that a reader may hand over, and what the exports say of them."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.widgets.crossover.meters import Meter, environment, references
from workbench import CrossoverTuner
from workbench.errors import InvalidArgument
from workbench.tables import SGLANG, read_sglang
from workbench.widgets.crossover.replies import REPLIES

PROVIDERS = ("hpc", "cublas-fp32", "cublas-tf32")


def tuner(**settings: object) -> CrossoverTuner:
    defaults = {"router": "longcat-chat", "precision": "tf32", "providers": PROVIDERS, "store": references()}
    return CrossoverTuner(**defaults | settings)


def exported(shown: CrossoverTuner) -> dict[tuple[int, int], int]:
    text = shown.to_sglang()
    found: dict[tuple[int, int], int] = ast.literal_eval(text[text.index("{") :])
    return found


def test_a_rule_of_the_table_may_be_named_from_the_start() -> None:
    assert tuner(thresholds="in use").thresholds == ((0, "cublas-fp32"), (SGLANG[6144, 768], "hpc"))
    with pytest.raises(InvalidArgument, match="there is no rule 'mine'; give best, in use, one, always"):
        tuner(thresholds="mine")


def test_a_named_rule_is_that_of_the_router_it_is_set_with() -> None:
    shown = tuner()
    shown.change(router="longcat-lite", providers=PROVIDERS, thresholds="in use")
    assert shown.thresholds == ((0, "cublas-fp32"), (SGLANG[3072, 384], "hpc"))
    before = shown.thresholds
    with pytest.raises(InvalidArgument, match="no rule"):
        shown.change(router="longcat-chat", thresholds="mine")
    assert (shown.router, shown.thresholds) == ("longcat-lite", before)


def test_sglang_s_form_has_always_fp32(tmp_path: Path) -> None:
    shown = tuner(thresholds=[(0, "cublas-fp32")])
    assert exported(shown) == {}
    assert "Cannot be expressed" not in shown.to_sglang()
    path = tmp_path / "router.py"
    path.write_text(shown.to_sglang())
    assert read_sglang(path) == {}
    assert tuner(in_use=path).regrets["in use"].us == pytest.approx(shown.regret.us)


def test_sglang_s_form_may_be_cheaper_than_the_rule() -> None:
    shown = tuner(thresholds=[(0, "cublas-tf32"), (64, "hpc"), (500, "cublas-fp32")])
    text = shown.to_sglang()
    assert "gains " in text
    assert "loses -" not in text
    found, _ = REPLIES["file"](shown, {"what": "sglang", "theme": "light", "view": "v"}) or ({}, [])
    assert " It gains " in found["notice"][0]


@pytest.mark.parametrize("in_use", [{(6144, 768): "x"}, {(6144, 768): -5}, {(6144, 768): 63.5}, {6144: 64}, [1]])
def test_engine_tables_of_another_form(in_use: object) -> None:
    with pytest.raises(InvalidArgument, match="of SGLang's form; give a dict"):
        tuner(in_use=in_use)


def test_a_rule_has_no_more_pieces_than_a_table_holds() -> None:
    rule = [(first, PROVIDERS[first % 2]) for first in range(1024)]
    assert len(tuner(thresholds=rule).table.spans) >= 1024
    with pytest.raises(InvalidArgument, match="has 1,025 pieces; give at most 1,024"):
        tuner(thresholds=[*rule, (2000, "cublas-tf32")])


def test_a_meter_that_leaves_somebody_out_ends_the_measurement() -> None:
    class Forgetful(Meter):
        def measure(self, providers: Sequence[str], m: int, rounds: int) -> dict[str, list[float]]:
            return super().measure(providers[:1], m, rounds)

    async def run() -> CrossoverTuner:
        shown = CrossoverTuner("hy3", meter=Forgetful, environment=environment)
        shown.start()
        with pytest.raises(InvalidArgument, match=r"measurement at M = 1 returned \w+; return samples of each"):
            await shown.finished()
        return shown

    assert asyncio.run(run()).frame["live"]["status"] == "failed"
