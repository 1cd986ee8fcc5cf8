"""Is there an NVIDIA driver, and which GPUs does it show? Asked of ``libcuda`` alone, before anything else is.

Without a driver some CUDA packages raise and others wait for ever, so every part of the workbench that needs a GPU
asks here first. Asking creates no context and takes no GPU memory.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from workbench.errors import NoGpu

_LIBRARY = "libcuda.so.1"
_RELEASE_FILE = Path("/proc/driver/nvidia/version")

# CUdevice_attribute in cuda.h.
_MULTIPROCESSOR_COUNT = 16
_COMPUTE_CAPABILITY_MAJOR = 75
_COMPUTE_CAPABILITY_MINOR = 76


@dataclass(frozen=True)
class Gpu:
    """One GPU as the driver describes it."""

    index: int
    name: str
    compute_capability: tuple[int, int]
    sms: int
    memory_bytes: int


@dataclass(frozen=True)
class Driver:
    """A driver that answers, and at least one GPU."""

    release: str | None
    """Release of the kernel module, such as "580.95.05"; None where the system does not say."""
    cuda: tuple[int, int]
    """Newest CUDA version that the driver serves."""
    gpus: tuple[Gpu, ...]


@cache
def probe() -> Driver:
    """The driver and its GPUs.

    Raises
    ------
    NoGpu
        If there is no driver library, the driver refuses to start, or it shows no GPU; the message says which.
    """
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise NoGpu(
            f"No NVIDIA driver here: {_LIBRARY} was not found. Run this on a machine with an NVIDIA GPU and its driver."
        ) from None

    def call(function: str, *arguments: object) -> None:
        status = getattr(library, function)(*arguments)
        if status != 0:
            raise NoGpu(
                f"The NVIDIA driver answered {function} with error {status}. See whether nvidia-smi lists a GPU."
            )

    def number(function: str, *arguments: object) -> int:
        value = ctypes.c_int()
        call(function, ctypes.byref(value), *arguments)
        return value.value

    call("cuInit", 0)
    version = number("cuDriverGetVersion")
    count = number("cuDeviceGetCount")
    if count == 0:
        raise NoGpu("The NVIDIA driver shows no GPU. Check CUDA_VISIBLE_DEVICES, or start the container with its GPUs.")

    def gpu(index: int) -> Gpu:
        device = number("cuDeviceGet", index)
        name = ctypes.create_string_buffer(256)
        call("cuDeviceGetName", name, len(name), device)
        memory = ctypes.c_size_t()
        call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
        major, minor, sms = (
            number("cuDeviceGetAttribute", attribute, device)
            for attribute in (_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR, _MULTIPROCESSOR_COUNT)
        )
        return Gpu(index, name.value.decode(), (major, minor), sms, memory.value)

    return Driver(_release(), (version // 1000, version % 1000 // 10), tuple(map(gpu, range(count))))


def why_no_gpu() -> str | None:
    """Why nothing can run on a GPU here, in one sentence with the remedy; None where it can."""
    try:
        probe()
    except NoGpu as error:
        return str(error)
    return None


def _release() -> str | None:
    """Release of the loaded kernel module: the first number with two dots in its version line."""
    if not _RELEASE_FILE.is_file():
        return None
    words = _RELEASE_FILE.read_text().split()
    return next((word for word in words if word.count(".") >= 1 and word.replace(".", "").isdigit()), None)
