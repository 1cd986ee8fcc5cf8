"""Contiguous fills: the stream of tiles cut at a few positions, one interval a bin.

The stream holds the tiles of every (KV head, request) in order, KV head outermost. A fill is an int64 array of
``num_ctas + 1`` nondecreasing cut positions from 0 to the number of tiles; CTA ``c`` reads tiles
``cuts[c]:cuts[c + 1]``. Each cut follows from prefix sums alone, so a GPU thread can compute its own bin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workbench.schedule.costs import CostModel
from workbench.schedule.plan import DecodePlan
from workbench.schedule.problem import DecodeProblem

Cuts = npt.NDArray[np.int64]


def even_budget(problem: DecodeProblem) -> int:
    """Tiles a bin when they are spread evenly: ``ceil(total / num_ctas)``."""
    return -(-problem.total_tiles // problem.num_ctas)


def hpc_ops_budget(problem: DecodeProblem) -> int:
    """Tiles a bin under upstream HPC-Ops' rule: ``max(ceil(total / num_ctas), floor(min_process_len / tile))``."""
    return max(even_budget(problem), problem.floor_tiles)


def equal_cuts(problem: DecodeProblem, budget: int) -> Cuts:
    """Bins of ``budget`` tiles each, in order, until the tiles run out."""
    return np.minimum(np.arange(problem.num_ctas + 1, dtype=np.int64) * budget, problem.total_tiles)


