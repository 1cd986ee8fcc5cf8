"""Policies of a persistent kernel: as many bins as CTAs are resident, and each bin any pieces."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workbench.schedule import fills
from workbench.schedule.costs import MAX_TIME_NS, CostModel, given_or_default
from workbench.schedule.plan import DecodePlan
from workbench.schedule.problem import DecodeProblem


@dataclass(frozen=True)
class hpc_ops:  # noqa: N801 - policies read as names: policy=hpc_ops()
    """Upstream HPC-Ops' rule, bit for bit: bins of equal tiles, filled in order, a full bin spills to the next."""

    name: str = "hpc-ops"

    def plan(self, problem: DecodeProblem) -> DecodePlan:
        """Schedule ``problem``."""
        return fills.plan_from_cuts(problem, self.name, fills.equal_cuts(problem, fills.hpc_ops_budget(problem)))


SNAP_SHARES = (4, 8)
"""``balanced`` moves cuts to request edges that lie within one part in so many of an even bin."""


@dataclass(frozen=True)
class balanced:  # noqa: N801
    """The best of a few contiguous fills by predicted makespan, ``hpc-ops`` among them.

    Of equal makespans, as there are where the memory system decides, the fill with the shortest longest bin is taken.

    Candidates, in the order in which ties are decided: upstream's fill; bins of equal tiles, as many as there are CTAs
    (:func:`fills.even_budget`) or fewer (:func:`fills.piece_budget`), cuts snapped to request edges up to half a bin
    away; bins of equal time (:func:`fills.weighted_cuts`) with cuts snapped as far as a piece saved is worth, then as
    far as each of :data:`SNAP_SHARES` of an even bin. Predictions are whole nanoseconds, so that a GPU finds the same
    winner.

    Attributes
    ----------
    costs : CostModel, optional
        Cost model that decides; default: decode attention with an FP8 cache on an H200. The bare name ``"balanced"``
        decides by the cost model that its caller was told of (:func:`plan_decode`, ``build_task_map``, a sweep, the
        explorer, the report), and by that default where there is none.
    """

    costs: CostModel | None = None
    name: str = "balanced"

    def __post_init__(self) -> None:
        given_or_default(self.costs)

    def candidates(self, problem: DecodeProblem) -> list[fills.Cuts]:
        """The fills considered, best tie first."""
        cuts = [fills.equal_cuts(problem, fills.hpc_ops_budget(problem))]
        if problem.total_tiles == 0:
            return cuts
        even = fills.even_budget(problem)
        for budget in (even, fills.piece_budget(problem)):
            cuts.append(fills.snap(problem, fills.equal_cuts(problem, budget), budget // 2))
        descriptor_weight, piece_tiles = worth_in_tiles(given_or_default(self.costs), problem.tile, problem.num_ctas)
        timed = fills.weighted_cuts(problem, descriptor_weight)
        if timed is not None:
            cuts += [fills.snap(problem, timed, reach) for reach in (piece_tiles, *(even // s for s in SNAP_SHARES))]
        return cuts

    def plan(self, problem: DecodeProblem) -> DecodePlan:
        """Schedule ``problem``."""
        cost = given_or_default(self.costs)
        candidates = self.candidates(problem)
        times = np.minimum(
            [fills.sum_bins(problem, cuts).times_ns(cost, problem.tile) for cuts in candidates], MAX_TIME_NS
        )
        best = min(range(len(candidates)), key=lambda i: tuple(times[i]))
        return fills.plan_from_cuts(problem, self.name, candidates[best])


def worth_in_tiles(cost: CostModel, tile: int, num_ctas: int) -> tuple[int, int]:
    """What a descriptor weighs, in parts of a tile (:data:`fills.UNITS`), and the whole tiles that a piece is worth.

    A tile counts with the mean of a CTA's own pace and of its share of the bandwidth: by the share alone, descriptors
    weighed too little in bf16 where short requests meet long ones. A piece saved saves a descriptor and a partial
    result.
    """
    c = cost.constants
    own = cost.cta_tile_ns(tile, num_ctas)
    tile_ns = (own + max(own, cost.stream_ns(num_ctas, tile))) // 2
    weight = (c.descriptor_ns * fills.UNITS + tile_ns // 2) // tile_ns
    return min(weight, fills.MAX_WEIGHT), min((c.descriptor_ns + c.partial_ns) // tile_ns, fills.MAX_WEIGHT)


@dataclass(frozen=True)
class lpt:  # noqa: N801
    """Longest processing time first: pieces of at most one budget, each to the bin with the fewest tiles so far.

    The budget is upstream's (:func:`fills.hpc_ops_budget`), so a long request is cut as finely as there. Graham's
    bound (1969) holds for the pieces: the fullest bin has at most 4/3 - 1/(3 num_ctas) of the least possible.
    """

    name: str = "lpt"

    def plan(self, problem: DecodeProblem) -> DecodePlan:
        """Schedule ``problem``."""
        budget = max(fills.hpc_ops_budget(problem), 1)
        tiles = np.tile(problem.tiles, problem.num_kv_heads)
        pieces = -(-tiles // budget)
        item = np.repeat(np.arange(tiles.size), pieces)
        first = (np.arange(item.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)) * budget
        size = np.minimum(tiles[item] - first, budget)
        order = np.argsort(-size, kind="stable")
        bins = _least_loaded(size[order], problem.num_ctas)
        order = order[np.argsort(bins, kind="stable")]
        kv_head, request = np.divmod(item[order], max(problem.batch, 1))
        counts = np.bincount(bins, minlength=problem.num_ctas)
        return DecodePlan.assemble(problem, self.name, counts, (kv_head, request, first[order], size[order]))


def _least_loaded(sizes: npt.NDArray[np.int64], num_bins: int) -> npt.NDArray[np.int64]:
    heap = [(0, c) for c in range(num_bins)]
    chosen = np.empty(sizes.size, np.int64)
    for i, size in enumerate(sizes.tolist()):
        load, c = heap[0]
        chosen[i] = c
        heapq.heapreplace(heap, (load + size, c))
    return chosen
