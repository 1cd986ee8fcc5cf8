"""How long the host is busy with one kernel launch, by the number of arguments. Needs a GPU.

Run ``python benchmarks/launch.py``. Each figure is the median over batches of launches of an almost empty kernel.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

import numpy as np
import torch

from workbench.gpu import driver
from workbench.gpu.compile import compile_kernel
from workbench.gpu.launch import Kernel
from workbench.gpu.source import Source

BATCHES, LAUNCHES = 20, 200


def kernel_with(pointers: int, numbers: int, arch: str) -> Kernel:
    """A kernel that takes so many pointers and integers and writes one value."""
    parameters = [f"int* p{i}" for i in range(pointers)] + [f"int n{i}" for i in range(numbers)]
    text = f'extern "C" __global__ void f({", ".join(parameters)}) {{ if (threadIdx.x == 0) *p0 = 1; }}'
    return Kernel(compile_kernel(Source.inline(text), "f", arch=arch))


def main() -> None:
    """Time launches with few and many arguments, plain and with programmatic dependent launch."""
    driver.require_gpu()
    here = driver.device(0)
    major, minor = here.compute_capability
    for pointers, numbers in ((1, 0), (3, 3), (10, 10)):
        kernel = kernel_with(pointers, numbers, f"sm_{major}{minor}")
        tensor = torch.zeros(1, dtype=torch.int32, device="cuda")
        args = (*[tensor] * pointers, *[np.int32(1)] * numbers)
        for pdl in (False, True):
            times = []
            for _ in range(BATCHES):
                torch.cuda.synchronize()
                start = perf_counter()
                for _ in range(LAUNCHES):
                    kernel.launch(1, 32, args, pdl=pdl)
                times.append((perf_counter() - start) / LAUNCHES)
            print(
                f"{here.name}: {pointers} tensors, {numbers} numbers, pdl={pdl}: {median(times) * 1e6:.1f} us a launch"
            )


if __name__ == "__main__":
    main()
