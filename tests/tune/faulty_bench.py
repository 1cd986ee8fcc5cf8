"""A bench whose configurations do to a real GPU what a broken kernel does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.tune.measure import Samples

KERNEL = """
extern "C" __global__ void act(int what, float* out) {
    if (what == 1) *reinterpret_cast<volatile float*>(0x10) = 1.0f;     // an address that is nobody's
    if (what == 2) while (*reinterpret_cast<volatile float*>(out) >= 0.0f) {}  // for ever
    if (what == 3) asm volatile("trap;");
    out[0] = 0.0f;
}
"""


@dataclass(frozen=True)
class Act:
    """A configuration: what the kernel does."""

    what: int

    def to_dict(self) -> dict[str, Any]:
        return {"what": self.what}


class FaultyBench:
    """See `workbench.tune.measure.Bench`."""

    def __init__(self) -> None:
        import torch

        from workbench.gpu.compile import compile_kernel
        from workbench.gpu.launch import Kernel
        from workbench.gpu.source import Source

        self.torch = torch
        self.out = torch.zeros(1, device="cuda")
        self.kernel = Kernel(compile_kernel(Source.inline(KERNEL, "act.cu"), "act"))

    def about(self) -> dict[str, Any]:
        return {"gpu": self.torch.cuda.get_device_name()}

    def prepare(self, config: Act) -> float:
        import numpy as np

        # More threads than a CTA can have is refused at the launch and leaves the GPU as it was.
        threads = 2048 if config.what == 4 else 1
        self.kernel.launch(1, threads, [np.int32(config.what), self.out])
        self.alive()
        return 0.0

    def sample(self, configs: Sequence[Act], rounds: int) -> Samples:
        for config in configs:
            self.prepare(config)
        return Samples(tuple((1.0,) * rounds for _ in configs))

    def alive(self) -> None:
        self.torch.cuda.synchronize()


class FaultyFactory:
    """Makes it in another process."""

    def __call__(self) -> FaultyBench:
        return FaultyBench()