def piece_budget(problem: DecodeProblem) -> int:
    """A budget above the even one that cuts the longest request into equal pieces.

    With ``t`` tiles in the longest request and ``even`` in an evenly filled bin, ``t`` is cut into
    ``floor(t / even) - 1`` pieces, at least one. Where requests are alike or the long ones are multiples of the short,
    bins of this size begin and end at requests.
    """
    even, longest = even_budget(problem), int(problem.tiles.max(initial=0))
    return max(even, -(-longest // max(longest // max(even, 1) - 1, 1)))


UNITS = 16
"""Parts of a tile in which :func:`weighted_cuts` measures."""

MAX_WEIGHT = 2**31 - 1


def weighted_cuts(problem: DecodeProblem, descriptor_weight: int) -> Cuts | None:
    """Bins of equal weight instead of equal tiles: a tile weighs :data:`UNITS`, a descriptor ``descriptor_weight``.

    A request longer than a bin pays for a descriptor once a piece, so it weighs that much more: with ``m`` tiles a
    piece, ``tiles * UNITS + ceil(tiles / m) * descriptor_weight``. A cut that falls at weight ``v`` inside a request
    gives ``floor(v / (m * UNITS + descriptor_weight))`` whole pieces and the tiles that fit the rest. The least bin
    has room for two tiles with a descriptor each.

    Returns
    -------
    int64 array [num_ctas + 1] or None
        None where the weight of the batch might not fit 32 bits, in which a GPU counts it.
    """
    tiles, starts, num_bins = problem.tiles, problem.starts, problem.num_ctas
    busy = int(np.count_nonzero(tiles)) * problem.num_kv_heads
    # Cutting adds two pieces a bin at most.
    if problem.total_tiles * UNITS + (busy + 2 * num_bins) * descriptor_weight > MAX_WEIGHT:
        return None
    least = 2 * (UNITS + descriptor_weight)
    capacity = max(-(-(problem.total_tiles * UNITS + busy * descriptor_weight) // num_bins), least)
    piece = (capacity - descriptor_weight) // UNITS
    pieces = np.zeros(starts.size, np.int64)
    np.cumsum(np.tile(-(-tiles // piece), problem.num_kv_heads), out=pieces[1:])
    weight = starts * UNITS + pieces * descriptor_weight
    capacity = max(-(-int(weight[-1]) // num_bins), least)

    targets = np.minimum(np.arange(num_bins + 1, dtype=np.int64) * capacity, weight[-1])
    item = np.minimum(np.searchsorted(weight, targets, side="right") - 1, starts.size - 2)
    inside = targets - weight[item]
    whole, rest = np.divmod(inside, piece * UNITS + descriptor_weight)
    tiles_inside = whole * piece + np.maximum(rest - descriptor_weight, 0) // UNITS
    cuts: Cuts = np.minimum(starts[item] + tiles_inside, starts[item + 1])
    return cuts


def snap(problem: DecodeProblem, cuts: Cuts, reach: int) -> Cuts:
    """Move each cut that lies within ``reach`` tiles of a request's edge to the nearest edge (a tie goes back).

    Several cuts may end up at one edge; the bins between them are empty.
    """
    starts = problem.starts
    item = np.minimum(np.searchsorted(starts, cuts, side="right") - 1, starts.size - 2)
    back, ahead = cuts - starts[item], starts[item + 1] - cuts
    snapped = np.where(back <= ahead, starts[item], starts[item + 1])
    return np.where(np.minimum(back, ahead) <= reach, snapped, cuts)


@dataclass(frozen=True)
class BinSums:
    """What the cost model needs to know of each bin; int64 arrays [num_ctas]."""

    tiles: npt.NDArray[np.int64]
    descriptors: npt.NDArray[np.int64]
    split_pieces: npt.NDArray[np.int64]
    max_chunks: int

    def times_ns(self, cost: CostModel, tile: int) -> tuple[int, int]:
        """Predicted makespan, merge included, and the longest bin; see :mod:`workbench.schedule.costs`."""
        c, total = cost.constants, int(self.tiles.sum())
        reading = cost.pace(total, tile, self.tiles.size).reading_ns(self.tiles)
        bins = reading + self.descriptors * c.descriptor_ns + self.split_pieces * c.partial_ns
        longest = int(bins.max(initial=0))
        stream = cost.stream_ns(total, tile) + c.descriptor_ns if total else 0
        return max(longest, stream) + cost.merge_ns(self.max_chunks), longest


def sum_bins(problem: DecodeProblem, cuts: Cuts) -> BinSums:
    """Count tiles, descriptors and pieces of split requests in each bin, from prefix sums and a few searches a bin.

    An empty bin before a full one must lie at a request's edge, as after :func:`snap`: pieces are counted by bins.
    """
    starts = problem.starts
    low, high = cuts[:-1], cuts[1:]
    tiles = high - low
    full = tiles > 0
    if not full.any():
        nothing = np.zeros(problem.num_ctas, np.int64)
        return BinSums(nothing, nothing, nothing, 0)
    rank = np.cumsum(np.tile(problem.tiles > 0, problem.num_kv_heads))
    first = np.searchsorted(starts, low, side="right") - 1
    last = np.searchsorted(starts, high - 1, side="right") - 1
    first, last = np.where(full, first, 0), np.where(full, last, 0)
    descriptors = np.where(full, rank[last] - rank[first] + 1, 0)
    first_split = (low > starts[first]) | (high < starts[first + 1])
    last_split = (last > first) & (high < starts[last + 1])
    split_pieces = np.where(full, first_split.astype(np.int64) + last_split, 0)
    # A request's pieces lie in consecutive bins, so its chunk number is a difference of bins. The last piece of a split
    # request is the first piece of its bin.
    home = np.searchsorted(cuts, starts[first], side="right") - 1
    chunks = np.where(full, np.arange(problem.num_ctas) - home + 1, 0)
    return BinSums(tiles, descriptors, split_pieces, int(chunks.max()))


def plan_from_cuts(problem: DecodeProblem, policy: str, cuts: Cuts) -> DecodePlan:
    """The plan whose CTA ``c`` reads tiles ``cuts[c]:cuts[c + 1]`` of the stream."""
    starts = problem.starts
    items = np.flatnonzero(np.tile(problem.tiles > 0, problem.num_kv_heads))
    begin = starts[items]
    inner = np.unique(cuts[(cuts > 0) & (cuts < problem.total_tiles)])
    at = np.searchsorted(begin, inner, side="left")
    new = np.append(begin, problem.total_tiles)[at] != inner
    edges = np.insert(begin, at[new], inner[new])
    owner = np.insert(items, at[new], items[at[new] - 1])
    num_tiles = np.diff(edges, append=problem.total_tiles)
    kv_head, request = np.divmod(owner, max(problem.batch, 1))
    return DecodePlan(
        problem,
        policy,
        np.searchsorted(edges, cuts, side="left"),
        kv_head.astype(np.int32),
        request.astype(np.int32),
        (edges - starts[owner]).astype(np.int32),
        num_tiles.astype(np.int32),
    )
