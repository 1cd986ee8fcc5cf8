"""Where descriptors lie on the time axis: against definitions and a slow event simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule import oracle
from tests.schedule.strategies import costs, policies, problems
from workbench.errors import InvalidArgument
from workbench.schedule import DecodePlan, DecodeProblem, cost_model, fixed_chunk, fixed_splits, plan_decode


def durations(plan: DecodePlan, cost: object, tile_ns: int) -> list[int]:
    """Nanoseconds of each bin by the cost model's definition."""
    counts, c = plan.chunk_counts, cost.constants
    found = []
    for own in plan.bins:
        time = 0
        for row in own:
            split = counts[row["kv_head"], row["request"]] > 1
            time += c.descriptor_ns + (c.partial_ns if split else 0) + int(row["num_tiles"]) * tile_ns
        found.append(time if len(own) or not plan.static_grid else c.empty_ns)
    return found


@settings(max_examples=200)
@given(problems(), costs(), st.data())
def test_spans_fill_their_bins(problem: DecodeProblem, cost: object, data: st.DataObject) -> None:
    plan = data.draw(policies(problem.tile)).plan(problem)
    spans = plan.spans(cost)
    expected = durations(plan, cost, spans.tile_ns)
    assert (spans.bin_end_ns - spans.bin_start_ns).tolist() == expected
    counts, c = plan.chunk_counts, cost.constants
    at = 0
    for cta, own in enumerate(plan.bins):
        now = int(spans.bin_start_ns[cta])
        for row in own:
            split = counts[row["kv_head"], row["request"]] > 1
            assert spans.start_ns[at] == now
            assert spans.foot_ns[at] == c.descriptor_ns + (c.partial_ns if split else 0)
            now += int(spans.foot_ns[at]) + int(row["num_tiles"]) * spans.tile_ns
            assert spans.end_ns[at] == now
            at += 1
        if len(own):
            assert now == spans.bin_end_ns[cta]
    assert spans.bins_ns == max((int(end) for end in spans.bin_end_ns), default=0)
    most = int(plan.chunk_counts.max(initial=0))
    assert spans.merge_ns == (c.merge_ns + c.merge_chunk_ns * most if most > 1 else 0)
    assert spans.makespan_ns == spans.bins_ns + spans.merge_ns


@settings(max_examples=200)
@given(problems(), costs(), st.data())
def test_tile_time_is_the_slower_of_one_cta_and_all(problem: DecodeProblem, cost: object, data: st.DataObject) -> None:
    plan = data.draw(policies(problem.tile)).plan(problem)
    spans = plan.spans(cost)
    tiles = np.zeros(problem.num_ctas, int)
    for cta, slot in enumerate(spans.slot.tolist()):
        tiles[slot] += plan.bin_tiles[cta]
    most, tile_bytes = int(tiles.max()), problem.tile * cost.head_dim * 2 * (1 if cost.cache == "fp8" else 2)
    ctas_per_sm = -(-plan.num_ctas // cost.sms)
    alone = -(-plan.tile * cost.head_dim * 2 * 1000 * ctas_per_sm // cost.constants.sm_elements_per_us)
    together = -(-problem.total_tiles * tile_bytes * 1000 // cost.constants.bytes_per_us)
    assert spans.tile_ns == max(alone, -(-together // max(most, 1)))
    # No plan moves bytes faster than the memory system: the fullest slot streams for at least that long.
    assert most * spans.tile_ns >= together


@settings(max_examples=200)
@given(problems(), costs(), st.data())
def test_ctas_of_a_grid_start_in_order_on_the_first_free_slot(
    problem: DecodeProblem, cost: object, data: st.DataObject
) -> None:
    chunks = st.integers(1, 9).map(lambda n: n * problem.tile)
    policy = data.draw(st.one_of(st.builds(fixed_splits, st.integers(1, 20)), st.builds(fixed_chunk, chunks)))
    plan = policy.plan(problem)
    spans = plan.spans(cost)
    if plan.num_bins <= problem.num_ctas:
        assert spans.slot.tolist() == list(range(plan.num_bins))
        assert not spans.bin_start_ns.any()
        return
    # Which slot frees first is decided with the tile time of an even spread; starts use the plan's own tile time.
    even = max(int(plan.bin_tiles.max()), -(-problem.total_tiles // problem.num_ctas))
    guess = durations(plan, cost, cost.tile_ns(problem.total_tiles, even, problem.tile, problem.num_ctas))
    simulated = oracle.first_free(guess, problem.num_ctas)
    assert spans.slot.tolist() == [slot for slot, _ in simulated]
    ends = [0] * problem.num_ctas
    for cta, slot in enumerate(spans.slot.tolist()):
        assert spans.bin_start_ns[cta] == ends[slot]
        ends[slot] = int(spans.bin_end_ns[cta])
    if guess == durations(plan, cost, spans.tile_ns):
        assert spans.bin_start_ns.tolist() == [start for _, start in simulated]


def test_persistent_bins_all_start_at_once() -> None:
    spans = plan_decode([4096] * 9, num_kv_heads=1, num_ctas=16, policy="lpt").spans()
    assert not spans.bin_start_ns.any()
    assert spans.slot.tolist() == list(range(16))


def test_the_model_is_named() -> None:
    plan = plan_decode([4096], num_kv_heads=1, num_ctas=16)
    cost = cost_model("A100", cache="bf16")
    assert plan.spans(cost).cost is cost
    assert plan.spans().cost == cost_model("H200")
    for call in (plan.spans, plan.metrics):
        with pytest.raises(InvalidArgument, match=r"cost is 'H100'\. Give a cost model"):
            call("H100")
