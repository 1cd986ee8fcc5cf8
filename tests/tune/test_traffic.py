"""The distribution of M against the simulated steps it comes from."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from workbench.errors import InvalidArgument
from workbench.tune import Traffic
from workbench.workloads import RequestTrace, sample_trace, simulate


def as_counts(traffic):
    return dict(zip(traffic.m.tolist(), traffic.calls.tolist(), strict=True))


@pytest.fixture(scope="module")
def trace():
    return sample_trace()


@pytest.fixture(scope="module")
def engine(trace):
    return simulate(trace)


def test_a_pass_for_each_step_and_each_chunk(engine):
    expected = Counter(len(lengths) for lengths in engine)
    expected.update(int(tokens) for tokens in engine.prefill_tokens if tokens)
    assert as_counts(Traffic.from_steps(engine)) == expected


def test_decode_and_prefill_in_one_pass(engine):
    pairs = zip(engine, engine.prefill_tokens.tolist(), strict=True)
    expected = Counter(len(lengths) + tokens for lengths, tokens in pairs)
    assert as_counts(Traffic.from_steps(engine, mixed=True)) == expected


@pytest.mark.parametrize("mixed", [False, True])
def test_passes_that_only_prefill_are_counted(trace, engine, mixed):
    listed, whole = Traffic.from_steps(engine, mixed=mixed), Traffic.from_trace(trace, mixed=mixed)
    assert engine.timeline.prefill_only > 0
    assert whole.calls.sum() - listed.calls.sum() == engine.timeline.prefill_only
    # every prompt token and every decoded token passes the router once, but for rounding of the even spread
    tokens = int(trace.input_tokens.sum()) + int(engine.batch_sizes.sum())
    assert abs(float(whole.m @ whole.calls) - tokens) <= engine.timeline.prefill_only
    assert "simulated" in whole.label


def test_a_trace_that_only_prefills_and_decodes_once():
    trace = RequestTrace(
        arrival_s=np.array([0.0]), input_tokens=np.array([10_000]), output_tokens=np.array([3]), name="one"
    )
    # 10,000 prompt tokens in two passes of at most 8,192, spread evenly; then two decode steps.
    assert as_counts(Traffic.from_trace(trace)) == {1: 2.0, 5000: 2.0}


def test_octaves_have_as_many_calls():
    traffic = Traffic.even(1, 1023)
    octaves = [traffic.weights[(traffic.m >= 1 << i) & (traffic.m < 2 << i)].sum() for i in range(10)]
    assert octaves == pytest.approx([0.1] * 10, rel=1e-12)


@pytest.mark.parametrize("calls", [{}, {0: 1}, {-1: 1}, {1: -1}, {1: float("nan")}, {1: float("inf")}, {4: 0}])
def test_distributions_that_are_refused(calls):
    with pytest.raises(InvalidArgument, match="distinct M"):
        Traffic.of(calls)


@pytest.mark.parametrize(("low", "high"), [(0, 8), (9, 8), (1, 1 << 21)])
def test_octaves_that_are_refused(low, high):
    with pytest.raises(InvalidArgument, match="1 <= low <= high"):
        Traffic.even(low, high)
