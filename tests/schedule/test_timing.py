"""Where descriptors lie on the time axis: against definitions and a slow event simulation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule import oracle
from tests.schedule.strategies import costs, policies, problems
from workbench.errors import InvalidArgument
from workbench.schedule import DecodePlan, DecodeProblem, cost_model, fixed_chunk, fixed_splits, plan_decode


def reading(tiles: int, plan: DecodePlan, cost: object) -> int:
    """Nanoseconds that a CTA reads, tile by tile: at the loaded pace until the stream is through, then at its own."""
    c, ctas_per_sm = cost.constants, -(-plan.num_ctas // cost.sms)
    elements = plan.tile * cost.head_dim * 2 * 1000 * ctas_per_sm
    size = 1 if cost.cache == "fp8" else 2
    own = -(-elements // c.sm_elements_per_us)
    loaded = max(own, -(-elements * size // c.sm_bytes_per_us))
    until = stream(plan, cost)
    return sum(loaded if (n + 1) * loaded <= until else own for n in range(tiles))


def stream(plan: DecodePlan, cost: object) -> int:
    """Nanoseconds for all tiles at the bandwidth of the chip."""
    tile_bytes = plan.tile * cost.head_dim * 2 * (1 if cost.cache == "fp8" else 2)
    return -(-plan.problem.total_tiles * tile_bytes * 1000 // cost.constants.bytes_per_us)


def durations(plan: DecodePlan, cost: object) -> list[int]:
    """Nanoseconds of each bin at a CTA's own pace by the cost model's definition."""
    counts, c = plan.chunk_counts, cost.constants
    found = []
    for own in plan.bins:
        time = reading(int(own["num_tiles"].sum()), plan, cost)
        for row in own:
            split = counts[row["kv_head"], row["request"]] > 1
            time += c.descriptor_ns + (c.partial_ns if split else 0)
        found.append(time if len(own) or not plan.static_grid else c.empty_ns)
    return found


def fixed(plan: DecodePlan, cost: object) -> int:
    """Fixed costs of all bins together."""
    return sum(durations(plan, cost)) - sum(reading(int(n), plan, cost) for n in plan.bin_tiles)


def ends(plan: DecodePlan, cost: object) -> tuple[int, int]:
    """End of the last bin at its own pace, and as it is."""
    simulated = oracle.first_free(durations(plan, cost), max(plan.num_ctas, 1))
    longest = max((start + d for (_, start), d in zip(simulated, durations(plan, cost), strict=True)), default=0)
    if plan.problem.total_tiles == 0:
        return longest, longest
    opening = cost.constants.descriptor_ns
    if plan.num_bins > plan.num_ctas:
        opening = max(opening, fixed(plan, cost) // plan.num_ctas)
    return longest, max(longest, stream(plan, cost) + opening)


@settings(max_examples=200)
@given(problems(), costs(), st.data())
def test_spans_fill_their_bins(problem: DecodeProblem, cost: object, data: st.DataObject) -> None:
    plan = data.draw(policies(problem.tile)).plan(problem)
    spans = plan.spans(cost)
    longest, last = ends(plan, cost)
    assert spans.bins_ns == last
    factor = last / longest if longest else 1.0
    lengths = (spans.bin_end_ns - spans.bin_start_ns).tolist()
    assert lengths == pytest.approx([d * factor for d in durations(plan, cost)], abs=1)
    assert spans.busy_ns == sum(durations(plan, cost)) * last // max(longest, 1)
    assert spans.reading_ns == sum(reading(int(n), plan, cost) for n in plan.bin_tiles) * last // max(longest, 1)
    counts, c = plan.chunk_counts, cost.constants
    at = 0
    for cta, own in enumerate(plan.bins):
        now, tiles = int(spans.bin_start_ns[cta]), 0
        for row in own:
            split = counts[row["kv_head"], row["request"]] > 1
            foot, before, tiles = c.descriptor_ns + (c.partial_ns if split else 0), tiles, tiles + int(row["num_tiles"])
            assert spans.start_ns[at] == now
            assert spans.foot_ns[at] == pytest.approx(foot * factor, abs=1)
            read = reading(tiles, plan, cost) - reading(before, plan, cost)
            now = int(spans.end_ns[at])
            assert now - spans.start_ns[at] == pytest.approx((foot + read) * factor, abs=1)
            at += 1
        if len(own):
            assert now == spans.bin_end_ns[cta]
    assert spans.bins_ns == max((int(end) for end in spans.bin_end_ns), default=0)
    most = int(plan.chunk_counts.max(initial=0))
    assert spans.merge_ns == (c.merge_ns + c.merge_chunk_ns * most if most > 1 else 0)
    assert spans.makespan_ns == spans.bins_ns + spans.merge_ns


@settings(max_examples=200)
@given(problems(), costs(), st.data())
def test_no_plan_reads_faster_than_the_memory_system(problem: DecodeProblem, cost: object, data: st.DataObject) -> None:
    plan = data.draw(policies(problem.tile)).plan(problem)
    if problem.total_tiles:
        assert plan.spans(cost).bins_ns >= stream(plan, cost) + cost.constants.descriptor_ns


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
        return
    simulated = oracle.first_free(durations(plan, cost), problem.num_ctas)
    assert spans.slot.tolist() == [slot for slot, _ in simulated]
    longest, last = ends(plan, cost)
    expected = [start * last / max(longest, 1) for _, start in simulated]
    assert spans.bin_start_ns.tolist() == pytest.approx(expected, abs=1)


def test_the_two_sides_of_the_roofline() -> None:
    """64 equal requests stream as fast as the chip can; one long request takes as long as one CTA needs."""
    cost = cost_model()
    even = plan_decode([4096] * 64, num_kv_heads=1, num_ctas=132, policy="fixed_splits(2)")
    assert even.spans(cost).bins_ns == cost.stream_ns(64 * 64, 64) + cost.constants.descriptor_ns
    lone = plan_decode([65_536] + [64] * 64, num_kv_heads=1, num_ctas=132, policy="fixed_splits(1)")
    assert lone.spans(cost).bins_ns == 1024 * cost.cta_tile_ns(64, 132) + cost.constants.descriptor_ns


def test_a_straggler_of_a_wide_cache_goes_faster_once_the_others_are_done() -> None:
    cost = cost_model(cache="bf16")
    own, loaded = cost.cta_tile_ns(64, 132), cost.loaded_tile_ns(64, 132)
    assert loaded > own
    total = 2048 + 64 * 63
    plan = plan_decode([131_072] + [4096] * 63, num_kv_heads=1, num_ctas=132, policy="fixed_splits(1)")
    slow = cost.stream_ns(total, 64) // loaded
    assert 0 < slow < 2048
    assert plan.spans(cost).bins_ns == slow * loaded + (2048 - slow) * own + cost.constants.descriptor_ns


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
