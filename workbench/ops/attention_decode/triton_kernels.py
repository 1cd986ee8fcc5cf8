"""Decode attention in Triton, on the same task map as the CUDA kernel.

One program drains one bin: it follows the bin's descriptors, reads the pages of each piece block by block, and writes
the result of a request in one piece, or an FP32 partial result with (maximum, sum). A second launch merges the rest:
the program whose bin holds the last piece of a request adds up all of them.

Compile-time switches besides sizes: ``FP8_BITS``, E4M3 arrives as bytes and is decoded here (GPUs without the type, and
the interpreter, which knows no E4M3 NaN); ``INTERPRETED``, round to bf16 by hand, for the interpreter truncates.
"""

# Triton's language: constants in capitals, branches decided at compile time, and no Python types.
# ruff: noqa: N803, PIE808, RET505
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

DESCRIPTOR_INTS = tl.constexpr(12)
LN2 = tl.constexpr(0.69314718055994531)


@triton.jit
def _widen(x, TYPE: tl.constexpr, FP8_BITS: tl.constexpr):
    """Elements of a cache or of q as ``TYPE``; exact for E4M3, whose exponent is 8 below that of fp16."""
    if FP8_BITS:
        low = (x & 0x7F).to(tl.uint16)
        half = ((x & 0x80).to(tl.uint16) << 8) | (low << 7)
        value = half.to(tl.float16, bitcast=True).to(tl.float32) * 256.0
        return tl.where(low == 0x7F, float("nan"), value).to(TYPE)
    else:
        return x.to(TYPE)


@triton.jit
def _bf16(x, INTERPRETED: tl.constexpr):
    """FP32 to bf16 to nearest even; in the interpreter as 16-bit integers."""
    if INTERPRETED:
        bits = x.to(tl.int32, bitcast=True)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).to(tl.int16)
    else:
        return x.to(tl.bfloat16)


