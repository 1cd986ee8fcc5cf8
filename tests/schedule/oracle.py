"""Slow, obviously right versions of what `workbench.schedule` computes with array operations.

Nothing here imports the package: plain Python, nested loops, one tile at a time. `hpc_ops_map` is the rule of HPC-Ops'
decode scheduler as its description gives it; the others are the definitions of what their names say.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

TILE = 64
WIDTH = 12


class Chunk(NamedTuple):
    """One descriptor: the first nine integers of its row."""

    ihead_kv: int
    ibatch: int
    ichunk: int
    iseq_start: int
    num_seqkv: int
    num_seqkvcache: int
    num_tile_kv: int
    num_tile_full: int
    is_causal: int


@dataclass
class Map:
    """The task map of one call."""

    budget: int
    bins: list[list[Chunk]]
    chunk_counts: list[list[int]]  # [kv head][request]
    buffer: list[int]


def hpc_ops_map(
    lengths: list[int], num_kv_heads: int, num_ctas: int, min_process_len: int, q_len: int, max_batch: int | None = None
) -> Map:
    """Fill the bins by putting down one tile at a time."""
    total = 0
    for _head in range(num_kv_heads):
        for length in lengths:
            total += tiles_of(length, TILE)
    budget = total // num_ctas
    if budget * num_ctas < total:
        budget += 1
    if budget < min_process_len // TILE:
        budget = min_process_len // TILE

    # pieces[c]: [head, request, chunk, first tile, tiles]
    pieces: list[list[list[int]]] = [[] for _ in range(num_ctas)]
    room = [budget] * num_ctas
    current = 0
    counts = [[0] * len(lengths) for _ in range(num_kv_heads)]
    for head in range(num_kv_heads):
        for request, length in enumerate(lengths):
            opened: list[int] | None = None
            for tile in range(tiles_of(length, TILE)):
                takes_all_that_remains = counts[head][request] == num_ctas
                if room[current] == 0 and not takes_all_that_remains:
                    current += 1
                    opened = None
                if opened is None:
                    opened = [head, request, counts[head][request], tile, 0]
                    pieces[current].append(opened)
                    counts[head][request] += 1
                opened[4] += 1
                room[current] -= 1

    bins = [
        [_chunk(piece, pieces, lengths, counts[piece[0]][piece[1]], q_len) for piece in own_pieces]
        for own_pieces in pieces
    ]
    return Map(budget, bins, counts, _buffer(budget, bins, counts, max_batch))


def _chunk(piece: list[int], pieces: list[list[list[int]]], lengths: list[int], count: int, q_len: int) -> Chunk:
    head, request, number, first, tiles = piece
    start = first * TILE
    tokens = min(lengths[request], start + tiles * TILE) - start
    cached, causal = tokens, 0
    if number == count - 1:
        cached, causal = tokens - q_len, 1
    elif number == count - 2:
        # What the last chunk is too short for is missing from this one.
        last = next(p for own in pieces for p in own if p[:3] == [head, request, count - 1])
        last_cached = lengths[request] - last[3] * TILE - q_len
        if last_cached < 0:
            cached, causal = tokens + last_cached, 1
    return Chunk(head, request, number, start, tokens, cached, tiles, max(cached, 0) // TILE, causal)


def _buffer(budget: int, bins: list[list[Chunk]], counts: list[list[int]], max_batch: int | None) -> list[int]:
    batch = len(counts[0])
    max_batch = batch if max_batch is None else max_batch
    most = max((count for row in counts for count in row), default=0)
    header = [budget + 1, len(bins), len(counts), max_batch, 0, most] + [0] * 6
    unused = [-1, -1] + [0] * 10
    buffer = list(header)
    for own in bins:
        for slot in range(budget + 1):
            buffer += [*own[slot], 0, 0, 0] if slot < len(own) else unused
    for row in counts:
        buffer += row + [0] * (max_batch - batch)
    return buffer


def tiles_of(length: int, tile: int) -> int:
    """Tiles of a request for one KV head."""
    count = 0
    while count * tile < length:
        count += 1
    return count


def readers(
    lengths: list[int], num_kv_heads: int, tile: int, bins: list[list[tuple[int, int, int, int]]]
) -> tuple[dict[tuple[int, int, int], list[int]], list[tuple[int, int, int]]]:
    """Who reads each tile: {(kv head, request, tile): CTAs}, and the tiles read that do not exist."""
    wanted: dict[tuple[int, int, int], list[int]] = {}
    for head in range(num_kv_heads):
        for request, length in enumerate(lengths):
            for at in range(tiles_of(length, tile)):
                wanted[head, request, at] = []
    strays = []
    for cta, entries in enumerate(bins):
        for head, request, first, count in entries:
            for at in range(first, first + count):
                if (head, request, at) in wanted:
                    wanted[head, request, at].append(cta)
                else:
                    strays.append((head, request, at))
    return wanted, strays


def is_partition(lengths: list[int], num_kv_heads: int, tile: int, bins: list[list[tuple[int, int, int, int]]]) -> bool:
    """Whether every tile is read by exactly one piece, and every piece reads something that exists."""
    wanted, strays = readers(lengths, num_kv_heads, tile, bins)
    pieces_read = all(count > 0 for entries in bins for _, _, _, count in entries)
    return pieces_read and not strays and all(len(ctas) == 1 for ctas in wanted.values())


def cut_stream(
    lengths: list[int], num_kv_heads: int, tile: int, cuts: list[int]
) -> list[list[tuple[int, int, int, int]]]:
    """The plan whose CTA ``c`` reads tiles ``cuts[c]:cuts[c + 1]`` of the stream of all tiles, KV head outermost."""
    stream = [
        (head, request, at)
        for head in range(num_kv_heads)
        for request, length in enumerate(lengths)
        for at in range(tiles_of(length, tile))
    ]
    bins: list[list[tuple[int, int, int, int]]] = []
    for low, high in itertools.pairwise(cuts):
        own: list[tuple[int, int, int, int]] = []
        for head, request, at in stream[low:high]:
            if own and own[-1][:2] == (head, request):
                own[-1] = (*own[-1][:3], own[-1][3] + 1)
            else:
                own.append((head, request, at, 1))
        bins.append(own)
    return bins


def least_makespan(sizes: list[int], num_bins: int) -> int:
    """The smallest possible fullest bin, by trying every assignment (symmetric ones once)."""
    best = sum(sizes)
    loads = [0] * num_bins

    def place(i: int) -> None:
        nonlocal best
        if max(loads) >= best:
            return
        if i == len(sizes):
            best = max(loads)
            return
        for c in range(num_bins):
            if loads[c] in loads[:c]:
                continue
            loads[c] += sizes[i]
            place(i + 1)
            loads[c] -= sizes[i]

    place(0)
    return best


def first_free(durations: list[int], num_slots: int) -> list[tuple[int, int]]:
    """(slot, start) of each job when jobs start in order, each on the slot that is free first (lowest number wins).

    A simulation that steps from event to event: at each moment free slots take the next waiting job.
    """
    placed: list[tuple[int, int]] = []
    busy_until: list[int | None] = [None] * num_slots
    now = 0
    while len(placed) < len(durations):
        busy_until = [None if end is not None and end <= now else end for end in busy_until]
        free = [s for s in range(num_slots) if busy_until[s] is None]
        if free:
            slot = min(free, key=lambda s: (freed_at(placed, durations, s), s))
            placed.append((slot, now))
            busy_until[slot] = now + durations[len(placed) - 1]
        else:
            now = min(end for end in busy_until if end is not None)
    return placed


def freed_at(placed: list[tuple[int, int]], durations: list[int], slot: int) -> int:
    """When the last job of ``slot`` ended; 0 if it had none."""
    return max((start + d for (s, start), d in zip(placed, durations, strict=False) if s == slot), default=0)
