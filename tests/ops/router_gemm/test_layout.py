"""The kernel's index mappings, carried out in NumPy: what the copy engine writes is what the tensor cores read."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from workbench.ops.router_gemm import split_router_weight
from workbench.ops.router_gemm.config import BLOCK, PARAMETERS, ROW_BYTES, UNIT_COLUMNS, UNIT_ROWS, RouterConfig

ATOM_BYTES = 1024
"""Eight rows of 128 bytes, over which the swizzle repeats; the kernel's "atom" offset."""


def swizzle(address: np.ndarray) -> np.ndarray:
    """CU_TENSOR_MAP_SWIZZLE_128B of the CUDA driver API: bits 4-6 of an address are XORed with bits 7-9."""
    return address ^ (((address >> 7) & 7) << 4)


def copied(box: np.ndarray, base: int, memory: np.ndarray) -> None:
    """What the copy engine does with a box [rows, 64] of 16-bit values: rows one after another, swizzled."""
    row, k = np.indices(box.shape)
    memory[swizzle(base + row * ROW_BYTES + k * 2) // 2] = box


def read(memory: np.ndarray, descriptor: int, rows: int) -> np.ndarray:
    """What a wgmma reads of a K-major operand [rows, 16] by a descriptor (PTX ISA, "Shared Memory Matrix Layout")."""
    start, atom, mode = (descriptor & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4, descriptor >> 62
    assert mode == 1  # 128-byte swizzle
    row, k = np.indices((rows, 16))
    return memory[swizzle(start + row // 8 * atom + row % 8 * ROW_BYTES + k * 2) // 2]


def describe_tile(address: int) -> int:
    """``ptx::describe_tile``."""
    return (address & 0x3FFFF) >> 4 | 1 << 16 | (ATOM_BYTES >> 4) << 32 | 1 << 62


@pytest.mark.parametrize("multicast", [1, 2])
@pytest.mark.parametrize("tile_n", PARAMETERS["tile_n"])
@pytest.mark.parametrize("tile_m", PARAMETERS["tile_m"])
def test_stages_hold_what_the_products_read(tile_m: int, tile_n: int, multicast: int) -> None:
    terms = 2
    config = RouterConfig(tile_m=tile_m, tile_n=tile_n, multicast=multicast, stages=2)
    if config.why_invalid(terms):
        pytest.skip(config.why_invalid(terms) or "")
    rng = np.random.default_rng(tile_m + tile_n)
    memory = np.zeros(config.shared_bytes(terms) // 2, np.uint16)
    x = rng.integers(1 << 16, size=(2, tile_m, BLOCK), dtype=np.uint16)
    w = rng.integers(1 << 16, size=(2, terms, tile_n, BLOCK), dtype=np.uint16)
    stage_bytes = (tile_m + terms * tile_n) * ROW_BYTES
    for stage in range(2):
        copied(x[stage], stage * stage_bytes, memory)
        for term in range(terms):
            for share in range(multicast):
                rows = slice(share * tile_n // multicast, (share + 1) * tile_n // multicast)
                at = stage * stage_bytes + (tile_m + term * tile_n + rows.start) * ROW_BYTES
                copied(w[stage, term, rows], at, memory)
    for stage in range(2):
        for k in range(BLOCK // 16):
            columns = slice(16 * k, 16 * k + 16)
            a = describe_tile(stage * stage_bytes) + 2 * k
            for warpgroup in range(max(1, tile_m // 64)):
                got = read(memory, a + (warpgroup * 64 * ROW_BYTES >> 4), 64)  # never outside the memory of the CTA
                want = x[stage, 64 * warpgroup : 64 * warpgroup + 64, columns]
                assert np.array_equal(got[: len(want)], want)
            b = describe_tile(stage * stage_bytes + tile_m * ROW_BYTES) + 2 * k
            stacked = w[stage].reshape(terms * tile_n, BLOCK)[:, columns]
            assert np.array_equal(read(memory, b, terms * tile_n), stacked)


@pytest.mark.parametrize("tile_n", PARAMETERS["tile_n"])
def test_a_thread_holds_the_same_score_of_every_term(tile_n: int) -> None:
    """Accumulators i and i + tile_n / 2 are tile_n columns apart (PTX ISA, wgmma "Register Fragments")."""
    lane = np.arange(32)[:, None]
    i = np.arange(2 * tile_n // 2)[None, :]
    column = 8 * (i // 4) + 2 * (lane % 4) + i % 2
    row = lane // 4 + 8 * (i % 4 // 2)
    half = tile_n // 2
    assert (column[:, half:] == column[:, :half] + tile_n).all()
    assert (row + 0 * lane)[:, half:].tolist() == (row + 0 * lane)[:, :half].tolist()


@pytest.mark.parametrize("split_k", PARAMETERS["split_k"][1:])
@pytest.mark.parametrize(("tile_m", "tile_n"), [(8, 24), (8, 128), (16, 48), (32, 16), (64, 64), (128, 96)])
def test_units_fill_their_slots_once_and_owners_wait_for_all_of_them(tile_m: int, tile_n: int, split_k: int) -> None:
    """``send``, ``owned_units`` and ``finish`` of the kernel, for every number of tokens in the tile."""
    unit_rows = min(tile_m, UNIT_ROWS)
    across = tile_n // UNIT_COLUMNS
    units = tile_m // unit_rows * across
    slots = -(-units // split_k)
    config = RouterConfig(tile_m=tile_m, tile_n=tile_n, split_k=split_k, stages=2)
    alone = RouterConfig(tile_m=tile_m, tile_n=tile_n, stages=2)
    room = config.shared_bytes(2) - alone.shared_bytes(2)
    assert room == split_k * slots * unit_rows * UNIT_COLUMNS * 4
    for rows in range(1, tile_m + 1):
        received = np.zeros((split_k, split_k, slots), int)  # owner, rank, slot
        for warp in range(-(-tile_m // unit_rows)):
            if warp * unit_rows >= rows:
                continue
            for j in range(across):
                unit = warp * across + j
                received[unit % split_k, :, unit // split_k] += 1
        assert received.max() == 1
        scores = np.zeros((tile_m, tile_n), int)
        for owner in range(split_k):
            owned = (-(-rows // unit_rows) * across - owner + split_k - 1) // split_k
            assert received[owner].sum() == split_k * owned  # what its barrier expects
            for slot in range(owned):
                row, column = divmod(slot * split_k + owner, across)
                scores[
                    row * unit_rows : (row + 1) * unit_rows, column * UNIT_COLUMNS : (column + 1) * UNIT_COLUMNS
                ] += 1
        assert (scores[:rows] == 1).all()


@pytest.mark.parametrize("k", [8, 64, 72, 200, 1024])
def test_blocks_hold_the_terms(k: int) -> None:
    """The copy engine's box at (0, n, term, block) of the blocks is the box at (64 block, n, term) of the terms."""
    weight = split_router_weight(torch.randn(16, k), terms=3)
    count = -(-k // BLOCK)
    assert weight.blocks.shape == (count, 3, 16, BLOCK)
    padded = torch.zeros(3, 16, count * BLOCK, dtype=torch.bfloat16)
    padded[:, :, :k] = weight.terms
    for block in range(count):
        assert torch.equal(weight.blocks[block], padded[:, :, block * BLOCK : (block + 1) * BLOCK])


@pytest.mark.parametrize("split_k", PARAMETERS["split_k"])
@pytest.mark.parametrize("blocks", [1, 2, 3, 7, 16, 33, 96])
def test_parts_of_k_cover_it_once(blocks: int, split_k: int) -> None:
    parts = [range(blocks * rank // split_k, blocks * (rank + 1) // split_k) for rank in range(split_k)]
    assert [block for part in parts for block in part] == list(range(blocks))
    assert max(map(len, parts)) == -(-blocks // split_k)