@triton.jit
def _store(
    out, lse, v_scale, o, most, total, request, kv_head, kv_heads,
    HEAD_DIM: tl.constexpr, GROUP: tl.constexpr, Q_LEN: tl.constexpr, ROWS: tl.constexpr,
    V_SCALE_PER_HEAD: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Divide by the sum and write the rows of one (KV head, request)."""
    row = tl.arange(0, ROWS)
    live = row < GROUP * Q_LEN
    index = (request.to(tl.int64) * Q_LEN + row // GROUP) * (kv_heads * GROUP) + kv_head * GROUP + row % GROUP
    seen = total > 0
    factor = tl.where(seen, 1.0 / tl.where(seen, total, 1.0), 0.0)
    if v_scale is not None:
        factor = factor * tl.load(v_scale + (kv_head if V_SCALE_PER_HEAD else 0))
    at = out + index[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    tl.store(at, _bf16(o * factor[:, None], INTERPRETED), mask=live[:, None])
    if lse is not None:
        value = tl.where(seen, (most + tl.log2(tl.where(seen, total, 1.0))) * LN2, float("-inf"))
        tl.store(lse + index, value, mask=live)


@triton.jit
def attend(
    q, k, v, table, map, header, empties, out, lse, partial_out, partial_sum, q_scale, k_scale, v_scale,
    q_token, q_head, k_page, k_token, k_head, v_page, v_token, v_head, s_page, s_token, s_head, table_row,
    kv_heads, scale,
    HEAD_DIM: tl.constexpr, GROUP: tl.constexpr, Q_LEN: tl.constexpr, ROWS: tl.constexpr, PAGE: tl.constexpr,
    BLOCK: tl.constexpr, K_TYPE: tl.constexpr, V_TYPE: tl.constexpr, Q_BITS: tl.constexpr, CACHE_BITS: tl.constexpr,
    K_SCALE_PER_TOKEN: tl.constexpr, V_SCALE_PER_HEAD: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Drain one bin. Strides are elements; ``scale`` is the softmax scale times log2(e)."""
    bin = tl.program_id(0)
    row = tl.arange(0, ROWS)
    dim = tl.arange(0, HEAD_DIM)
    live = row < GROUP * Q_LEN
    at = bin
    if tl.load(map + bin * DESCRIPTOR_INTS + 3) == 0:
        at = -1
    while at >= 0:
        d = map + at * DESCRIPTOR_INTS
        request = tl.load(d)
        kv_head = tl.load(d + 1)
        first = tl.load(d + 2)
        tokens = tl.load(d + 3)
        length = tl.load(d + 4)
        chunk = tl.load(d + 5)
        chunks = tl.load(d + 6)
        base = tl.load(d + 7)

        q_row = request.to(tl.int64) * Q_LEN + row // GROUP
        head = kv_head * GROUP + row % GROUP
        q_at = q + (q_row * q_token + head * q_head)[:, None] + dim[None, :]
        queries = _widen(tl.load(q_at, mask=live[:, None], other=0.0), K_TYPE, Q_BITS)
        row_scale = tl.zeros([ROWS], tl.float32) + scale
        if q_scale is not None:
            row_scale = row_scale * tl.load(q_scale + q_row * (kv_heads * GROUP) + head, mask=live, other=0.0)
        if k_scale is not None and not K_SCALE_PER_TOKEN:
            row_scale = row_scale * tl.load(k_scale)
        visible = tl.minimum(length - Q_LEN + 1 + row // GROUP, length)  # keys that each row sees

        most = tl.full([ROWS], float("-inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        o = tl.zeros([ROWS, HEAD_DIM], tl.float32)
        for start in range(first, first + tokens, BLOCK):
            token = start + tl.arange(0, BLOCK)
            inside = token < tl.minimum(first + tokens, length)
            page = tl.load(table + request.to(tl.int64) * table_row + token // PAGE, mask=inside, other=0)
            page = page.to(tl.int64)
            slot = token % PAGE
            k_at = k + (page * k_page + slot * k_token + kv_head * k_head)[:, None] + dim[None, :]
            v_at = v + (page * v_page + slot * v_token + kv_head * v_head)[:, None] + dim[None, :]
            keys = _widen(tl.load(k_at, mask=inside[:, None], other=0.0), K_TYPE, CACHE_BITS)
            score = tl.dot(queries, tl.trans(keys), input_precision="ieee") * row_scale[:, None]
            if K_SCALE_PER_TOKEN:
                at_scale = k_scale + page * s_page + slot * s_token + kv_head * s_head
                score = score * tl.load(at_scale, mask=inside, other=0.0)[None, :]
            score = tl.where(inside[None, :] & (token[None, :] < visible[:, None]), score, float("-inf"))

            grown = tl.maximum(most, tl.max(score, 1))
            origin = tl.where(grown == float("-inf"), 0.0, grown)  # a row that has seen no key yet
            probability = tl.exp2(score - origin[:, None])
            factor = tl.exp2(most - origin)
            total = total * factor + tl.sum(probability, 1)
            values = _widen(tl.load(v_at, mask=inside[:, None], other=0.0), V_TYPE, CACHE_BITS)
            o = o * factor[:, None] + tl.dot(probability.to(V_TYPE), values, input_precision="ieee")
            most = grown

        if chunks == 1:
            _store(
                out, lse, v_scale, o, most, total, request, kv_head, kv_heads,
                HEAD_DIM, GROUP, Q_LEN, ROWS, V_SCALE_PER_HEAD, INTERPRETED,
            )  # fmt: skip
        else:
            part = (base + chunk).to(tl.int64) * ROWS + row
            tl.store(partial_out + part[:, None] * HEAD_DIM + dim[None, :], o)
            tl.store(partial_sum + part * 2, most)
            tl.store(partial_sum + part * 2 + 1, total)
        at = tl.load(d + 8)

    # Zeros for requests of length 0, dealt to the programs in turn.
    empty = bin
    while empty < tl.load(header):
        request = tl.load(empties + empty)
        for kv_head in range(0, kv_heads):
            nothing = tl.zeros([ROWS], tl.float32)
            _store(
                out, lse, None, tl.zeros([ROWS, HEAD_DIM], tl.float32), nothing, nothing, request, kv_head, kv_heads,
                HEAD_DIM, GROUP, Q_LEN, ROWS, False, INTERPRETED,
            )  # fmt: skip
        empty += tl.num_programs(0)


@triton.jit
def merge(
    map, out, lse, partial_out, partial_sum, v_scale, kv_heads,
    HEAD_DIM: tl.constexpr, GROUP: tl.constexpr, Q_LEN: tl.constexpr, ROWS: tl.constexpr,
    V_SCALE_PER_HEAD: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Add up the pieces of every request whose last piece lies in this program's bin."""
    bin = tl.program_id(0)
    row = tl.arange(0, ROWS)
    dim = tl.arange(0, HEAD_DIM)
    at = bin
    if tl.load(map + bin * DESCRIPTOR_INTS + 3) == 0:
        at = -1
    while at >= 0:
        d = map + at * DESCRIPTOR_INTS
        chunks = tl.load(d + 6)
        if (chunks > 1) & (tl.load(d + 5) + 1 == chunks):
            base = tl.load(d + 7)
            most = tl.full([ROWS], float("-inf"), tl.float32)
            total = tl.zeros([ROWS], tl.float32)
            o = tl.zeros([ROWS, HEAD_DIM], tl.float32)
            for chunk in range(0, chunks):
                part = (base + chunk).to(tl.int64) * ROWS + row
                piece = tl.load(partial_sum + part * 2)
                grown = tl.maximum(most, piece)
                origin = tl.where(grown == float("-inf"), 0.0, grown)
                old = tl.exp2(most - origin)
                new = tl.exp2(piece - origin)
                total = total * old + tl.load(partial_sum + part * 2 + 1) * new
                o = o * old[:, None] + tl.load(partial_out + part[:, None] * HEAD_DIM + dim[None, :]) * new[:, None]
                most = grown
            _store(
                out, lse, v_scale, o, most, total, tl.load(d), tl.load(d + 1), kv_heads,
                HEAD_DIM, GROUP, Q_LEN, ROWS, V_SCALE_PER_HEAD, INTERPRETED,
            )  # fmt: skip
        at = tl.load(d + 8)
