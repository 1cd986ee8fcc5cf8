"""Checks of what lies in the tensors of a call, where looking costs nothing that matters: on a CPU and for a reference.

On a GPU the operator does not look: it would stop the stream.
"""

from __future__ import annotations

import torch

from workbench.errors import InvalidArgument
from workbench.ops.attention_decode.buffers import TaskMap


def check_contents(
    seq_lens: torch.Tensor, block_table: torch.Tensor, k_cache: torch.Tensor, task_map: TaskMap | None = None
) -> None:
    """Check what lies in the tensors: lengths, the pages of live tokens, and that a map is of these lengths.

    It waits for the tensors, so nothing that may run in a captured graph can call it.

    Raises
    ------
    InvalidArgument
        For the first request that is wrong.
    """
    pages, page_size = k_cache.shape[:2]
    capacity = block_table.shape[1] * page_size
    wrong = _first((seq_lens < 0) | (seq_lens > capacity))
    if wrong is not None:
        raise InvalidArgument(
            f"request {wrong[0]} has length {int(seq_lens[wrong])}; lengths are 0 to {capacity:,}, what a row of "
            f"block_table holds: {block_table.shape[1]} pages of {page_size}."
        )
    live = torch.arange(block_table.shape[1], device=block_table.device) * page_size < seq_lens[:, None]
    wrong = _first(live & ((block_table < 0) | (block_table >= pages)))
    if wrong is not None:
        raise InvalidArgument(
            f"block_table names page {int(block_table[wrong])} for page {wrong[1]} of request {wrong[0]}, which has "
            f"{int(seq_lens[wrong[0]])} tokens; the caches hold pages 0 to {pages - 1}."
        )
    if task_map is None:
        return
    work = task_map.map[task_map.map[:, 3] > 0]
    planned = torch.zeros_like(seq_lens)
    planned[work[:, 0].long()] = work[:, 4]
    wrong = _first(planned != seq_lens)
    if wrong is not None:
        raise InvalidArgument(
            f"task_map was made for request {wrong[0]} of length {int(planned[wrong])}, and seq_lens says "
            f"{int(seq_lens[wrong])}; build a map for these lengths."
        )


def _first(wrong: torch.Tensor) -> tuple[int, ...] | None:
    """Index of the first True; None where there is none."""
    found = wrong.nonzero()
    return tuple(found[0].tolist()) if len(found) else None
