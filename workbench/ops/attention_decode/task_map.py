"""The task map on the GPU: built there from device-side lengths, or uploaded from a CPU plan."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch

from workbench.errors import InvalidArgument
from workbench.gpu.compile import compile_kernel
from workbench.gpu.launch import Kernel
from workbench.ops.attention_decode.config import AttentionConfig
from workbench.schedule import CostModel, DecodePlan, DecodeProblem, cost_model, hpc_ops, resolve
from workbench.schedule.fills import hpc_ops_budget
from workbench.schedule.policies import balanced

DESCRIPTOR_INTS = 12
HEADER_INTS = 8
MAX_BATCH = 16_384
"""Requests that the map kernel holds prefix sums for."""

_THREADS = 1024
_SOURCE = "attention_decode/task_map.cu"


@dataclass(eq=False)
class TaskMap:
    """A task map in device memory, with the partial results and counters of the attention that it drives.

    The counters reset themselves, so a map may be used again and again, but not by two launches that can overlap.

    Attributes
    ----------
    num_kv_heads, q_len, tile : int
    num_ctas : int
        CTAs resident at once.
    num_bins : int
        CTAs of the grid: ``num_ctas``, more for an uploaded static grid.
    max_batch, max_seq_len : int
        What the buffers are sized for.
    num_slots : int
        Partial results that there is room for.
    map : int32 tensor [num_bins + num_kv_heads * max_batch or descriptors, 12]
    header : int32 tensor [8]
    empties : int32 tensor [max_batch]
        Requests of length 0.
    counters : int32 tensor [2 * num_slots]
        Arrivals of pieces, zero between launches.
    policy : str
    fresh : bool
        Whether the map was written since the last attention call, which then waits for it.
    """

    num_kv_heads: int
    q_len: int
    tile: int
    num_ctas: int
    num_bins: int
    max_batch: int
    max_seq_len: int
    num_slots: int
    policy: str
    min_process_len: int
    map: torch.Tensor = field(repr=False)
    header: torch.Tensor = field(repr=False)
    empties: torch.Tensor = field(repr=False)
    counters: torch.Tensor = field(repr=False)
    fresh: bool = True
    _partials: tuple[torch.Tensor, torch.Tensor] | None = field(default=None, repr=False)

    @property
    def device(self) -> torch.device:
        """Where the map lies."""
        return self.map.device

    def partials(self, rows: int, head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Room for partial results: FP32 [slots, rows, head_dim] and [slots, rows, 2], kept for later calls."""
        need = self.num_slots * rows
        if (
            self._partials is None
            or self._partials[0].numel() < need * head_dim
            or self._partials[1].numel() < 2 * need
        ):
            self._partials = (
                torch.empty(need * head_dim, dtype=torch.float32, device=self.device),
                torch.empty(2 * need, dtype=torch.float32, device=self.device),
            )
        return self._partials

    def plan(self, lengths: Any) -> DecodePlan:
        """Read the map back as a plan; synchronises.

        Parameters
        ----------
        lengths : integers [batch]
            The lengths it was built for.
        """
        rows = self.map.cpu().numpy()
        problem = DecodeProblem(
            np.asarray(lengths), self.num_kv_heads, self.num_ctas, self.tile, self.min_process_len, self.q_len
        )
        order: list[int] = []
        counts = np.zeros(self.num_bins, np.int64)
        for bin_ in range(self.num_bins):
            at = bin_ if rows[bin_, 3] > 0 else -1
            while at >= 0:
                order.append(at)
                counts[bin_] += 1
                at = int(rows[at, 8])
        d = rows[order]
        columns = (d[:, 1], d[:, 0], d[:, 2] // self.tile, -(-d[:, 3] // self.tile))
        return DecodePlan.assemble(problem, self.policy, counts, columns, static_grid=self.num_bins > self.num_ctas)


def _allocate(
    *,
    num_kv_heads: int,
    q_len: int,
    tile: int,
    num_ctas: int,
    num_bins: int,
    max_batch: int,
    max_seq_len: int,
    rows: int,
    num_slots: int,
    policy: str,
    min_process_len: int,
    device: torch.device,
) -> TaskMap:
    return TaskMap(
        num_kv_heads=num_kv_heads,
        q_len=q_len,
        tile=tile,
        num_ctas=num_ctas,
        num_bins=num_bins,
        max_batch=max_batch,
        max_seq_len=max_seq_len,
        num_slots=num_slots,
        policy=policy,
        min_process_len=min_process_len,
        map=torch.empty((rows, DESCRIPTOR_INTS), dtype=torch.int32, device=device),
        header=torch.zeros(HEADER_INTS, dtype=torch.int32, device=device),
        empties=torch.empty(max(max_batch, 1), dtype=torch.int32, device=device),
        counters=torch.zeros(2 * num_slots, dtype=torch.int32, device=device),
    )


def upload_plan(plan: DecodePlan, device: torch.device | str = "cuda") -> TaskMap:
    """Put a CPU plan on the GPU, whatever policy made it. The plan is validated first.

    Raises
    ------
    InvalidPlan
        When the plan does not compute the right thing, with the validator's words.
    """
    plan.validate()
    rows, empties, num_slots = descriptor_rows(plan)
    result = _allocate(
        num_kv_heads=plan.num_kv_heads,
        q_len=plan.q_len,
        tile=plan.tile,
        num_ctas=plan.num_ctas,
        num_bins=plan.num_bins,
        max_batch=plan.problem.batch,
        max_seq_len=int(plan.lengths.max(initial=0)),
        rows=rows.shape[0],
        num_slots=num_slots,
        policy=plan.policy,
        min_process_len=plan.min_process_len,
        device=torch.device(device),
    )
    result.map.copy_(torch.from_numpy(rows))
    if empties.size:
        result.empties[: empties.size] = torch.from_numpy(empties).to(result.device)
    result.header[0] = int(empties.size)
    return result


def descriptor_rows(plan: DecodePlan) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], int]:
    """The device form of a plan: int32 rows [descriptors, 12], empty requests, and slots for partial results.

    A bin's first descriptor lies at the bin's index, the others follow behind; see
    ``kernels/attention_decode/task_map.cuh``.
    """
    d = plan.descriptors
    counts = np.diff(plan.bin_offsets)
    first = np.zeros(plan.num_descriptors, bool)
    first[plan.bin_offsets[:-1][counts > 0]] = True
    index = np.empty(plan.num_descriptors, np.int64)
    index[first] = d["cta"][first]
    index[~first] = plan.num_bins + np.arange(int((~first).sum()))
    following = np.full(plan.num_descriptors, -1, np.int64)
    if plan.num_descriptors:
        same = d["cta"][1:] == d["cta"][:-1]
        following[:-1][same] = index[1:][same]

    pieces = plan.chunk_counts.ravel().astype(np.int64)
    reserved = np.where(pieces > 1, pieces, 0)
    base = np.cumsum(reserved) - reserved
    item = d["kv_head"].astype(np.int64) * plan.problem.batch + d["request"]

    rows = np.zeros((plan.num_bins + int((~first).sum()), DESCRIPTOR_INTS), np.int32)
    rows[:, 8] = -1
    columns = (
        d["request"], d["kv_head"], d["first_token"], d["num_tokens"],
        plan.lengths[d["request"]], d["chunk"], pieces[item], base[item], following,
    )  # fmt: skip
    for column, values in enumerate(columns):
        rows[index, column] = values
    empties = np.flatnonzero(plan.lengths == 0).astype(np.int32)
    return rows, empties, max(int(reserved.sum()), 1)


