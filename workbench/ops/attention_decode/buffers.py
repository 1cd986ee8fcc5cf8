"""A task map in device memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from workbench.errors import InvalidArgument
from workbench.schedule import DecodePlan, DecodeProblem

DESCRIPTOR_INTS = 12
HEADER_INTS = 8
STRIP_DIMS = 128
"""Head dims of a row that have a softmax sum of their own among partial results."""


@dataclass(eq=False)
class TaskMap:
    """A task map in device memory, with room for the partial results of the attention that it drives.

    The partial results are taken away by whoever uses them, so a map may be used again and again, but not by two
    launches that can overlap. No buffer is ever replaced or freed while the map lives, so a graph captured with it
    stays right.

    Attributes
    ----------
    num_kv_heads, q_len, tile : int
    num_ctas : int
        CTAs resident at once.
    num_bins : int
        CTAs of the grid: ``num_ctas``, more for an uploaded static grid.
    batch : int
        Requests of the batch that the map was last made for.
    max_batch, max_seq_len : int
        What the buffers are sized for.
    num_slots : int
        Partial results that there is room for.
    map : int32 tensor [num_bins + num_kv_heads * max_batch or descriptors, 12]
    header : int32 tensor [8]
    empties : int32 tensor [max_batch]
        Requests of length 0.
    policy : str
    fresh : bool
        Whether the map was written since the last attention call, which then waits for it.
    """

    num_kv_heads: int
    q_len: int
    tile: int
    num_ctas: int
    num_bins: int
    batch: int
    max_batch: int
    max_seq_len: int
    num_slots: int
    policy: str
    min_process_len: int
    map: torch.Tensor = field(repr=False)
    header: torch.Tensor = field(repr=False)
    empties: torch.Tensor = field(repr=False)
    fresh: bool = True
    _partials: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict, repr=False)

    @classmethod
    def allocate(
        cls,
        *,
        num_kv_heads: int,
        q_len: int,
        tile: int,
        num_ctas: int,
        num_bins: int,
        batch: int,
        max_seq_len: int,
        rows: int,
        num_slots: int,
        policy: str,
        min_process_len: int,
        device: torch.device,
    ) -> TaskMap:
        """A map of ``rows`` descriptors that nobody has written yet."""
        return cls(
            num_kv_heads=num_kv_heads,
            q_len=q_len,
            tile=tile,
            num_ctas=num_ctas,
            num_bins=num_bins,
            batch=batch,
            max_batch=batch,
            max_seq_len=max_seq_len,
            num_slots=num_slots,
            policy=policy,
            min_process_len=min_process_len,
            map=torch.empty((rows, DESCRIPTOR_INTS), dtype=torch.int32, device=device),
            header=torch.zeros(HEADER_INTS, dtype=torch.int32, device=device),
            empties=torch.empty(max(batch, 1), dtype=torch.int32, device=device),
        )

    @property
    def device(self) -> torch.device:
        """Where the map lies."""
        return self.map.device

    def partials(self, rows: int, head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Room for partial results: [slots, rows, head_dim], and [slots, rows, 2 * strips] with (reference, sum)
        once for each strip of 128 head dims or fewer, since a strip is what a warp merges.

        FP32 values, kept as int32: what says that nothing is there is one NaN of many, and a compiler that knew these
        to be floats might put another in its place.

        Every word is -1 between launches, which says that nothing is there. Allocated at the first call for such rows
        and head dim, which may lie in a graph capture, and kept.
        """
        key = (rows, head_dim)
        if key not in self._partials:
            absent = [
                torch.full((self.num_slots, rows, last), -1, dtype=torch.int32, device=self.device)
                for last in (head_dim, 2 * max(1, head_dim // STRIP_DIMS))
            ]
            self._partials[key] = (absent[0], absent[1])
        return self._partials[key]

    def plan(self, lengths: Any) -> DecodePlan:
        """Read the map back as a plan; synchronises.

        Parameters
        ----------
        lengths : integers [batch]
            The lengths it was built for.

        Raises
        ------
        InvalidArgument
            For lengths of another batch.
        """
        rows = self.map.cpu().numpy()
        problem = DecodeProblem(
            np.asarray(lengths), self.num_kv_heads, self.num_ctas, self.tile, self.min_process_len, self.q_len
        )
        if problem.batch != self.batch:
            raise InvalidArgument(
                f"lengths has {problem.batch} requests, and the map was made for {self.batch}. Give its lengths."
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
