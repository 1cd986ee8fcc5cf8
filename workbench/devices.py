"""The GPU catalogue: what a schedule, a cost model or an occupancy figure needs to know about a GPU.

Everything here is plain data read from NVIDIA's datasheets and the CUDA programming guide (table "technical
specifications per compute capability"), so it works on a machine with no GPU. A figure that was measured instead
says so in its field's description.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

from workbench.errors import InvalidArgument

__all__ = ["CATALOGUE", "Gpu", "ctas_per_sm", "custom", "gpu", "names"]

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU model.

    Attributes
    ----------
    name : str
        Short name, as in ``gpu("H200")``.
    architecture : str
        NVIDIA's architecture name, such as ``"Hopper"``.
    arch : str
        Compiler target, such as ``"sm_90a"``.
    sms : int
        Streaming multiprocessors enabled.
    memory_bytes : int
        Nominal device memory. The driver reports a few percent less.
    memory_bandwidth : float
        Datasheet bandwidth of the device memory, bytes a second.
    measured_read_bandwidth : float or None
        Bytes a second of a kernel that only reads 4 GB, measured by this project; None where it was not measured.
    l2_bytes : int
        L2 cache as the driver reports it (H200 and H20 report 60 MB where the H200 datasheet says 50).
    bf16_flops, fp8_flops : float or None
        Datasheet dense tensor-core operations a second, without sparsity; None where the unit is absent.
    shared_per_sm : int
        Largest shared memory of one SM, bytes.
    shared_per_block : int
        Largest shared memory of one CTA after opting in, bytes.
    shared_reserved_per_block : int
        Shared memory that the driver keeps for itself in each CTA, bytes.
    registers_per_sm, registers_per_block, max_registers_per_thread : int
        32-bit registers.
    max_threads_per_sm, max_warps_per_sm, max_ctas_per_sm, max_threads_per_block : int
        Residency limits.
    aliases : tuple of str
        Other names this GPU goes by; among them what ``torch.cuda.get_device_name`` returns.
    """

    name: str
    architecture: str
    arch: str
    sms: int
    memory_bytes: int
    memory_bandwidth: float
    l2_bytes: int
    shared_per_sm: int
    shared_per_block: int
    max_threads_per_sm: int
    max_ctas_per_sm: int
    bf16_flops: float | None = None
    fp8_flops: float | None = None
    measured_read_bandwidth: float | None = None
    shared_reserved_per_block: int = KIB
    registers_per_sm: int = 65536
    registers_per_block: int = 65536
    max_registers_per_thread: int = 255
    max_threads_per_block: int = 1024
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in ("sms", "memory_bytes", "memory_bandwidth", "l2_bytes", "shared_per_sm", "max_threads_per_sm"):
            value = getattr(self, field)
            number = isinstance(value, Integral if field == "sms" else Real) and not isinstance(value, bool)
            if not number or not 0 < value < float("inf"):
                raise InvalidArgument(f"Gpu {self.name!r}: {field} is {value!r}; it must be a number above 0.")

    @property
    def max_warps_per_sm(self) -> int:
        """Warps that fit an SM (threads over 32)."""
        return self.max_threads_per_sm // 32

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor compute capability, for example ``(9, 0)`` for ``sm_90a``."""
        digits = self.arch.removeprefix("sm_").rstrip("af")
        return int(digits[:-1]), int(digits[-1])

    @property
    def read_bandwidth(self) -> float:
        """Bytes a second to plan with: measured where known, else the datasheet's."""
        return self.measured_read_bandwidth or self.memory_bandwidth

    @property
    def read_bandwidth_source(self) -> str:
        """``"measured"`` or ``"datasheet"``: where :attr:`read_bandwidth` comes from."""
        return "measured" if self.measured_read_bandwidth else "datasheet"


# Residency limits by compute capability (CUDA programming guide).
_SM80: dict[str, Any] = {
    "architecture": "Ampere",
    "arch": "sm_80",
    "shared_per_sm": 164 * KIB,
    "shared_per_block": 163 * KIB,
    "max_threads_per_sm": 2048,
    "max_ctas_per_sm": 32,
}
_SM89: dict[str, Any] = {
    "architecture": "Ada",
    "arch": "sm_89",
    "shared_per_sm": 100 * KIB,
    "shared_per_block": 99 * KIB,
    "max_threads_per_sm": 1536,
    "max_ctas_per_sm": 24,
}
_SM90: dict[str, Any] = {
    "architecture": "Hopper",
    "arch": "sm_90a",
    "shared_per_sm": 228 * KIB,
    "shared_per_block": 227 * KIB,
    "max_threads_per_sm": 2048,
    "max_ctas_per_sm": 32,
}
_SM100: dict[str, Any] = {**_SM90, "architecture": "Blackwell", "arch": "sm_100a"}

