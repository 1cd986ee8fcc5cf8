from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.measure.synthetic import stamps_of
from workbench.errors import FitError
from workbench.measure.fit import CallError, Observation, error_of, fit
from workbench.measure.timeline import Timeline
from workbench.schedule import cost_model, plan_decode
from workbench.schedule.fitted import NAMES

START = cost_model(cache="bf16")
TRUTH = replace(
    START,
    constants=replace(
        START.constants,
        bytes_per_us=3_900_000,
        sm_elements_per_us=39_000,
        descriptor_ns=2_600,
        partial_ns=800,
        empty_ns=1_500,
        merge_ns=1_700,
        merge_chunk_ns=60,
        launch_ns=1_200,
    ),
)
CASES = {
    "64x0.5K": [512] * 64,
    "64x4K": [4096] * 64,
    "32x0.125K+32x4K": [128] * 32 + [4096] * 32,
    "2x32K+30x4K": [32768] * 2 + [4096] * 30,
}
POLICIES = ("hpc-ops", "balanced", "fixed_splits(2)", "fixed_splits(8)", "fixed_splits(32)")


def measured(truth=TRUTH, *, timelines, noise=0.0, seed=0, cases=CASES):
    """Calls as they would be measured if ``truth`` held, each with a timeline or without."""
    random = np.random.default_rng(seed)
    found = []
    for case, lengths in cases.items():
        for policy in POLICIES:
            plan = plan_decode(lengths, num_kv_heads=1, num_ctas=132, policy=policy)
            call_us = (truth.constants.launch_ns + plan.spans(truth).makespan_ns) / 1e3
            call_us *= float(np.exp(noise * random.standard_normal()))
            stamps = stamps_of(plan, truth, noise=noise, step=32, seed=seed)
            timeline = Timeline.from_stamps(plan, stamps) if timelines else None
            found.append(Observation(case, "bf16", plan, call_us, timeline))
    return found


def off(found):
    """Largest relative distance of each constant from the truth."""
    return {
        name: abs(getattr(found.constants, name) / getattr(TRUTH.constants, name) - 1)
        for name in NAMES
        if name not in found.undetermined
    }


@pytest.mark.parametrize("timelines", [True, False])
def test_exact_calls_give_their_constants_back(timelines):
    observed = measured(timelines=timelines)
    before = error_of(observed, START)
    found = fit(observed, START)
    assert before.rms > 0.05
    assert found.error.rms < 0.005
    assert found.left_out.rms < 0.03  # some constants show in one case alone
    assert not found.undetermined
    assert found.timelines == (len(observed) if timelines else 0)
    distances = off(found)
    loose = {"empty_ns", "merge_ns", "merge_chunk_ns", "launch_ns"}  # a few hundred ns of calls of tens of us
    assert max(d for name, d in distances.items() if name not in loose) < 0.05, distances
    assert max(distances.values()) < 0.25, distances


def test_noise_of_two_percent_moves_constants_little():
    distances = off(fit(measured(timelines=True, noise=0.02), START))
    for name in ("bytes_per_us", "sm_elements_per_us", "descriptor_ns"):
        assert distances[name] < 0.06, distances


def test_a_planted_wrong_constant_is_seen_in_the_error():
    observed = measured(timelines=False)
    for name in ("bytes_per_us", "sm_elements_per_us", "descriptor_ns", "partial_ns"):
        wrong = replace(TRUTH, constants=replace(TRUTH.constants, **{name: getattr(TRUTH.constants, name) * 2}))
        assert error_of(observed, TRUTH).rms < 1e-9
        assert error_of(observed, wrong).rms > 0.02, name


def test_a_case_that_follows_other_laws_shows_in_its_own_error():
    observed = measured(timelines=False)
    odd = [replace(o, call_us=o.call_us * 1.5) if o.case == "64x4K" and o.call_us else o for o in observed]
    found = fit(odd, START)
    worst = max(found.left_out_cases, key=lambda case: found.left_out_cases[case].rms)
    assert worst == "64x4K"
    assert found.left_out_cases[worst].low < -0.2
    assert found.left_out.rms > found.error.rms


def test_what_a_case_alone_tells_is_not_known_without_it():
    """Left out, a case is predicted by what its own calls had no part in."""
    observed = [
        o for o in measured(timelines=False) if o.case != "32x0.125K+32x4K" or not o.plan.policy.startswith("fixed")
    ]
    found = fit(observed, START)
    assert "empty_ns" not in found.undetermined  # a grid of 2,048 CTAs for 64x0.5K has empty ones
    alone = fit([o for o in observed if o.case != "64x0.5K"], START)
    assert "empty_ns" in alone.undetermined
    without = replace(START, constants=alone.constants)
    assert found.left_out_cases["64x0.5K"] == error_of([o for o in observed if o.case == "64x0.5K"], without)


def test_what_no_call_depends_on_is_left_and_named():
    """A full grid has no empty CTA, and a request in one piece neither partial results nor a merge."""
    observed = []
    for case, requests in (("132x4K", 132), ("264x2K", 264), ("132x1K", 132), ("396x1K", 396)):
        lengths = [int(case.partition("x")[2].rstrip("K")) * 1024] * requests
        for policy in ("fixed_splits(1)", "hpc-ops"):
            plan = plan_decode(lengths, num_kv_heads=1, num_ctas=132, policy=policy)
            if plan.split.any():
                continue
            call_us = (TRUTH.constants.launch_ns + plan.spans(TRUTH).makespan_ns) / 1e3
            observed += [Observation(case, "bf16", plan, call_us)] * 2
    found = fit(observed, START)
    assert {"partial_ns", "empty_ns", "merge_ns", "merge_chunk_ns"} <= set(found.undetermined)
    for name in found.undetermined:
        assert getattr(found.constants, name) == getattr(START.constants, name)


def test_what_cannot_be_fitted_is_refused():
    observed = measured(timelines=False)
    with pytest.raises(FitError, match="at least two cases"):
        fit([o for o in observed if o.case == "64x4K"], START)
    with pytest.raises(FitError, match="do not determine"):
        fit(observed[:3], START)
    with pytest.raises(FitError, match="calls of bf16"):
        fit(observed, cost_model(cache="fp8"))
    with pytest.raises(FitError, match="neither"):
        Observation("a", "fp8", observed[0].plan)


@pytest.mark.parametrize("call_us", [1e-300, 1e-30, 1e300])
def test_a_call_that_cannot_be_is_refused_in_words(call_us):
    calls = measured(timelines=False)
    calls[0] = replace(calls[0], call_us=call_us)
    with pytest.raises(FitError, match="Look at the measured times"):
        fit(calls, START)


def test_errors_in_words():
    error = CallError.of([np.log(1.1), np.log(0.8)])
    assert (error.calls, round(error.low, 6), round(error.high, 6)) == (2, -0.2, 0.1)
    assert "2 calls" in str(error)
    assert CallError.of([]).calls == 0
