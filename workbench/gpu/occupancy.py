"""How many CTAs of a kernel fit an SM, and which resource stops the next one.

The rules are those of NVIDIA's occupancy calculator for compute capability 8.0 and above: registers are given to a warp
in units of 256 and each of the four sub-partitions holds a quarter of them, shared memory in units of 128 bytes.
A test compares every figure with ``cuda_occupancy.h``.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from workbench.devices import Gpu
from workbench.devices import gpu as find_gpu
from workbench.errors import InvalidArgument

_WARP = 32
_SUB_PARTITIONS = 4
_REGISTER_UNIT = 256
_SHARED_UNIT = 128


@dataclasses.dataclass(frozen=True)
class Occupancy:
    """Residency of one kernel on one GPU.

    Attributes
    ----------
    gpu : str
        Name of the GPU.
    threads : int
        Threads a CTA.
    registers : int
        Registers a thread.
    shared_bytes : int
        Shared memory a CTA, static and dynamic.
    limits : dict of str to int
        CTAs an SM that each resource alone would allow: ``"registers"``, ``"shared memory"``, ``"warps"``, ``"CTAs"``.
    max_warps : int
        Warps an SM can hold.
    """

    gpu: str
    threads: int
    registers: int
    shared_bytes: int
    limits: dict[str, int]
    max_warps: int

    @property
    def ctas_per_sm(self) -> int:
        """CTAs that are resident on one SM at the same time; 0 where the kernel cannot be launched."""
        return min(self.limits.values())

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources, one or several, that allow no further CTA."""
        return tuple(resource for resource, limit in self.limits.items() if limit == self.ctas_per_sm)

    @property
    def warps_per_sm(self) -> int:
        """Resident warps."""
        return self.ctas_per_sm * -(-self.threads // _WARP)

    @property
    def fraction(self) -> float:
        """Resident warps over the most an SM holds: what CUDA calls theoretical occupancy."""
        return self.warps_per_sm / self.max_warps


def occupancy(gpu: str | Gpu, *, threads: int, registers: int, shared_bytes: int = 0) -> Occupancy:
    """Find how many CTAs of a kernel fit an SM.

    Parameters
    ----------
    gpu : str or Gpu
        Name in the catalogue, or a GPU.
    threads : int
        Threads a CTA, 1 and up.
    registers : int
        Registers a thread, 0 to 255.
    shared_bytes : int
        Static and dynamic shared memory a CTA; the driver's reserve of 1,024 bytes is added here. The kernel is
        assumed to have opted in to the dynamic size it uses.

    Raises
    ------
    InvalidArgument
        A figure is outside what any kernel can have.
    """
    device = find_gpu(gpu)
    for name, value in (("threads", threads), ("registers", registers), ("shared_bytes", shared_bytes)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise InvalidArgument(f"{name} is {value!r}; give a whole number.")
    if threads < 1:
        raise InvalidArgument(f"threads is {threads}; a CTA has at least 1.")
    if not 0 <= registers <= device.max_registers_per_thread:
        raise InvalidArgument(f"registers is {registers}; a thread has 0 to {device.max_registers_per_thread}.")
    if shared_bytes < 0:
        raise InvalidArgument(f"shared_bytes is {shared_bytes}; it cannot be negative.")
    warps = -(-threads // _WARP)
    limits = {
        "registers": _register_limit(device, warps, registers),
        "shared memory": _shared_limit(device, shared_bytes),
        "warps": device.max_warps_per_sm // warps if threads <= device.max_threads_per_block else 0,
        "CTAs": device.max_ctas_per_sm,
    }
    return Occupancy(device.name, threads, registers, shared_bytes, limits, device.max_warps_per_sm)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _register_limit(device: Gpu, warps: int, registers: int) -> int:
    if registers == 0:
        return device.max_ctas_per_sm
    per_warp = _round_up(registers * _WARP, _REGISTER_UNIT)
    # The check of a launch counts warps in whole groups of four, one for each sub-partition.
    if per_warp * _round_up(warps, _SUB_PARTITIONS) > device.registers_per_block:
        return 0
    warps_per_partition = device.registers_per_sm // _SUB_PARTITIONS // per_warp
    return warps_per_partition * _SUB_PARTITIONS // warps


def _shared_limit(device: Gpu, shared_bytes: int) -> int:
    allocated = _round_up(shared_bytes + device.shared_reserved_per_block, _SHARED_UNIT)
    if allocated > device.shared_per_block + device.shared_reserved_per_block:
        return 0
    return device.shared_per_sm // allocated
