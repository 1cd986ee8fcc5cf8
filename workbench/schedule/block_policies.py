"""Built-in policies over many steps at once; each gives what its plans would, without making them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np

from workbench.schedule import block_fills as fills
from workbench.schedule import policies
from workbench.schedule.blocks import Block, Ints, Outcome, bins_ns_of, merge_ns_of, offsets_of, reading_ns_of
from workbench.schedule.costs import MAX_TIME_NS, CostModel, given_or_default
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
    shortest, lowest = np.full((2, block.steps), FAR)
    for where, fill in candidates:
        decided = fill.outcome(deciding, block.tile, block.num_ctas)
        outcome = decided if deciding == cost else fill.outcome(cost, block.tile, block.num_ctas)
        makespan = np.minimum(decided.makespan_ns, MAX_TIME_NS)
        longest = np.minimum(decided.longest_ns, MAX_TIME_NS)
        better = where & ((makespan < shortest) | ((makespan == shortest) & (longest < lowest)))
        shortest[better], lowest[better] = makespan[better], longest[better]
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
    whole_reading = cost.pace(block.totals, block.tile, block.num_ctas).reading_ns(budget)
    reading = cost.pace(block.totals[:, None], block.tile, block.num_ctas).reading_ns(load)
    whole_end = np.where(used > 0, whole_reading + whole_foot, 0)
    longest = np.maximum(whole_end, (reading + fixed).max(axis=1, initial=0))
    own = np.add.reduceat(chunks * foot, rows) + used * whole_reading + reading.sum(axis=1)
    bins = bins_ns_of(cost, block.totals, block.tile, longest, c.descriptor_ns)
    return Outcome(longest, own, bins, merge_ns_of(cost, np.maximum.reduceat(chunks, rows)), most)


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
    most, longest, max_chunks = np.zeros((3, block.steps), np.int64)
    counts = np.diff(block.offsets)
    pace = cost.pace(np.repeat(block.totals, counts), block.tile, block.num_ctas)
    reading = reading_ns_of(pace, block.tiles, np.maximum(per_item, 1))
    low = block.offsets[:-1]
    some = np.flatnonzero(counts)
    if some.size:
        max_chunks[some] = np.maximum.reduceat(pieces, low[some])
        most[some] = np.maximum.reduceat(full, low[some])
        ends = np.where(full > 0, pace.reading_ns(full) + foot, 0)
        longest[some] = np.maximum.reduceat(ends, low[some])
        longest = np.maximum(longest, np.where(empty > 0, c.empty_ns, 0))
    waves = bins > block.num_ctas
    for s in np.flatnonzero(waves).tolist():
        longest[s], most[s] = _waves(block, s, per_item, foot, int(grid[s]), cost)
    own = fixed + block.num_kv_heads * np.diff(offsets_of(reading)[block.offsets])
    opening = np.maximum(np.where(waves, fixed // block.num_ctas, 0), c.descriptor_ns)
    ends = bins_ns_of(cost, block.totals, block.tile, longest, opening)
    return Outcome(longest, own, ends, merge_ns_of(cost, max_chunks), most)


def _waves(block: Block, step: int, per_item: Ints, foot: Ints, grid: int, cost: CostModel) -> tuple[int, int]:
    """One step's static grid of more than one wave: end of the last slot as ``timing.place`` has it, most tiles."""
    here = slice(*block.offsets[step : step + 2].tolist())
    tiles, per, slots = block.tiles[here], per_item[here], block.num_ctas
    sizes = np.clip(tiles[:, None] - np.arange(grid) * per[:, None], 0, per[:, None])
    feet = np.where(sizes > 0, foot[here, None], cost.constants.empty_ns)
    sizes = np.tile(sizes.ravel(), block.num_kv_heads)
    durations = np.tile(feet.ravel(), block.num_kv_heads)
    durations = durations + cost.pace(int(block.totals[step]), block.tile, slots).reading_ns(sizes)
    slot = first_free(durations, slots)
    ends, most = (np.bincount(slot, weights=values, minlength=slots).max() for values in (durations, sizes))
    return int(ends), int(most)
