from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from workbench.errors import InvalidArgument, WorkloadError
from workbench.workloads import DecodeSteps, RequestTrace, StepTime, simulate

SECOND = 1_000_000_000_000


@dataclasses.dataclass
class Request:
    """A request of the slow engine: counts of tokens, nothing derived."""

    row: int
    arrival: int
    prompt: int
    output: int
    cached: int = 0  # tokens in the KV cache
    reserved: int = 0  # of these and the prompt being prefilled
    generated: int = 0
    decoded_lengths: list[int] = dataclasses.field(default_factory=list)
    prefills: int = 0  # times that the prompt was completed


@dataclasses.dataclass
class Step:
    start: int
    prefilled: int
    batch: list[tuple[int, int]]


class SlowEngine:
    """One token at a time, everything summed anew in every step: the rules of `simulate`, read aloud."""

    def __init__(
        self, trace: RequestTrace, time: StepTime, max_batch: int, capacity: int, budget: int, watermark: int
    ) -> None:
        columns = (trace.arrival_s, trace.input_tokens, trace.output_tokens)
        self.requests = [
            Request(row, round(float(arrival) * SECOND), int(prompt), int(output))
            for row, (arrival, prompt, output) in enumerate(zip(*columns, strict=True))
        ]
        self.time, self.max_batch, self.capacity, self.budget, self.watermark = (
            time,
            max_batch,
            capacity,
            budget,
            watermark,
        )
        self.steps: list[Step] = []
        self.admissions: list[int] = []
        self.preemptions = 0

    def run(self) -> None:
        to_come = list(self.requests)
        queue: list[Request] = []
        active: list[Request] = []  # in order of admission
        running: list[Request] = []  # in the order in which they began to decode
        clock = 0
        while to_come or queue or active:
            while to_come and to_come[0].arrival <= clock:
                queue.append(to_come.pop(0))
            if not queue and not active:
                clock = to_come[0].arrival
                continue
            while sum(request.reserved for request in active) + len(running) > self.capacity:
                victim = active.pop()
                if victim in running:
                    running.remove(victim)
                victim.cached = victim.reserved = 0
                queue.insert(0, victim)
                self.preemptions += 1
            for request in running:
                request.reserved += 1
            budget = self.budget
            complete = []
            for request in active:  # one at most has a prompt in progress
                goal = request.prompt + request.generated
                if request not in running and request.cached < goal:
                    taken = min(budget, goal - request.cached)
                    request.cached += taken
                    budget -= taken
                    if request.cached == goal:
                        complete.append(request)
            while budget and queue and len(active) < self.max_batch:
                request = queue[0]
                goal = request.prompt + request.generated
                used = sum(other.reserved for other in active)
                if used + goal + (self.watermark if active else 0) > self.capacity:
                    break
                active.append(queue.pop(0))
                self.admissions.append(request.row)
                request.reserved = goal
                request.cached = min(budget, goal)
                budget -= request.cached
                if request.cached == goal:
                    complete.append(request)
            assert sum(request.reserved for request in active) <= self.capacity
            prefilled = self.budget - budget
            step = Step(clock, prefilled, [])
            for request in running:
                request.cached += 1
                request.generated += 1
                request.decoded_lengths.append(request.cached)
                step.batch.append((request.row, request.cached))
            if step.batch:
                self.steps.append(step)
            clock += self.time.base + self.time.prefill_token * prefilled
            clock += self.time.request * len(step.batch) + self.time.kv_token * sum(kv for _, kv in step.batch)
            for request in complete:
                request.prefills += 1
                if request.output:
                    request.generated += 1
            for request in [*running, *complete]:
                if request.generated == request.output:
                    active.remove(request)
            running = [request for request in [*running, *complete] if request in active]


def trace_of(rows: list[tuple[float, int, int]]) -> RequestTrace:
    arrival, prompt, output = zip(*rows, strict=True)
    return RequestTrace(np.array(arrival), np.array(prompt), np.array(output), name="made")


