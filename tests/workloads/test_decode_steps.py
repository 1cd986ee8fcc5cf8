from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import InvalidArgument, StepOutOfRange
from workbench.workloads import DecodeSteps, sample_trace, simulate, timeline


@pytest.fixture(scope="module")
def steps() -> DecodeSteps:
    return simulate(sample_trace(), kv_capacity=200_000, watermark=0.0)


def test_is_labelled_as_simulated(steps: DecodeSteps) -> None:
    assert "simulated" in steps.label
    assert "sample_trace.jsonl" in steps.label
    assert "simulated" in repr(steps)
    assert "simulated" in steps[::3].label
    with pytest.raises(InvalidArgument, match="simulated"):
        DecodeSteps(steps.timeline, label="decode steps")


def test_the_sample_spans_checkpoints_and_preempts(steps: DecodeSteps) -> None:
    assert len(steps) > 5 * timeline._CHECKPOINT
    assert steps.timeline.preemptions > 0


def test_one_step_and_all_steps_agree(steps: DecodeSteps) -> None:
    batches = steps.batches()
    for i in [0, 1, 511, 512, 513, 1023, 1024, len(steps) // 2, len(steps) - 1, *range(2, len(steps), 97)]:
        part = slice(batches.offsets[i], batches.offsets[i + 1])
        np.testing.assert_array_equal(steps.requests(i), batches.request[part])
        np.testing.assert_array_equal(steps.lengths(i), batches.length[part])
    assert steps.lengths(0).dtype == batches.length.dtype == batches.request.dtype == np.int32
    assert batches.offsets.dtype == np.int64


def test_figures_agree_with_lengths(steps: DecodeSteps) -> None:
    batches = steps.batches()
    start = batches.offsets[:-1]
    np.testing.assert_array_equal(steps.batch_sizes, np.diff(batches.offsets))
    np.testing.assert_array_equal(steps.kv_tokens, np.add.reduceat(batches.length.astype(np.int64), start))
    np.testing.assert_array_equal(steps.max_lengths, np.maximum.reduceat(batches.length, start))
    assert steps.start_s.dtype == np.float64
    assert (np.diff(steps.start_s) > 0).all()


@given(
    first=st.integers(-9500, 9500) | st.none(),
    last=st.integers(-9500, 9500) | st.none(),
    stride=st.integers(1, 3000) | st.none(),
)
def test_slices_are_what_a_list_would_give(
    steps: DecodeSteps, first: int | None, last: int | None, stride: int | None
) -> None:
    part = steps[first:last:stride]
    numbers = list(range(len(steps)))[first:last:stride]
    assert part.step_numbers.tolist() == numbers
    assert len(part) == len(numbers)
    whole = steps.batches()
    expected = [whole.length[whole.offsets[i] : whole.offsets[i + 1]] for i in numbers[:50]]
    batches = part[:50].batches()
    assert np.array_equal(batches.length, np.concatenate([np.empty(0, np.int32), *expected]))
    np.testing.assert_array_equal(part.kv_tokens, steps.kv_tokens[first:last:stride])
    np.testing.assert_array_equal(part.start_s, steps.start_s[first:last:stride])


def test_slices_of_slices(steps: DecodeSteps) -> None:
    part = steps[100:4000:3][10:200:7]
    assert part.step_numbers.tolist() == list(range(100, 4000, 3))[10:200:7]
    np.testing.assert_array_equal(part.lengths(2), steps.lengths(part.step_numbers[2]))


def test_is_a_sequence(steps: DecodeSteps) -> None:
    part = steps[:5]
    assert len(list(part)) == 5
    np.testing.assert_array_equal(part[-1], steps[4])
    with pytest.raises(StepOutOfRange, match="step 5 was asked for, and there are 5"):
        part.lengths(5)
    with pytest.raises(IndexError):
        part.requests(-6)
    with pytest.raises(InvalidArgument, match="forward"):
        part[::-1]


@pytest.mark.parametrize("stride", [1, 7])
def test_lifetimes_are_the_runs_of_each_request(steps: DecodeSteps, stride: int) -> None:
    part = steps[13:3000:stride]
    batches = part.batches()
    step = np.repeat(np.arange(len(part)), np.diff(batches.offsets))
    found = part.lifetimes()
    assert np.count_nonzero(found[:, 2] - found[:, 1]) == len(found)
    pairs = [(request, s) for request, low, high, _ in found.tolist() for s in range(low, high)]
    assert sorted(pairs) == sorted(zip(batches.request.tolist(), step.tolist(), strict=True))
    for request, low, _, length in found.tolist():
        assert part.lengths(low)[part.requests(low) == request].tolist() == [length]


def test_frames(steps: DecodeSteps) -> None:
    part = steps[10:40:3]
    frame = part.to_frame()
    assert frame.columns.tolist() == [
        "step",
        "start_s",
        "batch",
        "kv_tokens",
        "max_length",
        "prefill_tokens",
        "source",
    ]
    assert frame["step"].tolist() == list(range(10, 40, 3))
    assert set(frame["source"]) == {"simulated"}
    long = part.to_long_frame()
    grouped = long.groupby("step")["length"]
    assert grouped.sum().tolist() == frame["kv_tokens"].tolist()
    assert grouped.max().tolist() == frame["max_length"].tolist()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("lengths", [False, True])
def test_export_is_read_back(steps: DecodeSteps, tmp_path: Path, suffix: str, lengths: bool) -> None:
    part = steps[:200:9]
    path = part.export(tmp_path / f"steps{suffix}", lengths=lengths)
    readers = {".csv": pd.read_csv, ".jsonl": lambda p: pd.read_json(p, lines=True), ".parquet": pd.read_parquet}
    expected = part.to_long_frame() if lengths else part.to_frame()
    pd.testing.assert_frame_equal(readers[suffix](path), expected, check_dtype=False)


def test_export_refuses_other_names(steps: DecodeSteps, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"\.csv, \.jsonl or \.parquet"):
        steps.export(tmp_path / "steps.xlsx")


def test_storage_grows_with_events_not_tokens(steps: DecodeSteps) -> None:
    stored = steps.timeline.segments.nbytes + steps.timeline.intervals.nbytes
    assert stored < 0.2 * 8 * steps.batch_sizes.sum()
