"""Read torch and Triton from disk and bring the GPU to its clocks, so that the first measurement is like the others.

python benchmarks/warm_up.py [SECONDS]
"""

from __future__ import annotations

import sys
import time

import torch

import workbench.measure.attention  # noqa: F401  (with all that it imports)
from workbench.measure.clocks import ClocksUnreadable
from workbench.measure.environment import clocks_here, environment_here

SIZE = 8192


def main() -> None:
    """Multiply for some seconds, and print what was done at which clocks."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    a, b = torch.randn(2, SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
    began, products = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        torch.mm(a, b)
        torch.cuda.synchronize()
        products += 1
    rate = 2 * SIZE**3 * products / (time.monotonic() - began)
    print(environment_here().model_dump_json())
    print(f"{products} products of {SIZE} cubed in bf16, {rate / 1e12:.0f} TFLOP/s")
    try:
        print(clocks_here()("after").model_dump_json())
    except ClocksUnreadable as error:
        print(error)


if __name__ == "__main__":
    main()
