"""Schedulers with one planted mistake each, for tests of the checker."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

Bins = list[list[tuple[int, int, int, int]]]


def right(lengths: Any, num_kv_heads: int, num_ctas: int, tile: int) -> Bins:
    """Equal bins, filled in order."""
    tiles = [-(-int(length) // tile) for length in lengths]
    budget = max(-(-sum(tiles) * num_kv_heads // num_ctas), 1)
    bins: Bins = [[] for _ in range(num_ctas)]
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


def drops_the_last_tile(lengths: Any, num_kv_heads: int, num_ctas: int, tile: int) -> Bins:
    bins = right(lengths, num_kv_heads, num_ctas, tile)
    for own in bins:
        for at, (head, request, first, count) in enumerate(own):
            ends_a_long_request = (first + count) * tile >= lengths[request] > 9 * tile
            if ends_a_long_request and count > 1:
                own[at] = (head, request, first, count - 1)
    return bins


def assigns_twice(lengths: Any, num_kv_heads: int, num_ctas: int, tile: int) -> Bins:
    bins = right(lengths, num_kv_heads, num_ctas, tile)
    if len(lengths) >= 6:
        bins[-1].append(bins[0][0])
    return bins


def ignores_heads(lengths: Any, num_kv_heads: int, num_ctas: int, tile: int) -> Bins:
    return right(lengths, 1, num_ctas, tile)


def crashes_at_zero_length(lengths: Any, num_kv_heads: int, num_ctas: int, tile: int) -> Bins:
    pieces = [list(range(-(-int(length) // tile))) for length in lengths]
    first = [piece[0] for piece in pieces]
    return right(lengths, num_kv_heads, num_ctas, tile) if first is not None else []


def off_by_one_at_a_tile_edge(lengths: Any, num_kv_heads: int, num_ctas: int, tile: int) -> Bins:
    return right([length // tile * tile + tile for length in lengths], num_kv_heads, num_ctas, tile)


def too_many_ctas(lengths: Any, num_kv_heads: int, num_ctas: int, tile: int) -> Bins:
    return [
        [(head, request, 0, -(-int(length) // tile))]
        for head in range(num_kv_heads)
        for request, length in enumerate(lengths)
        if length
    ]


def changes_lengths(lengths: Any, num_kv_heads: int, num_ctas: int, tile: int) -> Bins:
    bins = right(lengths, num_kv_heads, num_ctas, tile)
    lengths -= np.minimum(lengths, tile)
    return bins


def not_repeatable(lengths: Any, num_kv_heads: int, num_ctas: int, tile: int) -> Bins:
    bins = right(lengths, num_kv_heads, num_ctas, tile)
    random.Random().shuffle(bins)
    return bins


def wrong_arguments(lengths: Any) -> Bins:
    return []


def returns_nothing(lengths: Any, num_kv_heads: int, num_ctas: int, tile: int) -> None:
    right(lengths, num_kv_heads, num_ctas, tile)


def a_generator_that_fails(lengths: Any, num_kv_heads: int, num_ctas: int, tile: int) -> Iterator[Any]:
    bins = right(lengths, num_kv_heads, num_ctas, tile)
    for cta, own in enumerate(bins):
        yield own
        if cta == 4:
            next(iter([]))
