from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from workbench.errors import InvalidArgument, WorkloadError
from workbench.workloads import MAX_TOKENS, RequestTrace, read_trace, synthetic_trace


def make(arrival: list[float], prompt: list[int] | None = None, output: list[int] | None = None) -> RequestTrace:
    n = len(arrival)
    return RequestTrace(np.array(arrival), np.array(prompt or range(1, n + 1)), np.array(output or range(n)))


def test_sorts_stably_shifts_to_zero_and_says_so() -> None:
    trace = make([5.0, 3.0, 5.0, 3.0])
    assert trace.arrival_s.tolist() == [0.0, 0.0, 2.0, 2.0]
    assert trace.input_tokens.tolist() == [2, 4, 1, 3]
    assert trace.output_tokens.tolist() == [1, 3, 0, 2]
    assert trace.notes == ("2 of 4 requests came before the one above them; sorted by arrival",)
    assert make([1.0, 2.0]).notes == ()
    many = make([float(i % 2) for i in range(200)])
    assert many.input_tokens.tolist() == [*range(1, 200, 2), *range(2, 201, 2)]


def test_is_frozen_and_copies_its_columns() -> None:
    arrival = np.array([1.0, 2.0])
    trace = RequestTrace(arrival, np.array([1, 2]), np.array([1, 2]), skipped={"absurd length": 2})
    arrival[0] = 9.0
    assert trace.arrival_s.tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        trace.input_tokens[0] = 5
    with pytest.raises(AttributeError):
        trace.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        trace.skipped["absurd length"] = 3  # type: ignore[index]
    assert trace.num_skipped == 2
    assert "2 skipped" in repr(trace)


@pytest.mark.parametrize(
    ("arrival", "prompt", "output", "message"),
    [
        ([], [], [], "1 row or more"),
        ([0.0], [1, 2], [1], "shapes [1], [2], [1]"),
        ([[0.0]], [[1]], [[1]], "shapes [1, 1]"),
        ([0.0, np.nan], [1, 1], [1, 1], "arrival 1 is not a finite"),
        ([0.0, np.inf], [1, 1], [1, 1], "arrival 1 is not a finite"),
        ([0.0, 1e12], [1, 1], [1, 1], "over ten years"),
        ([0.0, 1.0], [1, 0], [1, 1], "input_tokens[1] is 0"),
        ([0.0, 1.0], [1, 1], [1, -1], "output_tokens[1] is -1"),
        ([0.0], [MAX_TOKENS + 1], [1], "input_tokens[0] is 16777217"),
        ([0.0], [1.5], [1], "input_tokens holds float64"),
    ],
)
def test_refuses(arrival: list[float], prompt: list[int], output: list[int], message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        RequestTrace(np.array(arrival), np.array(prompt), np.array(output))
    assert message in str(caught.value)


def test_poisson_arrivals_have_their_rate_and_seed() -> None:
    base = make([0.0] * 20_000, [1] * 20_000, [1] * 20_000)
    trace = base.with_poisson_arrivals(50.0, seed=3)
    gaps = np.diff(trace.arrival_s)
    assert gaps.mean() == pytest.approx(1 / 50, rel=0.03)
    assert gaps.std() == pytest.approx(1 / 50, rel=0.05)
    assert trace.arrivals == "Poisson, 50 requests/s, seed 3, in place of the recorded ones"
    np.testing.assert_array_equal(trace.arrival_s, base.with_poisson_arrivals(50.0, seed=3).arrival_s)
    assert not np.array_equal(trace.arrival_s, base.with_poisson_arrivals(50.0, seed=4).arrival_s)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf"), 1e-12, "5", 10**400, True])
def test_poisson_refuses(rate: float) -> None:
    with pytest.raises(InvalidArgument, match="rate="):
        make([0.0, 0.0]).with_poisson_arrivals(rate)


@pytest.mark.parametrize("seed", [-1, 1.5, "0", None])
def test_poisson_refuses_seeds(seed: object) -> None:
    with pytest.raises(InvalidArgument, match="seed="):
        make([0.0, 0.0]).with_poisson_arrivals(1.0, seed=seed)


def test_head_and_speed() -> None:
    trace = make([0.0, 2.0, 4.0])
    assert trace.head(2).arrival_s.tolist() == [0.0, 2.0]
    assert trace.head(2).notes == ("the first 2 of 3 requests",)
    assert trace.head(9) is trace
    assert trace.with_speed(4.0).arrival_s.tolist() == [0.0, 0.5, 1.0]
    assert "4 times as fast" in trace.with_speed(4.0).arrivals
    with pytest.raises(InvalidArgument, match="num_requests=0"):
        trace.head(0)
    with pytest.raises(InvalidArgument, match="factor=0"):
        trace.with_speed(0.0)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_frame_is_read_back_without_naming_columns(tmp_path, suffix: str) -> None:  # type: ignore[no-untyped-def]
    trace = synthetic_trace(50, seed=1)
    frame, path = trace.to_frame(), tmp_path / f"trace.{suffix}"
    if suffix == "csv":
        frame.to_csv(path, index=False)
    elif suffix == "jsonl":
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    else:
        frame.to_parquet(path)
    again = read_trace(path)
    assert again.format == "columns"
    pd.testing.assert_frame_equal(again.to_frame(), frame, atol=1e-9)


def test_synthetic_trace_obeys_its_parameters() -> None:
    trace = synthetic_trace(5000, rate=8.0, median_input=1000, median_output=100, longest_output=500, seed=2)
    assert len(trace) / trace.duration_s == pytest.approx(8.0, rel=0.1)
    assert np.median(trace.input_tokens) == pytest.approx(1000, rel=0.1)
    assert np.median(trace.output_tokens) == pytest.approx(100, rel=0.1)
    assert trace.output_tokens.max() == 500
    assert abs(np.corrcoef(np.log(trace.input_tokens), np.log(trace.output_tokens))[0, 1]) < 0.05
    assert trace.arrivals == "Poisson, 8 requests/s, seed 2"
    np.testing.assert_array_equal(trace.input_tokens, synthetic_trace(5000, median_input=1000, seed=2).input_tokens)
    with pytest.raises(InvalidArgument, match="num_requests=0"):
        synthetic_trace(0)
