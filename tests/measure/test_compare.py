from __future__ import annotations

import pytest
import torch

from tests.measure.fakes import FakeClocks, FakeTimer, Made, Raising
from workbench.errors import InvalidArgument, LaunchError
from workbench.measure.attention_inputs import make_inputs
from workbench.measure.compare import Errors, compare, errors_of
from workbench.measure.providers import Precision
from workbench.ops.attention_decode import attention_reference


@pytest.fixture(scope="module")
def batch():
    sets = [make_inputs([130, 64, 0, 5], seed=s, poison=False, device="cpu") for s in range(3)]
    return sets, [attention_reference(*s.arguments(), **s.keywords())[0] for s in sets[:2]]


def run(batch, providers, timer=None, **more):
    return compare(providers, *batch, timer=timer or FakeTimer(), rounds=4, **more)


def test_a_right_provider_is_timed_with_its_error(batch):
    (outcome,) = run(batch, [Made()])
    assert outcome.state == "timed"
    assert outcome.timing.samples_us == (10.0, 10.01, 10.02, 10.03)
    assert 0.0005 < outcome.errors.relative < 0.004  # the rounding to bf16, not nothing


@pytest.mark.parametrize(
    ("alter", "says"),
    [
        (lambda right: right * 1.01, "relative error 0.01"),
        (lambda right: right.roll(1, 0), "relative error"),
        (lambda right: right.index_fill(0, torch.tensor([1]), torch.nan), "not a number"),
        (lambda right: right.index_fill(0, torch.tensor([2]), 1e-4), "one row errs by inf"),
    ],
    ids=["scaled", "rows swapped", "NaN", "a row that should be zero"],
)
def test_a_wrong_result_is_told_and_never_timed(batch, alter, says):
    wrong, right = run(batch, [Made(alter=alter), Made("right")])
    assert (wrong.state, wrong.timing) == ("wrong", None)
    assert says in wrong.reason
    assert right.timing.median_us == pytest.approx(10.015)


def test_one_wrong_row_among_many_is_found():
    right = torch.randn(256, 8, 16, dtype=torch.float64)
    result = right.clone()
    result[17] *= 1.02
    errors = errors_of(result, right)
    assert errors.relative < 0.004  # hidden in the norm of all
    assert errors.complaint(Precision("", 0.004)) == "one row errs by 0.02, allowed 0.008"


def test_errors_are_those_of_the_definition():
    right = torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float64)
    assert errors_of(torch.tensor([[3.0, 4.5], [0.0, 0.0]]), right) == Errors(pytest.approx(0.1), pytest.approx(0.1))


def test_a_call_that_skips_its_output_is_found(batch):
    class Lazy(Made):
        def prepare(self, inputs):
            call, state = super().prepare(inputs), []

            def once():
                if not state:
                    state.append(call())
                return state[0]

            return once

    (outcome,) = run(batch, [Lazy()])
    assert outcome.state == "wrong"
    assert "never written" in outcome.reason


def test_every_set_must_be_written_also_those_without_a_reference(batch):
    class SkipsThird(Made):
        def prepare(self, inputs):
            call = super().prepare(inputs)
            if inputs is batch[0][2]:
                out = call()
                return lambda: out
            return call

    (outcome,) = run(batch, [SkipsThird()])
    assert outcome.state == "wrong"


def test_what_raises_or_is_missing_is_reported_and_the_rest_go_on(batch):
    failed, refused, missing, timed = run(
        batch,
        [
            Raising(),
            Raising(error=InvalidArgument("q_len is 9; give 1 to 4.")),
            Made(absent="pip install made"),
            Made(),
        ],
    )
    assert (failed.state, failed.reason) == ("failed", "RuntimeError: no such luck")
    assert (refused.state, refused.reason) == ("failed", "q_len is 9; give 1 to 4.")
    assert (missing.state, missing.reason) == ("missing", "not installed; pip install made")
    assert timed.state == "timed"


def test_a_missing_provider_is_not_prepared(batch):
    (outcome,) = run(batch, [Raising(absent="pip install made")])
    assert outcome.state == "missing"


def test_ctrl_c_is_not_taken_for_a_failure(batch):
    with pytest.raises(KeyboardInterrupt):
        run(batch, [Raising(error=KeyboardInterrupt())])


def test_a_gpu_that_takes_no_more_work_ends_the_run(batch):
    timer = FakeTimer()

    class Breaks(Made):
        def prepare(self, inputs):
            timer.dead = "an illegal memory access was encountered"
            raise RuntimeError("launch failed")

    with pytest.raises(LaunchError, match=r"made failed .*launch failed.*illegal memory access") as raised:
        run(batch, [Breaks(), Made()], timer)
    assert "measure without that provider" in str(raised.value)


def test_nothing_is_timed_where_all_fail(batch):
    timer = FakeTimer()
    run(batch, [Raising()], timer)
    assert "time" not in timer.log


def test_a_provider_that_computes_nothing_is_not_compared(batch):
    (outcome,) = run(batch, [Made(precision=None, alter=lambda right: right * 2)])
    assert (outcome.state, outcome.errors) == ("timed", None)


def test_clocks_are_read_before_during_and_after(batch):
    (outcome,) = run(batch, [Made()], read_clocks=FakeClocks())
    assert [r.when for r in outcome.clocks.readings] == ["before", *["during"] * 4, "after"]
    assert outcome.clocks.throttled == ()
    assert outcome.clocks.clocks.sm_mhz == 1980


def test_throttling_is_noticed(batch):
    (outcome,) = run(batch, [Made()], read_clocks=FakeClocks(held=("power cap", "application clocks")))
    assert outcome.clocks.throttled == ("power cap",)
