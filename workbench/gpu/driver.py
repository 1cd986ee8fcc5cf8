"""Is there an NVIDIA driver and a GPU here, and which.

The one place that finds out. It asks ``libcuda`` directly, because the CUDA libraries for Python raise, and on the next
call wait for ever, on a machine with no driver: whatever touches a device calls `require_gpu` first.
"""

from __future__ import annotations

import ctypes
import dataclasses
from functools import cache
from typing import Any

from workbench.errors import InvalidArgument, LaunchError, NoGpu

_CUDA_SUCCESS = 0
_CUDA_ERROR_NO_DEVICE = 100

# CUdevice_attribute numbers, from cuda.h.
_ATTRIBUTES = {
    "sms": 16,
    "l2_bytes": 38,
    "major": 75,
    "minor": 76,
    "shared_per_sm": 81,
    "shared_per_block": 97,
    "registers_per_sm": 82,
    "max_threads_per_sm": 39,
}

_REMEDY = "Compiling and planning work without one; running kernels does not."


@dataclasses.dataclass(frozen=True)
class DriverStatus:
    """What the driver says about this machine.

    Attributes
    ----------
    version : tuple of int or None
        Newest CUDA version the driver supports, such as ``(13, 0)``; None where there is no driver.
    device_count : int
        GPUs that this process may use (``CUDA_VISIBLE_DEVICES`` applies).
    problem : str or None
        Why no kernel can run here and what to do, as a sentence; None where one can.
    """

    version: tuple[int, int] | None
    device_count: int
    problem: str | None


@dataclasses.dataclass(frozen=True)
class Device:
    """One GPU of this machine, as its driver describes it. Sizes are bytes.

    Attributes
    ----------
    index : int
        CUDA ordinal, the same number torch uses.
    name : str
        The driver's name, such as ``"NVIDIA H200"``.
    compute_capability : tuple of int
        Such as ``(9, 0)``.
    sms, memory_bytes, l2_bytes, shared_per_sm, shared_per_block, registers_per_sm, max_threads_per_sm : int
        As in `workbench.devices.Gpu`.
    """

    index: int
    name: str
    compute_capability: tuple[int, int]
    sms: int
    memory_bytes: int
    l2_bytes: int
    shared_per_sm: int
    shared_per_block: int
    registers_per_sm: int
    max_threads_per_sm: int


_LIBRARY = "libcuda.so.1"
_NOT_FOUND = "cannot open shared object file"
"""The dynamic linker's words for a file that is not there; for any other fault it has others."""


@cache
def _load() -> ctypes.CDLL | OSError:
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError as error:
        return error


def _library() -> ctypes.CDLL | None:
    library = _load()
    return None if isinstance(library, OSError) else library


@cache
def probe() -> DriverStatus:
    """Ask the driver once for each process; never waits and never raises."""
    library = _load()
    if isinstance(library, OSError) and _NOT_FOUND in str(library):
        return DriverStatus(None, 0, f"There is no NVIDIA driver here ({_LIBRARY} was not found). {_REMEDY}")
    try:
        if isinstance(library, OSError):
            raise library
        return _ask(library)
    except (OSError, AttributeError, LaunchError) as error:  # a damaged file, one that lacks functions, one that fails
        said = str(error).rstrip(".")
        return DriverStatus(None, 0, f"The NVIDIA driver here is broken: {said}. Install it again. {_REMEDY}")


def _ask(library: ctypes.CDLL) -> DriverStatus:
    number = ctypes.c_int()
    version = None
    if library.cuDriverGetVersion(ctypes.byref(number)) == _CUDA_SUCCESS:
        version = (number.value // 1000, number.value % 1000 // 10)
    status = library.cuInit(0)
    if status == _CUDA_ERROR_NO_DEVICE:
        problem = f"The NVIDIA driver shows no GPU; see `nvidia-smi` and CUDA_VISIBLE_DEVICES. {_REMEDY}"
        return DriverStatus(version, 0, problem)
    if status != _CUDA_SUCCESS:
        problem = (
            f"The NVIDIA driver does not start: {_error_text(library, status)}. `nvidia-smi` may say more. {_REMEDY}"
        )
        return DriverStatus(version, 0, problem)
    _check(library, library.cuDeviceGetCount(ctypes.byref(number)), "cuDeviceGetCount")
    no_gpu = f"The NVIDIA driver counts no GPU; see CUDA_VISIBLE_DEVICES. {_REMEDY}"
    return DriverStatus(version, number.value, None if number.value else no_gpu)


def require_gpu() -> None:
    """Pass where a kernel can run.

    Raises
    ------
    NoGpu
        There is no driver or no GPU; the message says which and what to do.
    """
    if problem := probe().problem:
        raise NoGpu(problem)


@cache
def device(index: int = 0) -> Device:
    """Describe one GPU of this machine.

    Raises
    ------
    NoGpu
        There is no such GPU.
    InvalidArgument
        ``index`` is no number.
    """
    if isinstance(index, bool) or not isinstance(index, int):
        raise InvalidArgument(f"The index of a GPU is {index!r}; give a whole number from 0.")
    require_gpu()
    count = probe().device_count
    if not 0 <= index < count:
        raise NoGpu(f"GPU {index} was asked for; this process sees {count}, numbered from 0.")
    library = _library()
    assert library is not None  # require_gpu passed
    handle, text, memory = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    _check(library, library.cuDeviceGet(ctypes.byref(handle), index), "cuDeviceGet")
    _check(library, library.cuDeviceGetName(text, len(text), handle), "cuDeviceGetName")
    _check(library, library.cuDeviceTotalMem_v2(ctypes.byref(memory), handle), "cuDeviceTotalMem")
    facts: dict[str, int] = {}
    for name, number in _ATTRIBUTES.items():
        value = ctypes.c_int()
        _check(library, library.cuDeviceGetAttribute(ctypes.byref(value), number, handle), f"attribute {name}")
        facts[name] = value.value
    capability = (facts.pop("major"), facts.pop("minor"))
    return Device(index, text.value.decode(), capability, memory_bytes=memory.value, **facts)


def check(result: tuple[Any, ...], what: str) -> Any:
    """Unpack what a function of ``cuda.bindings.driver`` returns.

    Parameters
    ----------
    result : tuple
        Status, then the values.
    what : str
        What was being done, for the message.

    Returns
    -------
    object
        The value, a tuple of several, or None.

    Raises
    ------
    LaunchError
        The status is not success.
    """
    status, *values = result
    if int(status) != _CUDA_SUCCESS:
        library = _library()
        text = str(status) if library is None else _error_text(library, int(status))
        raise LaunchError(f"{what} failed: {text}.")
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


def _check(library: ctypes.CDLL, status: int, what: str) -> None:
    if status != _CUDA_SUCCESS:
        raise LaunchError(f"{what} failed: {_error_text(library, status)}.")


def _error_text(library: ctypes.CDLL, status: int) -> str:
    """Name and description of a driver error, such as "CUDA_ERROR_INVALID_VALUE (invalid argument)"."""
    name, text = ctypes.c_char_p(), ctypes.c_char_p()
    library.cuGetErrorName(status, ctypes.byref(name))
    library.cuGetErrorString(status, ctypes.byref(text))
    return f"{(name.value or b'error').decode()} {status} ({(text.value or b'no description').decode()})"
