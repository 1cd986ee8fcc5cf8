"""A task map of upstream's rule in upstream's dense format, written on the GPU."""

from __future__ import annotations

import ctypes

import torch

from workbench.errors import InvalidArgument
from workbench.ops.attention_decode.buffers import DESCRIPTOR_INTS, TaskMap
from workbench.ops.attention_decode.checks import of_type
from workbench.ops.attention_decode.task_map import map_kernel
from workbench.schedule import DecodeProblem, hpc_ops
from workbench.schedule.fills import hpc_ops_budget


class _Parameters(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("map", "header", "empties", "dense")),
        *((name, ctypes.c_int) for name in ("num_ctas", "kv_heads", "batch", "q_len", "budget")),
    )


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

    Raises
    ------
    InvalidArgument
        For another map, and for lengths of another batch.
    """
    of_type("task_map", task_map, TaskMap, "give what build_task_map(...) returns")
    of_type("lengths", lengths, torch.Tensor, "give the int32 tensor [batch] that the map was built for")
    if task_map.policy != hpc_ops().name or task_map.tile != 64:
        raise InvalidArgument(
            f"the map is {task_map.policy} with {task_map.tile}-token tiles; the dense format exists for policy "
            "hpc-ops with 64-token tiles."
        )
    if lengths.shape != (task_map.batch,):
        raise InvalidArgument(
            f"lengths has shape {tuple(lengths.shape)}; the map was built for {task_map.batch} requests. Give their "
            "lengths, [batch]."
        )
    if task_map.device.type != "cuda":
        raise InvalidArgument(
            f"the map is on {task_map.device}, and a kernel writes the dense format; build the map on a GPU, or take "
            "DecodePlan.encode() of the plan."
        )
    m = task_map
    problem = DecodeProblem(lengths.cpu().numpy(), m.num_kv_heads, m.num_ctas, m.tile, m.min_process_len, m.q_len)
    budget, batch = hpc_ops_budget(problem), problem.batch
    size = DESCRIPTOR_INTS * (1 + m.num_ctas * (budget + 1)) + m.num_kv_heads * batch
    dense = torch.zeros(size, dtype=torch.int32, device=m.device)
    parameters = _Parameters(
        m.map.data_ptr(), m.header.data_ptr(), m.empties.data_ptr(), dense.data_ptr(),
        m.num_ctas, m.num_kv_heads, batch, m.q_len, budget,
    )  # fmt: skip
    with torch.cuda.device(m.device):
        map_kernel("write_dense_map").launch(m.num_ctas, 128, [parameters])
    return dense
