"""The router's table of defaults and its page, made from a run, from studies and from records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

from benchmarks.router_targets import measured, summary, table, with_records
from benchmarks.router_tuning import table_of
from workbench.errors import InvalidArgument
from workbench.ops.router_gemm import RouterConfig
from workbench.ops.router_gemm.tuned import TunedTable
from workbench.records import Environment, Store, TimingRecord, Workload

SLOW, FAST, FASTER = (RouterConfig(tile_m=64, tile_n=32, stages=stages, split_k=4) for stages in (4, 5, 6))
GPU = {"gpu": "NVIDIA H200", "sms": 132}


def timed(provider: str, us: float, config: RouterConfig | None = None, m: int = 64) -> dict[str, Any]:
    return {
        "k": 4096, "n": 192, "m": m, "terms": 2, "provider": provider, "config": config and config.to_dict(),
        "default": config == SLOW, "median_us": us,
    }  # fmt: skip


RUN = {
    "environment": {**GPU, "date": "2026-11-01", "source_digest": "0" * 64},
    "rows": [
        timed("cuda", 5.0, SLOW),
        timed("cuda", 4.0, FAST),
        timed("triton", 20.0),
        timed("cublas-bf16", 6.0),
        timed("cuda", 9.0, SLOW, m=512),
    ],
}


def study(
    *configs: tuple[RouterConfig, float], case: str = "K4096-N192-M64", date: str = "2026-11-02", **other: Any
) -> dict[str, Any]:
    """The first is the default that the study competed with."""
    shown = [{"config": config.to_dict(), "median_us": us, "relative": us / configs[0][1]} for config, us in configs]
    row = {"operator": "router_gemm", "case": case, "default": shown[0], "finalists": shown,
           "gain": 1 - min(each["relative"] for each in shown)}  # fmt: skip
    decode = {"operator": "attention_decode", "case": "64x4K", "gain": 0.5}
    return {"environment": {**GPU, "date": date}, "allowed": 0.03, "rows": [decode, row], **other}


def said(found: TunedTable, m: int = 64) -> tuple[RouterConfig, float, str | None]:
    (row,) = (row for row in found.shapes[4096, 192] if row.m == m)
    return row.config, row.median_us, row.study


def test_a_row_is_the_fastest_of_the_run() -> None:
    found = table_of(RUN)
    assert said(found) == (FAST, 4.0, None)
    assert said(found, 512) == (SLOW, 9.0, None)
    assert "study" not in found.to_json()


def test_what_a_study_found_to_beat_it_replaces_that_row_alone() -> None:
    found = table_of(RUN, study((FAST, 4.4), (FASTER, 4.1), (SLOW, 4.2)))
    assert said(found) == (FASTER, 4.1, "2026-11-02")
    assert said(found, 512) == (SLOW, 9.0, None)
    assert (found.date, found.source_digest) == ("2026-11-01", "0" * 64)
    assert TunedTable.from_json(found.to_json()) == found


def test_a_gain_that_is_allowed_changes_nothing() -> None:
    assert table_of(RUN, study((FAST, 4.0), (FASTER, 3.9))) == table_of(RUN)
    assert table_of(RUN, study((FAST, 4.0), (FASTER, 3.9), allowed=0.02)) != table_of(RUN)


def test_studies_follow_each_other() -> None:
    first = study((FAST, 4.4), (FASTER, 4.1))
    second = study((FASTER, 4.0), (SLOW, 3.5), date="2026-11-03")
    assert said(table_of(RUN, first, second)) == (SLOW, 3.5, "2026-11-03")
    with pytest.raises(ValueError, match="does not have that"):
        table_of(RUN, second, first)


def of_another_gpu() -> dict[str, Any]:
    found = study((FAST, 4.4), (FASTER, 4.1))
    return {**found, "environment": {**found["environment"], "sms": 78}}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (of_another_gpu, "78 SMs"),
        (lambda: study((SLOW, 4.4), (FASTER, 4.1)), "does not have that"),
        (lambda: study((FAST, 4.4), (FASTER, 4.1), case="K4096-N192-M512"), "does not have that"),
        (lambda: study((FAST, 4.4), (FASTER, 4.1), case="K4096-N192-M65"), "does not have that"),
        (lambda: study((FAST, 4.4), (FASTER, 4.1), case="K4096-N200-M64"), "does not have that"),
        (lambda: study((FAST, 4.4), (FASTER, 4.1), case="M64-K4096-N192"), "no product"),
    ],
)
def test_a_study_of_something_else_is_refused(make: Callable[[], dict[str, Any]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        table_of(RUN, make())


def test_what_cannot_run_does_not_become_a_default() -> None:
    large = RouterConfig(tile_m=128, tile_n=128, stages=12)
    with pytest.raises(InvalidArgument, match="shared memory"):
        table_of(RUN, study((FAST, 4.4), (large, 4.1)))


def test_the_page_has_the_default_of_the_run_or_what_is_made_of_it() -> None:
    times = measured(RUN, study((FAST, 4.4), (FASTER, 4.1)))
    assert times[4096, 192, 64] == {"default": 5.0, "tuned": 4.1, "triton": 20.0, "cublas-bf16": 6.0}
    theirs = {(4096, 192, 64): 8.2}
    shown = list(table(times, theirs, "tuned"))
    assert shown[2] == "| 4096, 192 | 64 | **4.10** | 8.2 |  |  | 6.0 | 20.0 | 2.00 | 2.93 |"
    assert shown[3] == "| 4096, 192 | 512 | **9.00** |  |  |  |  |  |  |  |"
    assert "**5.00**" in list(table(times, theirs, "default"))[2]
    assert summary(times, theirs, "tuned").startswith("tuned: 2.000 times as fast as upstream")
    assert summary(times, theirs, "tuned").endswith("over 1 rows, least 2.00 at K 4096, N 192, M 64")
    assert summary(times, {}, "tuned") == ""


def test_records_fill_what_the_run_lacks_and_nothing_else(tmp_path) -> None:
    store = Store(tmp_path)
    for provider, us, n, gpu in (
        ("cublas-fp32", 16.0, 192, "NVIDIA H200"),
        ("cublas-tf32", 12.0, 192, "NVIDIA H100 80GB HBM3"),
        ("triton", 25.0, 192, "NVIDIA H200"),
        ("cuda", 1.0, 192, "NVIDIA H200"),
        ("cublas-fp32", 17.0, 200, "NVIDIA H200"),
    ):
        store.add(
            TimingRecord(
                operator="router_gemm",
                provider=provider,
                environment=Environment.model_validate_json(f'{{"gpu": "{gpu}", "date": "2026-11-03"}}'),
                workload=Workload(case=f"M64-K4096-N{n}", dtype="bf16", m=64, n=n, k=4096),
                samples_us=(us,),
                median_us=us,
                low_us=us,
                high_us=us,
            )
        )
    times = measured(RUN)
    filled = with_records(times, store, "NVIDIA H200")
    assert filled.keys() == times.keys()
    assert filled[4096, 192, 64] == {**times[4096, 192, 64], "cublas-fp32": 16.0}
    assert "cublas-fp32" not in times[4096, 192, 64]
