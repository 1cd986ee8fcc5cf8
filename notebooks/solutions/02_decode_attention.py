"""Solutions to the exercises of 02_decode_attention.ipynb. Try them first.

Each function can be pasted into its exercise cell, or loaded: ``%load solutions/02_decode_attention.py``.
"""

import numpy as np

from workbench.schedule import cost_model, plan_decode


def merge(outs, lses):
    """Exercise 1. Weights relative to the largest LSE, so that no exponential overflows; the LSE of the whole is that
    of the LSEs. Where no piece saw a key the largest is -inf: -inf minus -inf is no number, so that comes first.
    """
    largest = lses.max()
    if largest == -np.inf:
        return np.zeros(outs.shape[1]), -np.inf
    weights = np.exp(lses - largest)  # exp(-inf) = 0: a piece without keys does not count
    return weights @ outs / weights.sum(), largest + np.log(weights.sum())


def constants(timeline):
    """Exercise 2. Least squares on a column of ones and a column of tiles. Where all descriptors have about as many
    tiles the line is poorly held; hpc-ops has short ones at the cuts, which hold it.

    The fixed cost is the one to halve. The slope is the memory's while all CTAs read: together they read at the
    bandwidth, so one that is faster makes another slower.

    One line does not do for both. The first descriptor of a bin waits for its first bytes while all CTAs ask for theirs
    (``timeline.arrived_ns - timeline.start_ns``); those of a later one were asked for while the one before was read.
    In the recorded call of 2x32K+30x4K (FP8, hpc-ops) the line is 1.5 us and 454 ns a tile; that of first descriptors
    alone is 2.9 us and 396 ns, that of later ones 0.8 us and 402 ns. So a first one costs most, and every bin has one.
    """
    tiles = timeline.plan.num_tiles
    took = timeline.end_ns - timeline.start_ns
    columns = np.stack([np.ones(tiles.size), tiles], axis=1)
    (fixed_ns, tile_ns), *_ = np.linalg.lstsq(columns, took.astype(float), rcond=None)
    return float(fixed_ns), float(tile_ns)


def mine(lengths, num_kv_heads, num_ctas, tile):
    """Exercise 3. Bins of equal *time*: a descriptor weighs as much as ``foot`` tiles.

    For a given budget the fill is that of lesson 1, with two changes. A descriptor takes its foot from the room of its
    bin. And a rest of a request that is no larger than a foot stays in the bin it is in, since cutting it off would
    cost another bin a foot. The smallest budget whose bins are no more than the CTAs is found by halving. What a foot
    is worth depends on the batch, so a few are tried, and the plan that is predicted fastest is taken.
    """
    tiles = [-(-int(length) // tile) for length in lengths]
    total = num_kv_heads * sum(tiles)
    if total == 0:
        return []
    cost = cost_model()

    def fill(budget, foot):
        bins, room = [], 0
        for head in range(num_kv_heads):
            for request, count in enumerate(tiles):
                first = 0
                while first < count:
                    if room <= foot:  # not even one tile would fit beside the descriptor
                        bins.append([])
                        room = budget
                    size = max(1, min(count - first, room - foot))
                    if count - first - size <= foot:
                        size = count - first
                    bins[-1].append((head, request, first, size))
                    first, room = first + size, room - foot - size
        return bins

    def smallest(foot):
        low, high = 1, foot + total  # one bin holds everything if every descriptor's foot fits as well
        while len(fill(high, foot)) > num_ctas:
            high *= 2
        while low < high:
            middle = (low + high) // 2
            if len(fill(middle, foot)) <= num_ctas:
                high = middle
            else:
                low = middle + 1
        return fill(high, foot)

    def predicted(bins):
        arguments = {"num_kv_heads": num_kv_heads, "num_ctas": num_ctas, "tile": tile}
        return plan_decode(lengths, policy=lambda *_: bins, **arguments).metrics(cost).makespan_us

    tries = [smallest(foot) for foot in (0, 1, 2, 4, 8, 16)]
    return min(tries, key=predicted)
