"""Solutions to the exercises of 01_load_balancing.ipynb. Try them first.

Each function can be pasted into its exercise cell, or loaded: ``%load solutions/01_load_balancing.py``.
"""

import itertools

from workbench.schedule import cost_model, plan_decode


def equal_bins(lengths, num_kv_heads, num_ctas, tile):
    """Exercise 1. ``room`` is what is left in the present bin; a request goes on in the next bin when it is 0."""
    tiles = [-(-int(length) // tile) for length in lengths]  # round up: a part of a tile is a tile
    budget = max(1, -(-sum(tiles) * num_kv_heads // num_ctas))  # at least 1: a batch may be empty
    bins = [[] for _ in range(num_ctas)]
    cta, room = 0, budget
    for head in range(num_kv_heads):
        for request, count in enumerate(tiles):
            first = 0
            while first < count:
                if room == 0:
                    cta, room = cta + 1, budget
                size = min(room, count - first)
                bins[cta].append((head, request, first, size))
                first, room = first + size, room - size
    return bins


def with_floor(lengths, num_kv_heads, num_ctas, tile, floor=512):
    """Exercise 2. Only the budget changes. It helps where the equal share is a tile or two (64x0.5K: no request is
    split, so nothing is merged) and hurts where it leaves CTAs idle that a long request could use.
    """
    tiles = [-(-int(length) // tile) for length in lengths]
    budget = max(1, -(-sum(tiles) * num_kv_heads // num_ctas), floor // tile)
    bins = [[] for _ in range(num_ctas)]
    cta, room = 0, budget
    for head in range(num_kv_heads):
        for request, count in enumerate(tiles):
            first = 0
            while first < count:
                if room == 0:
                    cta, room = cta + 1, budget
                size = min(room, count - first)
                bins[cta].append((head, request, first, size))
                first, room = first + size, room - size
    return bins


def best_of(lengths, num_kv_heads, num_ctas, tile):
    """Exercise 3. No single rule is best on every batch, so try several and keep the one that is predicted fastest.

    The tries: the fill of exercise 2 with several budgets, a little above the equal share too since that often spares
    a cut; and longest piece first to the emptiest bin, with pieces of several sizes, where load is counted in time,
    feet included. Trying costs time on the CPU, which the checker does not count. A scheduler on a GPU has
    microseconds: that is why `balanced` has but a few candidates, each of which can be computed bin by bin.
    """
    tiles = [-(-int(length) // tile) for length in lengths]
    total = sum(tiles) * num_kv_heads
    cost = cost_model()
    share = max(1, -(-total // num_ctas))
    tile_ns = max(cost.cta_tile_ns(tile, num_ctas), cost.stream_ns(num_ctas, tile))  # while all CTAs stream
    foot_ns = cost.constants.descriptor_ns

    def fill(budget):
        bins = [[] for _ in range(num_ctas)]
        cta, room = 0, budget
        for head in range(num_kv_heads):
            for request, count in enumerate(tiles):
                first = 0
                while first < count:
                    if room == 0:
                        cta, room = cta + 1, budget
                    size = min(room, count - first)
                    bins[cta].append((head, request, first, size))
                    first, room = first + size, room - size
        return bins

    def longest_first(size):
        pieces = []
        for head in range(num_kv_heads):
            for request, count in enumerate(tiles):
                parts = -(-count // size)
                edges = [count * part // parts for part in range(parts + 1)] if parts else [0]
                pieces += [(head, request, low, high - low) for low, high in itertools.pairwise(edges)]
        pieces.sort(key=lambda piece: -piece[3])
        bins, load = [[] for _ in range(num_ctas)], [0] * num_ctas
        for piece in pieces:
            cta = load.index(min(load))
            bins[cta].append(piece)
            load[cta] += foot_ns + piece[3] * tile_ns
        return bins

    def predicted(bins):
        arguments = {"num_kv_heads": num_kv_heads, "num_ctas": num_ctas, "tile": tile}
        return plan_decode(lengths, policy=lambda *_: bins, **arguments).metrics(cost).makespan_us

    budgets = sorted({share, share + 1, share + -(-share // 8), 2, 4, 8, 16} - set(range(share)))
    tries = [fill(budget) for budget in budgets] + [longest_first(budget) for budget in budgets]
    return min(tries, key=predicted)