_GPUS = (
    Gpu(name="H20", sms=78, memory_bytes=96 * GIB, memory_bandwidth=4.0e12, l2_bytes=60 * MIB,
        bf16_flops=148e12, fp8_flops=296e12, aliases=("NVIDIA H20",), **_SM90),
    Gpu(name="H100", sms=132, memory_bytes=80 * GIB, memory_bandwidth=3.35e12, l2_bytes=50 * MIB,
        bf16_flops=989e12, fp8_flops=1979e12, aliases=("NVIDIA H100 80GB HBM3", "H100 SXM"), **_SM90),
    Gpu(name="H200", sms=132, memory_bytes=141 * GIB, memory_bandwidth=4.8e12, l2_bytes=60 * MIB,
        bf16_flops=989e12, fp8_flops=1979e12, measured_read_bandwidth=4.37e12, aliases=("NVIDIA H200", "H200 SXM"),
        **_SM90),
    Gpu(name="B200", sms=148, memory_bytes=180 * GIB, memory_bandwidth=8.0e12, l2_bytes=126 * MIB,
        bf16_flops=2250e12, fp8_flops=4500e12, aliases=("NVIDIA B200",), **_SM100),
    Gpu(name="A100", sms=108, memory_bytes=80 * GIB, memory_bandwidth=2.039e12, l2_bytes=40 * MIB,
        bf16_flops=312e12, aliases=("NVIDIA A100-SXM4-80GB", "A100 SXM"), **_SM80),
    Gpu(name="L40S", sms=142, memory_bytes=48 * GIB, memory_bandwidth=864e9, l2_bytes=96 * MIB,
        bf16_flops=362e12, fp8_flops=733e12, aliases=("NVIDIA L40S",), **_SM89),
)  # fmt: skip

CATALOGUE: MappingProxyType[str, Gpu] = MappingProxyType({entry.name: entry for entry in _GPUS})
"""Every GPU known by name, read-only."""

_BY_ANY_NAME = {alias.casefold(): entry for entry in _GPUS for alias in (entry.name, *entry.aliases)}

# The rule of HPC-Ops' decode attention: how many CTAs of its kernel fit an SM, by query tokens a request.
_CTAS_PER_SM = {1: 4, 2: 3, 3: 3, 4: 2, 5: 2}


def names() -> Iterator[str]:
    """Short names of the catalogue, in its order."""
    return iter(CATALOGUE)


def gpu(name: str | Gpu) -> Gpu:
    """Find a GPU by its short name or by the name the driver gives it.

    Parameters
    ----------
    name : str or Gpu
        ``"H200"``, ``"NVIDIA H200"`` and so on, upper or lower case; a `Gpu` is returned as it is.

    Raises
    ------
    InvalidArgument
        The name is not in the catalogue. A variant with other SM counts (such as "NVIDIA H100 PCIe") is not guessed.
    """
    if isinstance(name, Gpu):
        return name
    found = _BY_ANY_NAME.get(str(name).strip().casefold())
    if found is None:
        raise InvalidArgument(
            f"No GPU is named {name!r} in the catalogue. Known: {', '.join(CATALOGUE)}. "
            "For another one use devices.custom('my-gpu', sms=..., like='H200')."
        )
    return found


def custom(name: str, *, sms: int, like: str | Gpu = "H200", **changes: Any) -> Gpu:
    """Describe a GPU that the catalogue lacks, starting from one it has.

    Parameters
    ----------
    name : str
        A name of your choice.
    sms : int
        Streaming multiprocessors.
    like : str or Gpu
        The GPU whose other figures are taken over.
    **changes
        Any other field of `Gpu`, for example ``memory_bandwidth=3.9e12``.

    Returns
    -------
    Gpu
        Without aliases. It keeps the measured bandwidth of `like` only if the datasheet bandwidth stays the same.

    Raises
    ------
    InvalidArgument
        An unknown field, or a figure that is not above 0.
    """
    base = gpu(like)
    fields = {field.name for field in dataclasses.fields(Gpu)} - {"name", "sms"}
    if unknown := sorted(set(changes) - fields):
        raise InvalidArgument(f"Gpu has no field {', '.join(unknown)}. Fields: {', '.join(sorted(fields))}.")
    if changes.get("memory_bandwidth", base.memory_bandwidth) != base.memory_bandwidth:
        changes.setdefault("measured_read_bandwidth", None)
    changes.setdefault("aliases", ())
    return dataclasses.replace(base, name=name, sms=sms, **changes)


def ctas_per_sm(q_len: int) -> int:
    """CTAs an SM that HPC-Ops' decode attention runs with, by query tokens a request.

    Parameters
    ----------
    q_len : int
        Query tokens a request (1 + draft tokens), 1 to 5.

    Returns
    -------
    int
        1 -> 4, 2 -> 3, 3 -> 3, 4 -> 2, 5 -> 2.

    Raises
    ------
    InvalidArgument
        `q_len` is outside 1 to 5.
    """
    if q_len not in _CTAS_PER_SM:
        raise InvalidArgument(f"q_len is {q_len!r}; the rule knows 1 to 5 query tokens a request.")
    return _CTAS_PER_SM[q_len]
