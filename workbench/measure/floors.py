"""The least time a memory-bound call can take here: a kernel that only reads the same bytes."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from workbench.gpu.ahead import Job
from workbench.gpu.launch import Kernel

READ_JOB = Job(source="floor/read.cu", entry="read_bytes")

_THREADS = 512


@cache
def _kernel() -> Kernel:
    return Kernel(READ_JOB.compile())


def read_bytes(data: torch.Tensor, *, pdl: bool = True) -> None:
    """Read a contiguous CUDA tensor once, as fast as the memory gives it.

    Parameters
    ----------
    data : tensor, CUDA, contiguous, a multiple of 16 bytes
    pdl : bool
        Programmatic dependent launch, as the operators use it.
    """
    count = data.numel() * data.element_size() // 16
    sms = torch.cuda.get_device_properties(data.device).multi_processor_count
    grid = max(1, min(4 * sms, -(-count // _THREADS)))
    sink = torch.empty(1, dtype=torch.int32, device=data.device)
    _kernel().launch(grid, _THREADS, [data, np.int64(count), sink], pdl=pdl)
