"""Where a launch goes: torch's current device and stream, as objects that ``cuda-core`` takes.

torch is the owner of both here, as it is of every tensor; it is imported when the first kernel is launched.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Any

from workbench.errors import InvalidArgument, MissingDependency

if TYPE_CHECKING:
    from types import ModuleType

    from cuda.core import Stream

_streams: dict[int, Stream] = {}
_thread = threading.local()


@cache
def torch() -> ModuleType:
    """The torch module.

    Raises
    ------
    MissingDependency
        It is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingDependency("torch", needed_for="launching kernels", install="pip install torch") from error
    return torch


def current_device() -> int:
    """Index of torch's current GPU."""
    return int(torch().cuda.current_device())


def current_stream(device: int) -> Stream:
    """Torch's current stream on a GPU; the capturing one while a graph is captured."""
    # The public torch.cuda.current_stream builds a Python object on each call, which costs as much as a launch.
    return as_stream(torch()._C._cuda_getCurrentRawStream(device))


def as_stream(stream: Any) -> Stream:
    """Turn a torch stream, or the address of a CUDA stream, into a stream of ``cuda-core``, made once for each address.

    Raises
    ------
    InvalidArgument
        It is neither.
    """
    address = getattr(stream, "cuda_stream", stream)
    if not isinstance(address, int):
        raise InvalidArgument(f"stream is {stream!r}; give a torch.cuda.Stream or the address of a CUDA stream.")
    if address not in _streams:
        from cuda.core import LEGACY_DEFAULT_STREAM, Stream

        # Torch's default stream has the address 0, which cuda-core takes for a closed stream.
        _streams[address] = LEGACY_DEFAULT_STREAM if address == 0 else Stream.from_handle(address)
    return _streams[address]


def enter_context(device: int) -> None:
    """Make a device's context current in this thread, once for each thread and device switch.

    torch binds a context to a thread at the first call that needs one, and a launch on the default stream would come
    before it in a fresh thread.
    """
    if getattr(_thread, "device", None) != device:
        from cuda.core import Device

        Device(device).set_current()
        _thread.device = device
