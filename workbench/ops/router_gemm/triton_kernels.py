"""The router GEMM in Triton: a tile of tokens and experts a program, all terms of the weight from one load of x.

The same arithmetic as the CUDA kernel, without its split of K: an accumulator a term, brought into FP32 sums every
``PROMOTE`` of K. ``INTERPRETED``: widen after the loads and round to bf16 by hand, for the interpreter computes bf16
wrongly.
"""

# Triton's language: constants in capitals, branches decided at compile time, and no Python types.
# ruff: noqa: N803, RET505, SIM108
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

TERM_SCALE = tl.constexpr(1.0 / 256)


@triton.jit
def _operand(x, INTERPRETED: tl.constexpr):
    """What a product takes."""
    if INTERPRETED:
        return x.to(tl.float32)
    else:
        return x


@triton.jit
def _bf16(x, INTERPRETED: tl.constexpr):
    """FP32 to bf16 to nearest even; in the interpreter as 16-bit integers."""
    if INTERPRETED:
        bits = x.to(tl.int32, bitcast=True)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).to(tl.int16)
    else:
        return x.to(tl.bfloat16)


@triton.jit
def router_gemm(
    x, terms, out, m, n, k, x_row,
    TERMS: tl.constexpr, TILE_M: tl.constexpr, TILE_N: tl.constexpr, BLOCK: tl.constexpr, PROMOTE: tl.constexpr,
    OUT_BF16: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Scores of one tile; programs along the experts are neighbours, for they share x."""
    tiles_n = tl.cdiv(n, TILE_N)
    row = tl.program_id(0) // tiles_n * TILE_M + tl.arange(0, TILE_M)
    expert = tl.program_id(0) % tiles_n * TILE_N + tl.arange(0, TILE_N)
    x_at = x + row.to(tl.int64)[:, None] * x_row
    w_at = terms + expert[None, :] * k
    term_step = n.to(tl.int64) * k
    total = tl.zeros([TILE_M, TILE_N], tl.float32)
    for start in range(0, k, PROMOTE):
        acc0 = tl.zeros([TILE_M, TILE_N], tl.float32)
        acc1 = tl.zeros([TILE_M, TILE_N], tl.float32)
        acc2 = tl.zeros([TILE_M, TILE_N], tl.float32)
        for at in range(start, min(start + PROMOTE, k), BLOCK):
            i = at + tl.arange(0, BLOCK)
            live = i < k
            a = _operand(tl.load(x_at + i[None, :], mask=(row < m)[:, None] & live[None, :], other=0.0), INTERPRETED)
            inside = live[:, None] & (expert < n)[None, :]
            b0 = _operand(tl.load(w_at + i[:, None], mask=inside, other=0.0), INTERPRETED)
            b1 = _operand(tl.load(w_at + term_step + i[:, None], mask=inside, other=0.0), INTERPRETED)
            acc0 = tl.dot(a, b0, acc0, input_precision="ieee")
            acc1 = tl.dot(a, b1, acc1, input_precision="ieee")
            if TERMS == 3:
                b2 = _operand(tl.load(w_at + 2 * term_step + i[:, None], mask=inside, other=0.0), INTERPRETED)
                acc2 = tl.dot(a, b2, acc2, input_precision="ieee")
        if TERMS == 3:
            acc1 += acc2 * TERM_SCALE
        total += acc0 + acc1 * TERM_SCALE
    y_at = out + row.to(tl.int64)[:, None] * n + expert[None, :]
    if OUT_BF16:
        y = _bf16(total, INTERPRETED)
    else:
        y = total
    tl.store(y_at, y, mask=(row < m)[:, None] & (expert < n)[None, :])
