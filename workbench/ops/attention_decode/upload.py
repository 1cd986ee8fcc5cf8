"""A CPU plan as a task map: how any policy, also a user's own, runs on the real kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from workbench.errors import InvalidArgument, NoGpu
from workbench.gpu import driver
from workbench.ops.attention_decode.buffers import DESCRIPTOR_INTS, TaskMap
from workbench.ops.attention_decode.checks import of_type
from workbench.schedule import DecodePlan


def upload_plan(plan: DecodePlan, device: torch.device | str = "cuda") -> TaskMap:
    """Put a CPU plan on the GPU, whatever policy made it. The plan is validated first.

    The map serves the batch it was planned for: :func:`attention_decode` checks the number of requests, but on the host
    it cannot see that the lengths are the same.

    Parameters
    ----------
    plan : DecodePlan
        Also one of a static grid: it then has more bins than CTAs fit the GPU, and they run in waves.
    device : torch.device or str
        A GPU, or ``"cpu"`` for Triton's interpreter.

    Raises
    ------
    InvalidPlan
        When the plan does not compute the right thing, with the validator's words.
    InvalidArgument
        When it is no plan, or the device no device.
    NoGpu
        When the device is a GPU that is not there.
    """
    of_type("plan", plan, DecodePlan, "give what plan_decode(...) or DecodePlan.from_json(text) returns")
    where = _device(device)
    plan.validate()
    rows, empties, num_slots = descriptor_rows(plan)
    result = TaskMap.allocate(
        num_kv_heads=plan.num_kv_heads,
        q_len=plan.q_len,
        tile=plan.tile,
        num_ctas=plan.num_ctas,
        num_bins=_grid(plan),
        batch=plan.problem.batch,
        max_seq_len=int(plan.lengths.max(initial=0)),
        rows=rows.shape[0],
        num_slots=num_slots,
        policy=plan.policy,
        min_process_len=plan.min_process_len,
        device=where,
    )
    result.map.copy_(torch.from_numpy(rows))
    if empties.size:
        result.empties[: empties.size] = torch.from_numpy(empties).to(result.device)
    result.header[0] = int(empties.size)
    return result


def _device(given: torch.device | str) -> torch.device:
    try:
        device = torch.device(given)
    except (RuntimeError, TypeError):
        device = None
    if device is None or device.type not in ("cuda", "cpu"):
        raise InvalidArgument(f"device is {given!r}; give 'cuda', a GPU such as 'cuda:1', or 'cpu'.")
    if device.type == "cuda":
        driver.require_gpu()
        if not torch.cuda.is_available():
            raise NoGpu(
                f"torch {torch.__version__} is not built for CUDA, so it cannot use this machine's GPU. Install a "
                "build that is, with pip install torch==2.13.0, or give device='cpu'."
            )
        driver.device(device.index or 0)
    return device


def _grid(plan: DecodePlan) -> int:
    """CTAs that run a plan: its bins, and one for a grid of none, which has to write the zeros of empty requests."""
    return max(plan.num_bins, 1)


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
    index[~first] = _grid(plan) + np.arange(int((~first).sum()))
    following = np.full(plan.num_descriptors, -1, np.int64)
    if plan.num_descriptors:
        same = d["cta"][1:] == d["cta"][:-1]
        following[:-1][same] = index[1:][same]

    pieces = plan.chunk_counts.ravel().astype(np.int64)
    reserved = np.where(pieces > 1, pieces, 0)
    base = np.cumsum(reserved) - reserved
    item = d["kv_head"].astype(np.int64) * plan.problem.batch + d["request"]

    # The last pieces of a group wait for the others, so pieces are numbered in the order in which they run.
    by_item = np.argsort(item, kind="stable")
    start = np.ones(item.size, bool)
    start[1:] = item[by_item][1:] != item[by_item][:-1]
    number = np.empty(item.size, np.int64)
    number[by_item] = np.arange(item.size) - np.maximum.accumulate(np.where(start, np.arange(item.size), 0))

    rows = np.zeros((_grid(plan) + int((~first).sum()), DESCRIPTOR_INTS), np.int32)
    rows[:, 8] = -1
    columns = (
        d["request"], d["kv_head"], d["first_token"], d["num_tokens"],
        plan.lengths[d["request"]], number, pieces[item], base[item], following,
    )  # fmt: skip
    for column, values in enumerate(columns):
        rows[index, column] = values
    empties = np.flatnonzero(plan.lengths == 0).astype(np.int32)
    return rows, empties, max(int(reserved.sum()), 1)
