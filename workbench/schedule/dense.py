"""HPC-Ops' dense int32 task map: written from a plan, and read back.

The buffer is rows of 12 int32. Row 0 is the header ``[slots, num_ctas, num_kv_heads, max_batch, 0, max_chunks, 0...]``
(the fifth is a byte size of the workspace, written as 0). Bin ``c``, slot ``s`` is row ``1 + c * slots + s``:
``ihead_kv, ibatch, ichunk, iseq_start, num_seqkv, num_seqkvcache, num_tile_kv, num_tile_full, is_causal, 0, 0, 0``;
an unused slot is ``-1, -1, 0...``. After the bins come the chunk counts ``[num_kv_heads, max_batch]``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument, InvalidPlan
from workbench.schedule.fills import hpc_ops_budget
from workbench.schedule.plan import DecodePlan, Ints
from workbench.schedule.policies import hpc_ops
from workbench.schedule.problem import DecodeProblem, check_count

WIDTH = 12
TILE = 64
"""Tile of the dense format, in tokens."""


def encode(plan: DecodePlan, max_batch: int | None = None) -> Ints:
    """Write ``plan`` in the dense format.

    A bin has ``budget + 1`` slots (upstream's ``T + 1``) where policy and bins are upstream's, and one more than the
    longest bin has descriptors in any other plan.

    Parameters
    ----------
    plan : DecodePlan
        A persistent plan with 64-token tiles.
    max_batch : int, optional
        Requests that the chunk counts are laid out for; default: the batch.

    Returns
    -------
    int32 array [12 * (num_ctas * slots + 1) + num_kv_heads * max_batch]

    Raises
    ------
    InvalidArgument
        For another tile, a static grid, or ``max_batch`` below the batch.
    """
    if plan.tile != TILE:
        raise InvalidArgument(f"the dense format has {TILE}-token tiles; this plan has {plan.tile}.")
    if plan.static_grid:
        raise InvalidArgument(f"{plan.policy} is a static grid; the dense format holds persistent plans.")
    batch = plan.problem.batch
    max_batch = batch if max_batch is None else check_count("max_batch", max_batch, batch, 1 << 24)
    counts = np.diff(plan.bin_offsets)
    # The name alone does not decide: a plan read from JSON may call itself anything.
    upstream = plan.policy == hpc_ops().name and same_bins(plan, hpc_ops().plan(plan.problem))
    slots = (hpc_ops_budget(plan.problem) if upstream else int(counts.max(initial=0))) + 1

    rows = np.zeros((plan.num_ctas * slots + 1, WIDTH), np.int32)
    rows[1:, :2] = -1
    rows[0, :6] = slots, plan.num_ctas, plan.num_kv_heads, max_batch, 0, int(plan.chunk_counts.max(initial=0))
    slot = np.arange(plan.num_descriptors) - np.repeat(plan.bin_offsets[:-1], counts)
    at = 1 + plan.cta.astype(np.int64) * slots + slot
    for column, values in enumerate(_columns(plan)):
        rows[at, column] = values
    chunks = np.zeros((plan.num_kv_heads, max_batch), np.int32)
    chunks[:, :batch] = plan.chunk_counts
    return np.concatenate([rows.ravel(), chunks.ravel()])


def same_bins(a: DecodePlan, b: DecodePlan) -> bool:
    """Whether two plans put the same descriptors into the same bins in the same order."""
    columns = ("bin_offsets", "kv_head", "request", "first_tile", "num_tiles")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in columns)


def _columns(plan: DecodePlan) -> list[npt.NDArray[np.int64]]:
    """The nine live columns of each descriptor."""
    d = plan.descriptors
    tokens = d["num_tokens"].astype(np.int64)
    last = d["chunk"] == plan.chunk_counts[d["kv_head"], d["request"]] - 1
    # The new tokens lie at the end of the last chunk, and cannot be in the cache yet. Where the chunk is shorter than
    # they are, the rest of them is missing from the chunk before it, which then needs the causal mask as well.
    cached = np.where(last, tokens - plan.q_len, tokens)
    order = plan._by_position
    short = np.flatnonzero(last[order] & (cached[order] < 0) & (d["chunk"][order] > 0))
    before, owing = order[short - 1], order[short]
    causal = last.copy()
    causal[before] = True
    cached[before] += cached[owing]
    full = np.maximum(cached, 0) // TILE
    names = ("kv_head", "request", "chunk", "first_token")
    return [
        *(d[n].astype(np.int64) for n in names),
        tokens,
        cached,
        d["num_tiles"].astype(np.int64),
        full,
        causal.astype(np.int64),
    ]


def decode(buffer: npt.ArrayLike) -> DecodePlan:
    """Read a dense buffer.

    The lengths and ``q_len`` follow from the descriptors. The plan's policy is ``hpc-ops`` when upstream's rule gives
    exactly these bins, else ``decoded``. ``encode`` of the result gives the buffer back.

    Raises
    ------
    InvalidPlan
        When the buffer is not in the format, or its plan is wrong.
    """
    try:
        flat = np.asarray(buffer)
    except ValueError:  # rows of several sizes
        raise InvalidPlan("dense buffer", ["a flat integer array is expected; got lists of several sizes"]) from None
    if flat.ndim != 1 or flat.dtype.kind not in "iu" or flat.size < WIDTH:
        raise InvalidPlan("dense buffer", [f"a flat integer array is expected; got {flat.dtype} of shape {flat.shape}"])
    flat = flat.astype(np.int64)
    slots, ctas, heads, batch = (int(v) for v in flat[:4])
    size = WIDTH * (ctas * slots + 1) + heads * batch
    if min(slots, ctas, heads) < 1 or batch < 0 or flat.size != size:
        wrong = f"header [{slots}, {ctas}, {heads}, {batch}] asks for {size} integers; the buffer has {flat.size}"
        raise InvalidPlan("dense buffer", [wrong])
    rows = flat[WIDTH : WIDTH * (ctas * slots + 1)].reshape(ctas, slots, WIDTH)
    used = rows[:, :, 0] >= 0
    d = rows[used]
    head, request, first_token, tokens, tiles = (d[:, i] for i in (0, 1, 3, 4, 6))
    outside = (head >= heads) | (request < 0) | (request >= batch) | (first_token < 0) | (first_token % TILE != 0)
    if outside.any():
        raise InvalidPlan("dense buffer", [f"descriptor {d[np.flatnonzero(outside)[0]].tolist()} is out of range"])
    lengths = np.zeros(batch, np.int64)
    np.maximum.at(lengths, request, first_token + tokens)
    ends = np.flatnonzero((first_token + tokens == lengths[request]) & (d[:, 8] != 0))
    q_len = int(tokens[ends[0]] - d[ends[0], 5]) if ends.size else 1

    try:
        problem = DecodeProblem(lengths, heads, ctas, TILE, (slots - 1) * TILE, q_len)
    except InvalidArgument as error:
        raise InvalidPlan("dense buffer", [error]) from None
    columns = (head, request, first_token // TILE, tiles)
    plan = DecodePlan.assemble(problem, "decoded", used.sum(axis=1), columns).validate()
    if problem.total_tiles <= ctas * (slots - 1):
        upstream = hpc_ops().plan(problem)
        if same_bins(plan, upstream):
            plan = upstream
    if not np.array_equal(np.delete(plan.encode(), 4), np.delete(flat, 4)):
        raise InvalidPlan("dense buffer", ["its lengths, chunk numbers or causal marks contradict each other"])
    return plan
