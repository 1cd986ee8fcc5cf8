"""What is wrong with a plan, in words that someone who wrote a scheduler can act on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workbench.schedule.plan import DecodePlan

MOST_PROBLEMS = 50
"""Problems listed; a further one says that there are more."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a plan.

    Attributes
    ----------
    kind : str
        ``"outside"``, ``"empty piece"``, ``"twice"``, ``"missing"``, ``"malformed"`` or ``"more"``.
    message : str
        What is wrong, and where.
    request, kv_head : int or None
    ctas : tuple of int
        The CTAs concerned.
    """

    kind: str
    message: str
    request: int | None = None
    kv_head: int | None = None
    ctas: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.message


def find_problems(plan: DecodePlan) -> list[Problem]:
    """All problems of ``plan``, up to :data:`MOST_PROBLEMS`.

    A valid plan assigns every tile of every (KV head, request) to exactly one CTA.
    """
    found: list[Problem] = []
    for problem in _problems(plan):
        if len(found) == MOST_PROBLEMS:
            found.append(Problem("more", f"and more: only the first {MOST_PROBLEMS} problems are listed"))
            break
        found.append(problem)
    return found


def _tiles(first: int, end: int) -> str:
    return f"tile {first}" if end - first == 1 else f"tiles {first}-{end - 1}"


def _where(plan: DecodePlan, request: int, kv_head: int) -> str:
    return f"request {request}" + (f", KV head {kv_head}" if plan.num_kv_heads > 1 else "")


def _shape_problem(plan: DecodePlan) -> str | None:
    """What keeps the columns from being read at all; None where they can be."""
    sizes = {name: getattr(plan, name).shape for name in ("kv_head", "request", "first_tile", "num_tiles")}
    if len(set(sizes.values())) != 1 or len(next(iter(sizes.values()))) != 1:
        return f"the columns have shapes {', '.join(f'{name} {shape}' for name, shape in sizes.items())}; one is meant"
    offsets = plan.bin_offsets
    if offsets.ndim != 1 or not offsets.size or offsets[0] != 0 or offsets[-1] != plan.num_descriptors:
        return f"bin_offsets must run from 0 to the {plan.num_descriptors} descriptors"
    return "bin_offsets must not decrease" if (np.diff(offsets) < 0).any() else None


def _problems(plan: DecodePlan) -> Iterator[Problem]:
    if wrong := _shape_problem(plan):
        yield Problem("malformed", wrong)
        return
    tiles = plan.problem.tiles
    head, request = plan.kv_head, plan.request
    first = plan.first_tile.astype(np.int64)
    end = first + plan.num_tiles
    known = (head >= 0) & (head < plan.num_kv_heads) & (request >= 0) & (request < plan.problem.batch)
    have = np.zeros(request.size, np.int64)
    have[known] = tiles[request[known]]
    inside = known & (first >= 0) & (end <= have)
    nowhere = f"KV heads are 0-{plan.num_kv_heads - 1}, " + (
        f"requests 0-{plan.problem.batch - 1}" if plan.problem.batch else "and the batch has no request"
    )

    for i in np.flatnonzero(~inside | (plan.num_tiles <= 0)).tolist():
        cta, b, h = int(plan.cta[i]), int(request[i]), int(head[i])
        entry = f"CTA {cta}: (kv_head {h}, request {b}, first_tile {first[i]}, num_tiles {plan.num_tiles[i]})"
        if not known[i]:
            yield Problem("outside", f"{entry} names something that does not exist: {nowhere}", b, h, (cta,))
        elif plan.num_tiles[i] <= 0:
            yield Problem("empty piece", f"{entry} reads nothing: num_tiles must be at least 1", b, h, (cta,))
        elif first[i] < 0:
            yield Problem("outside", f"{entry} starts before tile 0 of {_where(plan, b, h)}", b, h, (cta,))
        else:
            has = f"has {have[i]} tiles ({plan.lengths[b]} tokens)" if have[i] else "is empty"
            yield Problem("outside", f"{entry} reads past the end: {_where(plan, b, h)} {has}", b, h, (cta,))

    # Walk each (KV head, request) in order of first tile; what is read twice overlaps an earlier piece, what is
    # read by nobody is a gap. A piece that leaves its request still reads what lies inside.
    first, end = np.maximum(first, 0), np.minimum(end, have)
    kept = np.flatnonzero(known & (first < end))
    item = head[kept].astype(np.int64) * plan.problem.batch + request[kept]
    order = np.lexsort((end[kept], first[kept], item))
    kept, item = kept[order], item[order]
    new = np.ones(kept.size, bool)
    new[1:] = item[1:] != item[:-1]
    # Furthest end so far within the item: pieces are offset by item so that one running maximum serves all.
    stride = int(tiles.max(initial=0)) + 1
    reach = np.maximum.accumulate(item * stride + end[kept]) - item * stride
    before = np.zeros(kept.size, np.int64)
    before[1:] = reach[:-1]
    before[new] = 0

    for i in np.flatnonzero(first[kept] < before).tolist():
        j = i - 1
        while end[kept[j]] <= first[kept[i]]:
            j -= 1
        a, b = int(kept[j]), int(kept[i])
        low, high = int(first[b]), int(min(end[a], end[b]))
        ctas = (int(plan.cta[a]), int(plan.cta[b]))
        to = f"to CTA {ctas[0]} and CTA {ctas[1]}" if ctas[0] != ctas[1] else f"both times to CTA {ctas[0]}"
        where = _where(plan, int(request[b]), int(head[b]))
        text = f"{where}: {_tiles(low, high)} assigned twice, {to}"
        yield Problem("twice", text, int(request[b]), int(head[b]), ctas)

    covered = np.zeros(plan.num_kv_heads * plan.problem.batch, np.int64)
    np.maximum.at(covered, item, end[kept])
    gaps = [(int(item[i]), int(before[i]), int(first[kept[i]])) for i in np.flatnonzero(first[kept] > before)]
    all_tiles = np.tile(tiles, plan.num_kv_heads)
    gaps += [(int(i), int(covered[i]), int(all_tiles[i])) for i in np.flatnonzero(covered < all_tiles)]
    for at, low, high in sorted(gaps):
        h, b = divmod(at, plan.problem.batch)
        text = f"{_where(plan, b, h)}: {_tiles(low, high)} assigned to no CTA"
        yield Problem("missing", text, b, h)
