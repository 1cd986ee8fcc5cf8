"""Arguments of the wrong type or size: each public function refuses them by name, none fails inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.errors import InvalidArgument, WorkloadError
from workbench.workloads import (
    RequestTrace,
    as_lengths,
    parse_lengths,
    sample_trace,
    simulate,
    synthetic_trace,
    uniform,
)

CASES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "simulate a path": (lambda: simulate("t.csv"), InvalidArgument, "trace='t.csv'; give a RequestTrace"),
    "step_time": (lambda: simulate(sample_trace(), step_time=5), InvalidArgument, "step_time=5"),
    "watermark": (lambda: simulate(sample_trace(), watermark="1 %"), InvalidArgument, "watermark='1 %'"),
    "watermark of 1": (lambda: simulate(sample_trace(), watermark=1), InvalidArgument, "not including, 1"),
    "too large": (lambda: simulate(sample_trace(), kv_capacity=1 << 50), InvalidArgument, "between 1 and 1,099,511"),
    "requests": (lambda: synthetic_trace(1.5), InvalidArgument, "num_requests=1.5"),
    "seed": (lambda: synthetic_trace(seed=-1), InvalidArgument, "seed=-1; give a whole number 0 or more"),
    "seed of a batch": (lambda: uniform(seed="0"), InvalidArgument, "seed='0'"),
    "head": (lambda: sample_trace().head(1.5), InvalidArgument, "num_requests=1.5"),
    "speed": (lambda: sample_trace().with_speed("2"), InvalidArgument, "factor='2'"),
    "arrivals": (lambda: RequestTrace(["a"], [1], [1]), WorkloadError, "arrival_s holds no numbers"),
    "ragged columns": (lambda: RequestTrace([0.0], [[1], [1, 2]], [1]), WorkloadError, "input_tokens"),
    "ragged lengths": (lambda: as_lengths([[1], [2, 3]]), WorkloadError, "several sizes"),
    "no text": (lambda: parse_lengths(None), WorkloadError, "lengths are None, not text"),
    "step": (lambda: simulate(sample_trace())[1.5], InvalidArgument, "step=1.5"),
}


@pytest.mark.parametrize(("call", "error", "words"), CASES.values(), ids=CASES)
def test_refused(call: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_an_export_that_cannot_be_written(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be written"):
        simulate(sample_trace())[:3].export(tmp_path / "absent" / f"steps{suffix}")
