"""Metrics: exact counts by another way, and the identities that the screen relies on."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.strategies import costs, policies, problems
from workbench.schedule import CostConstants, CostModel, DecodeProblem, plan_decode


@settings(max_examples=250)
@given(problems(), costs(), st.data())
def test_times_add_up(problem: DecodeProblem, cost: object, data: st.DataObject) -> None:
    plan = data.draw(policies(problem.tile)).plan(problem)
    m = plan.metrics(cost)
    parts = m.launch_us + m.stream_us + m.fixed_us + m.waiting_us + m.merge_us
    assert m.call_us == pytest.approx(parts, abs=1e-6)
    assert m.call_us == pytest.approx(m.launch_us + m.makespan_us, abs=1e-6)
    assert m.makespan_us == pytest.approx(m.bins_us + m.merge_us, abs=1e-6)
    assert m.mean_us == pytest.approx(m.stream_us + m.fixed_us, abs=1e-6)
    assert m.bins_us == pytest.approx(m.mean_us + m.waiting_us, abs=1e-6)
    assert min(m.stream_us, m.fixed_us, m.waiting_us, m.merge_us) >= 0
    assert m.bound_us <= m.makespan_us
    assert m.efficiency == pytest.approx(m.bound_us / m.makespan_us if m.makespan_us else 1.0)
    assert 0 <= m.efficiency <= 1
    assert 0 <= m.idle_fraction < 1
    if m.bins_us:
        assert m.idle_fraction == pytest.approx(m.waiting_us / m.bins_us)


@settings(max_examples=250)
@given(problems(), costs(), st.data())
def test_counts(problem: DecodeProblem, cost: object, data: st.DataObject) -> None:
    plan = data.draw(policies(problem.tile)).plan(problem)
    m, spans = plan.metrics(cost), plan.spans(cost)
    bins = plan.as_lists()
    slots = [0] * problem.num_ctas
    for slot, own in zip(spans.slot.tolist(), bins, strict=True):
        slots[slot] += sum(row[3] for row in own)
    counts: dict[tuple[int, int], int] = {}
    for own in bins:
        for head, request, _, _ in own:
            counts[head, request] = counts.get((head, request), 0) + 1

    assert m.tiles == sum(slots) == problem.total_tiles
    assert m.descriptors == sum(map(len, bins))
    assert m.used_ctas == sum(1 for own in bins if own)
    assert m.empty_ctas == m.num_bins - m.used_ctas
    assert m.idle_ctas == slots.count(0)
    assert m.max_tiles == max(slots)
    assert m.mean_tiles == pytest.approx(sum(slots) / len(slots))
    assert m.max_over_mean == pytest.approx(max(slots) * len(slots) / sum(slots) if sum(slots) else 0)
    assert m.max_descriptors == max(map(len, bins), default=0)
    assert m.max_chunks == max(counts.values(), default=0)
    assert m.split_requests == sum(1 for count in counts.values() if count > 1)
    assert m.mean_chunks == pytest.approx(sum(counts.values()) / len(counts) if counts else 0)
    assert m.waves == -(-len(bins) // problem.num_ctas)
    element = 1 if cost.cache == "fp8" else 2
    assert m.kv_bytes == sum(problem.lengths.tolist()) * problem.num_kv_heads * cost.head_dim * 2 * element
    rows = cost.group * problem.q_len
    pieces = sum(count for count in counts.values() if count > 1)
    assert m.partial_bytes == pieces * rows * (cost.head_dim + 1) * 4
    assert m.merge_bytes == m.partial_bytes + m.split_requests * rows * cost.head_dim * 2
    last = int(spans.end_ns.max(initial=0))
    ending_last = [r for r, end in zip(plan.request.tolist(), spans.end_ns.tolist(), strict=True) if end == last]
    if ending_last:
        assert m.culprit_request in ending_last
        assert plan.lengths[m.culprit_request] == max(plan.lengths[ending_last])


def test_a_plan_worked_by_hand() -> None:
    """Two requests of 8 tiles and 1 tile on 2 CTAs: bins of 5 and 4 tiles; the long request is split in two."""
    constants = CostConstants(
        bytes_per_us=4_370_000,
        sm_elements_per_us=40_000,
        sm_bytes_per_us=40_000,
        descriptor_ns=350,
        partial_ns=250,
        empty_ns=300,
        merge_ns=900,
        merge_chunk_ns=10,
        launch_ns=1_800,
        source="by hand",
    )
    cost = CostModel("H200", "fp8", 8, 128, constants, 132)
    plan = plan_decode([512, 64], num_kv_heads=1, num_ctas=2, policy="hpc-ops", min_process_len=0)
    assert plan.as_lists() == [[(0, 0, 0, 5)], [(0, 0, 5, 3), (0, 1, 0, 1)]]
    tile = 410  # 64 tokens x 128 x 2 bytes = 16,384 bytes at 40,000 bytes/us, rounded up
    bins = [350 + 250 + 5 * tile, 350 + 250 + 350 + 4 * tile]
    m = plan.metrics(cost)
    assert m.bins_us == max(bins) / 1e3 == 2.65
    assert m.merge_us == (900 + 2 * 10) / 1e3
    assert m.call_us == 1.8 + 2.65 + 0.92
    assert m.waiting_us == pytest.approx((max(bins) - sum(bins) / 2) / 1e3)
    assert m.bound_us == (5 * tile + 350) / 1e3
    assert m.partial_bytes == 2 * 8 * 129 * 4
    assert m.kv_bytes == 576 * 256
    assert m.culprit_request == 0
    assert m.last_ctas == 1  # the other ends 2.3 % earlier


def test_metrics_read_as_a_mapping_and_name_their_source() -> None:
    m = plan_decode([4096] * 8, num_kv_heads=1, num_ctas=528).metrics()
    assert m["makespan_us"] == m.makespan_us
    assert list(m.to_dict()) == [f.name for f in fields(m)]
    assert m.source.startswith(("modelled", "measured"))
    with pytest.raises(KeyError):
        m["nothing"]