TIMES = st.builds(
    StepTime,
    base=st.integers(1, 2 * SECOND),
    prefill_token=st.integers(0, SECOND // 10),
    request=st.integers(0, SECOND // 10),
    kv_token=st.integers(0, SECOND // 100),
)
# Arrivals on a coarse grid meet each other and the ends of steps; tight caps force queueing and preemption.
ROWS = st.lists(
    st.tuples(st.integers(0, 40).map(lambda n: n / 2), st.integers(1, 24), st.integers(0, 14)), min_size=1, max_size=12
)
LIMITS = st.fixed_dictionaries(
    {
        "max_batch": st.integers(1, 5),
        "kv_capacity": st.integers(8, 70),
        "prefill_budget": st.integers(1, 30),
        "watermark": st.sampled_from([0.0, 0.1, 0.3, 0.9]),
    }
)


def both(
    rows: list[tuple[float, int, int]], time: StepTime, limits: dict[str, float]
) -> tuple[DecodeSteps, SlowEngine]:
    trace = trace_of(rows)
    limits = limits | {
        "kv_capacity": max(int(limits["kv_capacity"]), max(prompt + max(output - 1, 0) for _, prompt, output in rows))
    }
    slow = SlowEngine(
        trace,
        time,
        int(limits["max_batch"]),
        int(limits["kv_capacity"]),
        int(limits["prefill_budget"]),
        int(limits["watermark"] * limits["kv_capacity"]),
    )
    slow.run()
    return simulate(trace, step_time=time, **limits), slow  # type: ignore[arg-type]


def assert_same(fast: DecodeSteps, slow: SlowEngine) -> None:
    assert len(fast) == len(slow.steps)
    table = fast.table()
    batches = fast.batches()
    for i, step in enumerate(slow.steps):
        assert list(zip(fast.requests(i).tolist(), fast.lengths(i).tolist(), strict=True)) == step.batch
        part = slice(batches.offsets[i], batches.offsets[i + 1])
        assert list(zip(batches.request[part].tolist(), batches.length[part].tolist(), strict=True)) == step.batch
    assert table.batch.tolist() == [len(step.batch) for step in slow.steps]
    assert table.kv_tokens.tolist() == [sum(kv for _, kv in step.batch) for step in slow.steps]
    assert table.max_length.tolist() == [max(kv for _, kv in step.batch) for step in slow.steps]
    assert table.prefill_tokens.tolist() == [step.prefilled for step in slow.steps]
    assert table.start_s.tolist() == [step.start / SECOND for step in slow.steps]
    assert fast.timeline.preemptions == slow.preemptions
    assert fast.timeline.finished == len(slow.requests)


@settings(max_examples=300, deadline=None)
@given(rows=ROWS, time=TIMES, limits=LIMITS)
def test_equals_the_token_by_token_engine(
    rows: list[tuple[float, int, int]], time: StepTime, limits: dict[str, float]
) -> None:
    fast, slow = both(rows, time, limits)
    assert_same(fast, slow)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_equals_the_token_by_token_engine_under_preemption(seed: int) -> None:
    draw = random.Random(seed)
    rows = [(draw.random() * 3, draw.randint(1, 30), draw.randint(2, 40)) for _ in range(25)]
    limits = {"max_batch": 12, "kv_capacity": 90, "prefill_budget": 25, "watermark": 0.0}
    fast, slow = both(rows, StepTime(base=SECOND // 50), limits)
    assert slow.preemptions > 0, "the case is meant to preempt"
    assert_same(fast, slow)


@settings(max_examples=100, deadline=None)
@given(rows=ROWS, time=TIMES, limits=LIMITS)
def test_conserves_tokens_and_keeps_to_its_limits(
    rows: list[tuple[float, int, int]], time: StepTime, limits: dict[str, float]
) -> None:
    fast, slow = both(rows, time, limits)
    trace = trace_of(rows)
    table = fast.table()
    assert (table.batch >= 1).all()
    assert (table.batch <= limits["max_batch"]).all()
    assert (table.prefill_tokens <= limits["prefill_budget"]).all()
    capacity = max(limits["kv_capacity"], (trace.input_tokens + np.maximum(trace.output_tokens - 1, 0)).max())
    assert (table.kv_tokens <= capacity).all()
    assert (np.diff(table.start_s) > 0).all()
    batches = fast.batches()
    for row in range(len(trace)):
        lengths = batches.length[batches.request == row].tolist()
        prompt, output = int(trace.input_tokens[row]), int(trace.output_tokens[row])
        # Each token after the first comes from a decode step, or from the prefill after a preemption: then its
        # length is missing, and nothing else is.
        assert len(lengths) + slow.requests[row].prefills == max(output, 1)
        assert sorted(set(lengths)) == lengths
        assert set(lengths) <= set(range(prompt + 1, prompt + output))
        starts = table.start_s[np.searchsorted(batches.offsets, np.flatnonzero(batches.request == row), "right") - 1]
        assert (starts >= trace.arrival_s[row]).all()


@settings(max_examples=100, deadline=None)
@given(rows=ROWS, time=TIMES, limits=LIMITS)
def test_admits_first_come_first_served(
    rows: list[tuple[float, int, int]], time: StepTime, limits: dict[str, float]
) -> None:
    fast, _ = both(rows, time, limits)
    assume(len(fast))
    _, first = np.unique(fast.timeline.intervals[:, 0], return_index=True)
    begun = fast.timeline.intervals[first, 1]  # by row of the trace, which is sorted by arrival
    assert (np.diff(begun) >= 0).all()


def test_worked_example() -> None:
    # Two prompts of 6 and 2 tokens, 4 prefilled a step; a step takes a second.
    trace = trace_of([(0.0, 6, 3), (0.0, 2, 4)])
    steps = simulate(trace, prefill_budget=4, step_time=StepTime(SECOND, 0, 0, 0))
    # Step at 0 s: 4 of request 0. At 1 s: its other 2, and both of request 1. Then both decode.
    assert [lengths.tolist() for lengths in steps] == [[7, 3], [8, 4], [5]]
    assert [steps.requests(i).tolist() for i in range(3)] == [[0, 1], [0, 1], [1]]
    assert steps.start_s.tolist() == [2.0, 3.0, 4.0]
    assert steps.timeline.prefill_only == 2


def test_preempts_the_request_admitted_last_and_recomputes_it() -> None:
    trace = trace_of([(0.0, 4, 6), (0.0, 4, 6)])
    steps = simulate(trace, kv_capacity=11, watermark=0.0, step_time=StepTime(SECOND, 0, 0, 0))
    # 8 tokens after prefill, 10 after one step, no room for a second; request 1 waits until request 0 is done,
    # prefills its 4 + 2 tokens, which makes its third token, and decodes the rest from length 7 on.
    assert [lengths.tolist() for lengths in steps] == [[5, 5], [6], [7], [8], [9], [7], [8], [9]]
    assert steps.requests(5).tolist() == [1]
    assert steps.timeline.preemptions == 1


def test_watermark_holds_admission_back() -> None:
    trace = trace_of([(0.0, 4, 3), (0.0, 4, 3)])
    one = StepTime(SECOND, 0, 0, 0)
    assert len(simulate(trace, kv_capacity=12, watermark=0.0, step_time=one)) == 2
    assert len(simulate(trace, kv_capacity=12, watermark=0.5, step_time=one)) == 4


def test_nothing_to_decode() -> None:
    steps = simulate(trace_of([(0.0, 5, 1), (1.0, 5, 0)]))
    assert len(steps) == 0
    assert steps.timeline.finished == 2
    assert steps.table().start_s.shape == steps.batches().length.shape == (0,)
    assert steps.batches().offsets.tolist() == [0]
    assert steps.to_frame().empty


def test_is_deterministic_by_seed() -> None:
    base = trace_of([(0.0, 50 + i, 20) for i in range(60)])
    first, again, other = (simulate(base.with_poisson_arrivals(30.0, seed=seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.batches().length, again.batches().length)
    np.testing.assert_array_equal(first.start_s, again.start_s)
    assert not np.array_equal(first.start_s, other.start_s)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, time=TIMES, limits=LIMITS, max_steps=st.integers(1, 40), every=st.integers(1, 7))
def test_max_steps_and_every_cut_the_same_simulation(
    rows: list[tuple[float, int, int]], time: StepTime, limits: dict[str, float], max_steps: int, every: int
) -> None:
    whole, slow = both(rows, time, limits)
    capacity = max(int(limits["kv_capacity"]), max(prompt + max(output - 1, 0) for _, prompt, output in rows))
    cut = simulate(
        trace_of(rows), step_time=time, max_steps=max_steps, every=every, **limits | {"kv_capacity": capacity}
    )
    expected = slow.steps[:max_steps:every]
    assert len(cut) == len(expected)
    for i, step in enumerate(expected):
        assert cut.lengths(i).tolist() == [kv for _, kv in step.batch]
    np.testing.assert_array_equal(cut.start_s, whole[:max_steps:every].start_s)
    np.testing.assert_array_equal(cut.max_lengths, whole[:max_steps:every].max_lengths)
    np.testing.assert_array_equal(cut.batches().length, whole[:max_steps:every].batches().length)


def test_progress_ends_at_all_requests() -> None:
    told: list[tuple[int, int]] = []
    simulate(trace_of([(i / 10, 10, 5) for i in range(1000)]), progress=lambda *done: told.append(done))
    assert told[-1] == (1000, 1000)
    assert told == sorted(told)
    assert 10 < len(told) < 400


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_batch": 0}, "max_batch=0"),
        ({"max_batch": 2.0}, "max_batch=2.0"),
        ({"max_batch": True}, "max_batch=True"),
        ({"max_batch": 1 << 30}, "between 1 and 1,000,000"),
        ({"kv_capacity": -1}, "kv_capacity=-1"),
        ({"prefill_budget": 0}, "prefill_budget=0"),
        ({"watermark": 1.0}, "watermark=1.0"),
        ({"watermark": float("nan")}, "watermark=nan"),
        ({"max_steps": 0}, "max_steps=0"),
        ({"every": 0}, "every=0"),
    ],
)
def test_refuses_limits(limits: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        simulate(trace_of([(0.0, 1, 1)]), **limits)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_refuses_a_request_that_cannot_fit() -> None:
    with pytest.raises(WorkloadError, match=r"request 1 .* 104 tokens .* give kv_capacity >= 104"):
        simulate(trace_of([(0.0, 10, 5), (1.0, 100, 5)]), kv_capacity=100)
    assert len(simulate(trace_of([(0.0, 10, 5), (1.0, 100, 5)]), kv_capacity=104)) == 8


def test_refuses_more_time_than_the_clock_holds() -> None:
    with pytest.raises(WorkloadError, match=r"lasts 5,000,000 s"):
        simulate(trace_of([(0.0, 10, 5), (5e6, 10, 5)]))
    with pytest.raises(WorkloadError, match=r"the requests take .* max_steps"):
        simulate(trace_of([(0.0, 10, 1_000_000)]), step_time=StepTime(base=3600 * SECOND))


@pytest.mark.parametrize("constants", [{"base": 0}, {"base": 1.5}, {"kv_token": -1}, {"request": 3601 * SECOND}])
def test_step_time_refuses(constants: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument):
        StepTime(**constants)


@given(time=TIMES, steps=st.integers(1, 50), batch=st.integers(1, 9), kv_tokens=st.integers(1, 10**6))
def test_step_time_of_many_steps_is_the_sum(time: StepTime, steps: int, batch: int, kv_tokens: int) -> None:
    each = (time.uniform(1, batch, kv_tokens + batch * k) for k in range(steps))
    assert time.uniform(steps, batch, kv_tokens) == sum(each)


def test_default_step_time_is_marked_modelled() -> None:
    assert StepTime().source == "modelled"
