"""Built-in policies over many steps at once; each gives what its plans would, without making them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np

from workbench.schedule import block_fills as fills
from workbench.schedule import policies
from workbench.schedule.blocks import Block, Ints, Outcome, merge_ns_of, offsets_of, tile_ns_of
from workbench.schedule.costs import CostModel, given_or_default
from workbench.schedule.policies import Policy
from workbench.schedule.timing import first_free

LARGEST_GRID = 1 << 22
"""CTAs of a grid beyond which one plan at a time is made, so that it can be refused."""

FAR = np.iinfo(np.int64).max


def evaluate(policy: Policy, block: Block, cost: CostModel) -> Outcome | None:
    """Times of a policy's plans for every step of a block; None where that is not known here: make the plans."""
    if type(policy) is policies.fixed_splits:
        return _static_grid(block, -(-block.tiles // policy.n), np.full(block.steps, policy.n), cost)
    if type(policy) is policies.fixed_chunk:
        chunk = policy.tokens // block.tile
        return _static_grid(block, np.full(block.tiles.size, chunk), -(-_longest(block) // chunk), cost)
    persistent = _PERSISTENT.get(type(policy))
    if persistent is None:
        return None
    live = block.totals > 0
    if not live.any():
        return Outcome(*(np.zeros(block.steps, np.int64) for _ in fields(Outcome)))
    if live.all():
        return persistent(policy, block, cost)
    found = persistent(policy, block.take(live), cost)
    columns = []
    for column in fields(Outcome):
        values = np.zeros(block.steps, np.int64)
        values[live] = getattr(found, column.name)
        columns.append(values)
    return Outcome(*columns)


def _longest(block: Block) -> Ints:
    """Tiles of the longest request of each step, int64 [steps]; 0 for an empty batch."""
    longest = np.zeros(block.steps, np.int64)
    full = np.diff(block.offsets) > 0
    if full.any():
        longest[full] = np.maximum.reduceat(block.tiles, block.offsets[:-1][full])
    return longest


def _budget(block: Block) -> Ints:
    return np.maximum(block.even, block.floor_tiles)


def _hpc_ops(policy: Policy, block: Block, cost: CostModel) -> Outcome:
    return fills.equal_fill(block, _budget(block)).outcome(cost, block.tile, block.num_ctas)


def _balanced(policy: Policy, block: Block, cost: CostModel) -> Outcome:
    """The candidates of :class:`workbench.schedule.policies.balanced`, in its order, and the best of each step."""
    deciding = given_or_default(getattr(policy, "costs", None))
    every = np.ones(block.steps, bool)
    candidates = [(every, fills.equal_fill(block, _budget(block)))]
    longest = _longest(block)
    pieces = np.maximum(longest // np.maximum(block.even, 1) - 1, 1)
    for budget in (block.even, np.maximum(block.even, -(-longest // pieces))):
        cuts = fills.snapped(block, fills.equal_cuts(block, budget), budget // 2)
        candidates.append((every, fills.cut_fill(block, cuts)))
    descriptor_weight, piece_tiles = policies.worth_in_tiles(deciding, block.tile, block.num_ctas)
    exists, timed = fills.weighted_cuts(block, descriptor_weight)
    reaches = (np.full(block.steps, piece_tiles), *(block.even // share for share in policies.SNAP_SHARES))
    for reach in reaches:
        candidates.append((exists, fills.cut_fill(block, fills.snapped(block, timed, reach))))

    best: dict[str, Ints] = {column.name: np.zeros(block.steps, np.int64) for column in fields(Outcome)}
    shortest = np.full(block.steps, FAR)
    for where, fill in candidates:
        decided = fill.outcome(deciding, block.tile, block.num_ctas)
        outcome = decided if deciding == cost else fill.outcome(cost, block.tile, block.num_ctas)
        makespan = np.minimum(decided.makespan_ns, policies.MAX_TIME_NS)
        better = where & (makespan < shortest)
        shortest[better] = makespan[better]
        for name, values in best.items():
            values[better] = getattr(outcome, name)[better]
    return Outcome(**best)


def _lpt(policy: Policy, block: Block, cost: CostModel) -> Outcome:
    """Whole budgets go to empty bins, one each; the remainders, longest first, to the bins that are left."""
    c = cost.constants
    items, budget = block.items, np.maximum(_budget(block), 1)
    size = budget[items.step]
    whole, rest = np.divmod(items.tiles, size)
    chunks = whole + (rest > 0)
    foot = np.where(chunks > 1, c.descriptor_ns + c.partial_ns, c.descriptor_ns)
    rows = items.bounds[:-1]
    whole_foot = np.maximum.reduceat(np.where(whole > 0, foot, 0), rows)
    used = np.add.reduceat(whole, rows)

    left = np.flatnonzero(rest)
    left = left[np.lexsort((-rest[left], items.step[left]))]
    step = items.step[left]
    count = np.bincount(step, minlength=block.steps)
    place = np.arange(left.size) - offsets_of(count)[step]
    width = int(count.max(initial=0))
    # Remainders as a table [steps, most remainders], longest first; a bin's load and fixed time likewise.
    pieces = np.zeros((block.steps, width), np.int64)
    feet = np.zeros((block.steps, width), np.int64)
    pieces[step, place], feet[step, place] = rest[left], foot[left]
    bins = block.num_ctas - used
    closed = np.arange(width) >= bins[:, None]
    load = np.where(closed, FAR, pieces)
    fixed = np.where(closed, 0, feet)
    for k in range(int(bins.min()), width):
        late = np.flatnonzero((k >= bins) & (k < count))
        to = np.argmin(load[late], axis=1)
        load[late, to] += pieces[late, k]
        fixed[late, to] += feet[late, k]
    load[closed] = 0

    most = np.maximum(np.where(used > 0, budget, 0), load.max(axis=1, initial=0))
    tile_ns = tile_ns_of(cost, block.totals, most, block.tile, block.num_ctas)
    whole_end = np.where(used > 0, budget * tile_ns + whole_foot, 0)
    ends = np.maximum(whole_end, (load * tile_ns[:, None] + fixed).max(axis=1, initial=0))
    busy = np.add.reduceat(chunks * foot, rows) + block.totals * tile_ns
    return Outcome(ends, merge_ns_of(cost, np.maximum.reduceat(chunks, rows)), busy, most)


_PERSISTENT: dict[type, Callable[[Policy, Block, CostModel], Outcome]] = {
    policies.hpc_ops: _hpc_ops,
    policies.balanced: _balanced,
    policies.lpt: _lpt,
}


def _static_grid(block: Block, per_item: Ints, grid: Ints, cost: CostModel) -> Outcome | None:
    """Grids of ``grid[step]`` CTAs a (KV head, request), each with up to ``per_item[request]`` tiles."""
    c = cost.constants
    pieces = -(-block.tiles // np.maximum(per_item, 1))
    foot = np.where(pieces > 1, c.descriptor_ns + c.partial_ns, c.descriptor_ns)
    full = np.minimum(per_item, block.tiles)
    bins = np.diff(block.offsets) * grid * block.num_kv_heads
    if bins.max(initial=0) > LARGEST_GRID:
        return None
    empty = bins - block.num_kv_heads * np.diff(offsets_of(pieces)[block.offsets])
    fixed = block.num_kv_heads * np.diff(offsets_of(pieces * foot)[block.offsets]) + empty * c.empty_ns
    most, ends, max_chunks = np.zeros((3, block.steps), np.int64)
    low = block.offsets[:-1]
    some = np.flatnonzero(np.diff(block.offsets))
    if some.size:
        max_chunks[some] = np.maximum.reduceat(pieces, low[some])
        most[some] = np.maximum.reduceat(full, low[some])
    waves = np.flatnonzero(bins > block.num_ctas)
    jobs = [_Grid(block, s, per_item, pieces, foot, int(grid[s]), cost) for s in waves.tolist()]
    most[waves] = [job.most for job in jobs]
    tile_ns = tile_ns_of(cost, block.totals, most, block.tile, block.num_ctas)
    if some.size:
        longest = np.where(full > 0, full * np.repeat(tile_ns, np.diff(block.offsets)) + foot, 0)
        ends[some] = np.maximum.reduceat(longest, low[some])
        ends = np.maximum(ends, np.where(empty > 0, c.empty_ns, 0))
    ends[waves] = [job.end(int(tile_ns[s])) for s, job in zip(waves.tolist(), jobs, strict=True)]
    return Outcome(ends, merge_ns_of(cost, max_chunks), fixed + block.totals * tile_ns, most)


class _Grid:
    """One step's static grid that needs more than one wave: which slot runs which CTA, as ``timing.place`` decides."""

    def __init__(
        self, block: Block, step: int, per_item: Ints, pieces: Ints, foot: Ints, grid: int, cost: CostModel
    ) -> None:
        here = slice(*block.offsets[step : step + 2].tolist())
        tiles, per, slots = block.tiles[here], per_item[here], block.num_ctas
        sizes = np.clip(tiles[:, None] - np.arange(grid) * per[:, None], 0, per[:, None])
        feet = np.where(sizes > 0, foot[here, None], cost.constants.empty_ns)
        sizes = np.tile(sizes.ravel(), block.num_kv_heads)
        feet = np.tile(feet.ravel(), block.num_kv_heads)
        total = int(block.totals[step])
        guess = cost.tile_ns(total, max(int(sizes.max(initial=0)), -(-total // slots)), block.tile, slots)
        slot = first_free(feet + sizes * guess, slots)
        self.tiles = np.bincount(slot, weights=sizes, minlength=slots).astype(np.int64)
        self.feet = np.bincount(slot, weights=feet, minlength=slots).astype(np.int64)

    @property
    def most(self) -> int:
        """Tiles of the fullest slot."""
        return int(self.tiles.max())

    def end(self, tile_ns: int) -> int:
        """End of the last CTA, nanoseconds."""
        return int((self.feet + self.tiles * tile_ns).max())
