"""A bench that needs no GPU: made-up times, and configurations that fail in every way."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import CompileError, NoGpu
from workbench.tune.measure import Samples
from workbench.tune.space_router import RouterProduct, RouterSpace
from workbench.tune.study_trials import TrialFailed

GPU = "NVIDIA H200"
SHOWN = ("warps", "tile_n", "stages", "split_k", "prefetch", "tile")
"""Parameters that name a configuration in `FakeFactory.ill` and in its log."""


def small_space(**restricted: Any) -> RouterSpace:
    """4 x 5 x 5 = 100 configurations of the router and its default; nothing is compiled."""
    wanted = {"tile_m": 64, "tile_n": (16, 24, 32, 48), "stages": (2, 3, 4, 5, 6), "split_k": (1, 2, 4, 8, 16)}
    return RouterSpace(RouterProduct(64, 192, 4096)).restrict(multicast=1, **{**wanted, **restricted})


def true_us(config: Any) -> float:
    """Fastest at tile_n 32, stages 4, split_k 8; every other configuration is slower."""
    if hasattr(config, "warps"):  # attention
        return 9.0 + abs(config.warps - 8) / 8 + 0.2 * abs(config.stages - 4) + 0.1 * config.prefetch + config.tile / 64
    return (
        5.0 + abs(config.tile_n - 32) / 16 + 0.25 * abs(config.stages - 4) + 0.5 * abs(config.split_k.bit_length() - 4)
    )


@dataclass
class FakeBench:
    """See `workbench.tune.measure.Bench`."""

    gpu: str = GPU
    ill: dict[str, str] = field(default_factory=dict)
    log: Path | None = None
    slow_s: float = 0.0
    dead: bool = False
    prepared: set[str] = field(default_factory=set)

    def about(self) -> dict[str, Any]:
        return {"gpu": self.gpu, "date": "2026-11-30", "sms": 132}

    def prepare(self, config: Any) -> float:
        key = " ".join(str(getattr(config, name)) for name in SHOWN if hasattr(config, name))
        if key in self.prepared:
            return 1e-6
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{key}@{os.getpid()}\n")
        time.sleep(self.slow_s)
        match self.ill.get(key):
            case "compile":
                raise CompileError("router.cu", "error: too clever")
            case "wrong":
                raise TrialFailed("wrong result", "relative error 0.5, allowed 6e-06")
            case "launch":
                raise RuntimeError("CUDA_ERROR_INVALID_VALUE")
            case "fault":
                self.dead = True
                raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hangs":
                time.sleep(600)
        self.prepared.add(key)
        return 1e-6

    def sample(self, configs: Sequence[Any], rounds: int) -> Samples:
        for config in configs:
            self.prepare(config)
        return Samples(tuple(tuple(true_us(c) + 0.001 * (i % 3) for i in range(rounds)) for c in configs))

    def alive(self) -> None:
        if self.dead:
            raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")


@dataclass(frozen=True)
class FakeFactory:
    """Makes it in another process."""

    gpu: str = GPU
    ill: tuple[tuple[str, str], ...] = ()
    log: str = ""
    slow_s: float = 0.0
    missing: bool = False

    def __call__(self) -> FakeBench:
        if self.missing:
            raise NoGpu("There is no NVIDIA driver here.")
        small_space()  # so that configurations arrive without torch, which would take longer than a call may
        return FakeBench(self.gpu, dict(self.ill), Path(self.log) if self.log else None, self.slow_s)


@dataclass(frozen=True)
class PerWorkerFactory:
    """Another model of GPU by the GPU that the process was given."""

    def __call__(self) -> FakeBench:
        small_space()
        models = {"0": GPU, "1": "NVIDIA H100 80GB HBM3"}
        return FakeBench(models[os.environ["CUDA_VISIBLE_DEVICES"]])