class _MapParameters(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("lengths", "map", "header", "empties")),
        *(
            (name, ctypes.c_int)
            for name in ("batch", "max_batch", "kv_heads", "num_ctas", "tile", "floor_tiles", "balanced")
        ),
        *((name, ctypes.c_int) for name in ("tile_bytes", "bytes_per_us", "cta_tile_ns", "shared_tile_ns")),
        *((name, ctypes.c_int) for name in ("descriptor_ns", "partial_ns", "merge_ns", "merge_chunk_ns")),
    )


class _DenseParameters(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("map", "header", "empties", "dense")),
        *((name, ctypes.c_int) for name in ("num_ctas", "kv_heads", "batch", "q_len", "budget")),
    )


@cache
def _kernel(entry: str) -> Kernel:
    return Kernel(compile_kernel(_SOURCE, entry))


def build_task_map(
    seq_lens: torch.Tensor,
    *,
    num_kv_heads: int,
    max_seq_len: int,
    q_len: int = 1,
    num_ctas: int | None = None,
    min_process_len: int = 512,
    policy: str | Any = "balanced",
    config: AttentionConfig | None = None,
    out: TaskMap | None = None,
) -> TaskMap:
    """Build a task map on the GPU from lengths that lie there. One launch, no synchronisation, capturable.

    Parameters
    ----------
    seq_lens : int32 tensor [batch], CUDA, contiguous
        Live KV length of each request in tokens, new tokens included; 0 is allowed. At most 16,384 requests.
    num_kv_heads : int
    max_seq_len : int
        No length exceeds it; the host does not look.
    q_len : int
        Query tokens a request.
    num_ctas : int, optional
        Bins; default: SMs times ``config.ctas_per_sm``.
    min_process_len : int
        Work floor in tokens.
    policy : str or policy object
        ``"balanced"``, ``balanced(costs=...)`` or ``"hpc-ops"``. Other policies run on the CPU: plan with
        :func:`workbench.schedule.plan_decode` and use :func:`upload_plan`.
    config : AttentionConfig, optional
        Gives the tile and the CTAs an SM.
    out : TaskMap, optional
        A map of the same call to write into, so that a captured graph keeps its addresses.

    Raises
    ------
    InvalidArgument
        For arguments outside what is allowed.
    NoGpu
        Without a GPU.
    """
    config = config or AttentionConfig()
    chosen = resolve(policy)
    if not isinstance(chosen, (balanced, hpc_ops)):
        raise InvalidArgument(
            f"policy {chosen.name} is not built on the GPU (hpc-ops and balanced are). "
            "Plan it with plan_decode(...) and pass the plan to upload_plan."
        )
    if seq_lens.ndim != 1 or seq_lens.dtype != torch.int32 or not seq_lens.is_cuda or not seq_lens.is_contiguous():
        raise InvalidArgument(
            f"seq_lens is a {seq_lens.dtype} tensor of shape {tuple(seq_lens.shape)} on {seq_lens.device}; "
            "give a contiguous int32 CUDA tensor [batch]."
        )
    batch = seq_lens.shape[0]
    if batch > MAX_BATCH:
        raise InvalidArgument(f"seq_lens has {batch:,} requests; a map holds up to {MAX_BATCH:,}.")
    if num_ctas is None:
        num_ctas = torch.cuda.get_device_properties(seq_lens.device).multi_processor_count * config.ctas_per_sm
    # The bounds of the scheduler's arguments are those of the CPU planner.
    bound = DecodeProblem(
        np.full(batch, max_seq_len, np.int64), num_kv_heads, num_ctas, config.tile, min_process_len, q_len
    )
    if out is None:
        out = _allocate(
            num_kv_heads=num_kv_heads,
            q_len=q_len,
            tile=config.tile,
            num_ctas=num_ctas,
            num_bins=num_ctas,
            max_batch=batch,
            max_seq_len=max_seq_len,
            rows=num_ctas + num_kv_heads * batch,
            num_slots=2 * num_ctas + 1,
            policy=chosen.name,
            min_process_len=min_process_len,
            device=seq_lens.device,
        )
    same = (out.num_kv_heads, out.num_bins, out.tile, out.q_len) == (num_kv_heads, num_ctas, config.tile, q_len)
    if not same or out.max_batch < batch or out.max_seq_len < max_seq_len or out.device != seq_lens.device:
        raise InvalidArgument(f"out was made for another call: {out}.")

    cost: CostModel = (chosen.costs if isinstance(chosen, balanced) else None) or cost_model()
    constants = cost.constants
    shared_tile_ns = max(cost.cta_tile_ns(config.tile), cost.stream_ns(num_ctas, config.tile))
    parameters = _MapParameters(
        seq_lens.data_ptr(), out.map.data_ptr(), out.header.data_ptr(), out.empties.data_ptr(),
        batch, out.max_batch, num_kv_heads, num_ctas, config.tile, bound.floor_tiles, isinstance(chosen, balanced),
        cost.tile_bytes(config.tile), constants.bytes_per_us, cost.cta_tile_ns(config.tile), shared_tile_ns,
        constants.descriptor_ns, constants.partial_ns, constants.merge_ns, constants.merge_chunk_ns,
    )  # fmt: skip
    grid = min(16, -(-(num_ctas + num_kv_heads * batch) // _THREADS))
    shared = 4 * (3 * (batch + 1) + 3 * (num_ctas + 1))
    with torch.cuda.device(seq_lens.device):
        _kernel("build_task_map").launch(grid, _THREADS, [parameters], shared_bytes=shared, pdl=config.pdl)
    out.policy, out.min_process_len, out.fresh = chosen.name, min_process_len, True
    return out


def write_dense(task_map: TaskMap, lengths: torch.Tensor) -> torch.Tensor:
    """A ``hpc-ops`` map in upstream's dense format, written on the GPU; synchronises to learn the size.

    Parameters
    ----------
    task_map : TaskMap
        Built by :func:`build_task_map` with policy ``hpc-ops`` and 64-token tiles.
    lengths : int32 tensor [batch]
        The lengths it was built for.

    Returns
    -------
    int32 tensor
        As :meth:`DecodePlan.encode` gives it.
    """
    if task_map.policy != hpc_ops().name or task_map.tile != 64:
        raise InvalidArgument("the dense format is written for policy hpc-ops with 64-token tiles.")
    m = task_map
    problem = DecodeProblem(lengths.cpu().numpy(), m.num_kv_heads, m.num_ctas, m.tile, m.min_process_len, m.q_len)
    budget, batch = hpc_ops_budget(problem), problem.batch
    size = DESCRIPTOR_INTS * (1 + m.num_ctas * (budget + 1)) + m.num_kv_heads * batch
    dense = torch.zeros(size, dtype=torch.int32, device=m.device)
    parameters = _DenseParameters(
        m.map.data_ptr(), m.header.data_ptr(), m.empties.data_ptr(), dense.data_ptr(),
        m.num_ctas, m.num_kv_heads, batch, m.q_len, budget,
    )  # fmt: skip
    with torch.cuda.device(m.device):
        _kernel("write_dense_map").launch(m.num_ctas, 128, [parameters])
    return dense
