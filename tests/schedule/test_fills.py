"""Contiguous fills: sums equal the plan's, and a bin needs nothing but prefix sums."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule import oracle
from tests.schedule.strategies import costs, problems
from workbench.schedule import CostModel, DecodePlan, DecodeProblem, balanced, cost_model
from workbench.schedule.fills import MAX_WEIGHT, UNITS, plan_from_cuts, snap, sum_bins, weighted_cuts
from workbench.schedule.policies import worth_in_tiles


def longest_bin(plan: DecodePlan, cost: CostModel) -> int:
    """Time of the longest bin of a persistent plan, were there no stream to wait for."""
    pace = cost.pace(plan.problem.total_tiles, plan.tile, plan.num_ctas)
    c, split = cost.constants, plan.split
    feet = [sum(c.descriptor_ns + c.partial_ns * int(s) for s in split[a:b]) for a, b in pairwise(plan.bin_offsets)]
    return max(int(pace.reading_ns(int(n))) + foot for n, foot in zip(plan.bin_tiles, feet, strict=True))


@settings(max_examples=250)
@given(problems(), costs())
def test_candidates_are_cuts_of_the_whole_stream(problem: DecodeProblem, cost: object) -> None:
    for cuts in balanced(cost).candidates(problem):
        assert cuts.shape == (problem.num_ctas + 1,)
        assert cuts[0] == 0
        assert cuts[-1] == problem.total_tiles
        assert (np.diff(cuts) >= 0).all()
        expected = oracle.cut_stream(problem.lengths.tolist(), problem.num_kv_heads, problem.tile, cuts.tolist())
        assert plan_from_cuts(problem, "x", cuts).as_lists() == expected


@settings(max_examples=250)
@given(problems(), costs(), st.data())
def test_sums_predict_exactly_what_the_plan_costs(problem: DecodeProblem, cost: object, data: st.DataObject) -> None:
    candidates = balanced(cost).candidates(problem)
    between = problem.num_ctas - 1
    inner = data.draw(st.lists(st.integers(0, problem.total_tiles), min_size=between, max_size=between))
    drawn = np.array([0, *sorted(inner), problem.total_tiles])
    empty_inside = (drawn[1:] == drawn[:-1]) & ~np.isin(drawn[1:], problem.starts)
    if not empty_inside.any():  # pieces are counted by bins
        candidates.append(drawn)
    for cuts in candidates:
        sums, plan = sum_bins(problem, cuts), plan_from_cuts(problem, "x", cuts)
        assert sums.tiles.tolist() == plan.bin_tiles.tolist()
        assert sums.descriptors.tolist() == np.diff(plan.bin_offsets).tolist()
        assert sums.split_pieces.tolist() == np.bincount(plan.cta[plan.split], minlength=problem.num_ctas).tolist()
        assert sums.max_chunks == plan.chunk_counts.max(initial=0)
        predicted, longest = sums.times_ns(cost, problem.tile)
        assert predicted == plan.spans(cost).makespan_ns
        assert longest == longest_bin(plan, cost)
        assert predicted / 1e3 == plan.metrics(cost).makespan_us


@settings(max_examples=100)
@given(problems(), costs())
def test_balanced_takes_the_best_candidate(problem: DecodeProblem, cost: object) -> None:
    policy = balanced(cost)
    plans = [plan_from_cuts(problem, "balanced", cuts) for cuts in policy.candidates(problem)]
    times = [(plan.spans(cost).makespan_ns, longest_bin(plan, cost)) for plan in plans]
    assert policy.plan(problem).as_lists() == plans[times.index(min(times))].as_lists()


def test_of_equal_makespans_the_shortest_longest_bin_decides() -> None:
    """Where the memory system decides, fewer and longer bins would end no later by the model."""
    cost = cost_model("H200", cache="bf16")
    cost = replace(cost, constants=replace(cost.constants, merge_ns=1, merge_chunk_ns=0, bytes_per_us=1_000_000))
    problem = DecodeProblem([4096] * 64, 1, 132)
    plans = [plan_from_cuts(problem, "x", cuts) for cuts in balanced(cost).candidates(problem)]
    split = [plan for plan in plans if plan.split.any()]
    assert len({plan.spans(cost).makespan_ns for plan in split}) == 1
    free = replace(cost, constants=replace(cost.constants, merge_ns=0))
    assert len({plan.spans(free).makespan_ns for plan in plans}) == 1
    assert balanced(free).plan(problem).bin_tiles.max() == min(plan.bin_tiles.max() for plan in plans)


@dataclass
class Scalars:
    """What one GPU thread would hold: two prefix sums over the requests of one KV head, and a few numbers."""

    starts: list[int]  # tiles before each request, one more than there are requests
    busy: list[int]  # requests with tiles before each request
    heads: int

    @classmethod
    def of(cls, problem: DecodeProblem) -> Scalars:
        starts, busy = [0], [0]
        for length in problem.lengths.tolist():
            tiles = oracle.tiles_of(length, problem.tile)
            starts.append(starts[-1] + tiles)
            busy.append(busy[-1] + (tiles > 0))
        return cls(starts, busy, problem.num_kv_heads)

    def bin(self, low: int, high: int) -> list[tuple[int, int, int, int]]:
        """Bin ``[low, high)`` alone, by binary search."""
        own, per_head = [], self.starts[-1]
        while low < high:
            head, inside = divmod(low, per_head)
            request = bisect_right(self.starts, inside) - 1
            stop = min(high, head * per_head + self.starts[request + 1])
            own.append((head, request, inside - self.starts[request], stop - low))
            low = stop
        return own

    def weighted_cut(self, c: int, foot: int, num_bins: int) -> int:
        """Cut ``c`` of the fill of equal weight, in plain integers; ``foot`` is what a descriptor weighs."""
        total = self.starts[-1] * self.heads
        least = 2 * (UNITS + foot)
        capacity = max(-(-(total * UNITS + self.busy[-1] * self.heads * foot) // num_bins), least)
        piece = (capacity - foot) // UNITS
        tiles = [b - a for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)]
        weights = [0]
        for _ in range(self.heads):
            for t in tiles:
                weights.append(weights[-1] + t * UNITS + -(-t // piece) * foot)
        capacity = max(-(-weights[-1] // num_bins), least)
        target = min(c * capacity, weights[-1])
        item = min(bisect_right(weights, target), len(weights) - 1) - 1
        whole, rest = divmod(target - weights[item], piece * UNITS + foot)
        head, request = divmod(item, len(tiles))
        start = head * self.starts[-1] + self.starts[request]
        return min(start + whole * piece + max(rest - foot, 0) // UNITS, start + tiles[request])

    def snapped(self, cut: int, reach: int) -> int:
        """``cut``, or the nearest request edge within ``reach`` tiles."""
        head, inside = divmod(cut, self.starts[-1])
        if head == self.heads:
            return cut
        request = bisect_right(self.starts, inside) - 1
        back, ahead = inside - self.starts[request], self.starts[request + 1] - inside
        if min(back, ahead) > reach:
            return cut
        return cut - back if back <= ahead else cut + ahead


@settings(max_examples=250)
@given(problems(), costs(), st.data())
def test_each_bin_can_be_computed_alone(problem: DecodeProblem, cost: object, data: st.DataObject) -> None:
    """One bin of every candidate from prefix sums of one KV head, with no other bin looked at."""
    if problem.total_tiles == 0:
        return
    alone = Scalars.of(problem)
    c = data.draw(st.integers(0, problem.num_ctas - 1))
    total, even = problem.total_tiles, -(-problem.total_tiles // problem.num_ctas)
    longest = max(oracle.tiles_of(length, problem.tile) for length in problem.lengths.tolist())
    fewer = max(even, -(-longest // max(longest // even - 1, 1)))
    upstream = max(even, problem.min_process_len // problem.tile)
    equal = {b: [min(at * b, total) for at in (c, c + 1)] for b in (even, fewer, upstream)}
    foot, worth = worth_in_tiles(cost, problem.tile, problem.num_ctas)
    timed = [alone.weighted_cut(at, foot, problem.num_ctas) for at in (c, c + 1)]
    fills = [(equal[upstream], -1), *((equal[b], b // 2) for b in (even, fewer))]
    fills += [(timed, reach) for reach in (worth, even // 4, even // 8)]
    ends = [[alone.snapped(cut, reach) for cut in fill] for fill, reach in fills]
    candidates = balanced(cost).candidates(problem)
    assert len(candidates) == len(ends)
    for cuts, (low, high) in zip(candidates, ends, strict=True):
        assert (cuts[c], cuts[c + 1]) == (low, high)
        assert plan_from_cuts(problem, "x", cuts).as_lists()[c] == alone.bin(low, high)


@given(problems(), st.data())
def test_snapping_moves_a_cut_only_to_a_near_edge(problem: DecodeProblem, data: st.DataObject) -> None:
    cuts = np.array(sorted(data.draw(st.lists(st.integers(0, problem.total_tiles), min_size=2, max_size=9))))
    reach = data.draw(st.integers(0, 6))
    if problem.total_tiles == 0:
        return
    edges = sorted(set(problem.starts.tolist()))
    for cut, moved in zip(cuts.tolist(), snap(problem, cuts, reach).tolist(), strict=True):
        nearest = min(abs(edge - cut) for edge in edges)
        if nearest > reach:
            assert moved == cut
        else:
            assert moved in edges
            assert abs(moved - cut) == nearest


def test_weights_that_might_not_fit_32_bits_make_no_fill() -> None:
    problem = DecodeProblem([64 * 1000] * 3, 2, 4)
    room = MAX_WEIGHT - problem.total_tiles * UNITS
    most = room // (6 + 2 * 4)  # six requests, and two more pieces a bin
    assert weighted_cuts(problem, most) is not None
    assert weighted_cuts(problem, most + 1) is None


@given(problems(), st.integers(0, 200))
def test_bins_of_equal_weight_weigh_no_more_than_one_share(problem: DecodeProblem, foot: int) -> None:
    """Tiles and descriptors of a bin, its first and last piece apart, are within a share of the whole weight."""
    if problem.total_tiles == 0:
        return
    cuts = weighted_cuts(problem, foot)
    assert cuts is not None
    busy = int((problem.tiles > 0).sum()) * problem.num_kv_heads
    most = problem.total_tiles * UNITS + (busy + 2 * problem.num_ctas) * foot
    share = max(-(-most // problem.num_ctas), 2 * (UNITS + foot))
    sums = sum_bins(problem, cuts)
    between = np.maximum(sums.descriptors - 2, 0)
    assert (sums.tiles * UNITS + between * foot <= share + foot + UNITS).all()
