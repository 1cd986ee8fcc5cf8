"""What this machine has for compiling and running kernels, as data; ``workbench doctor`` shows it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from workbench import devices
from workbench.errors import InvalidArgument, MissingDependency
from workbench.gpu.cache import DiskCache
from workbench.gpu.compile import cache_folder, compiler_version
from workbench.gpu.driver import Device, DriverStatus, device, probe


@dataclasses.dataclass(frozen=True)
class GpuReport:
    """Driver, GPUs, compiler and cache of this machine.

    Attributes
    ----------
    driver : DriverStatus
        Version and, where kernels cannot run, the reason and the remedy.
    gpus : tuple of Device
        The GPUs this process may use.
    catalogue_names : tuple of str or None
        For each GPU its name in `workbench.devices`; None for a GPU that the catalogue lacks.
    compiler : str or None
        Version of NVRTC; None where it is not installed.
    compiler_problem : str or None
        How to install it, where it is not.
    cache_folder : Path
        Where compiled kernels are kept.
    cached_kernels, cached_bytes : int
        What is kept there.
    """

    driver: DriverStatus
    gpus: tuple[Device, ...]
    catalogue_names: tuple[str | None, ...]
    compiler: str | None
    compiler_problem: str | None
    cache_folder: Path
    cached_kernels: int
    cached_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**dataclasses.asdict(self), "cache_folder": str(self.cache_folder)}


def gpu_report() -> GpuReport:
    """Look at this machine; waits for nothing and creates no context on a GPU."""
    status = probe()
    gpus = tuple(device(index) for index in range(status.device_count))
    compiler, problem = None, None
    try:
        compiler = compiler_version()
    except MissingDependency as error:
        problem = str(error)
    cache = DiskCache(cache_folder())
    return GpuReport(
        driver=status,
        gpus=gpus,
        catalogue_names=tuple(_catalogue_name(gpu.name) for gpu in gpus),
        compiler=compiler,
        compiler_problem=problem,
        cache_folder=cache.root,
        cached_kernels=sum(1 for _ in cache.entries()),
        cached_bytes=cache.size_bytes(),
    )


def _catalogue_name(name: str) -> str | None:
    try:
        return devices.gpu(name).name
    except InvalidArgument:
        return None
