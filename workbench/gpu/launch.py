"""Launch a compiled kernel.

A `Kernel` loads its cubin at the first launch on a device. A launch costs the host a few microseconds because whatever
does not change between calls is kept: streams, launch configurations, and which types of argument were checked.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import InvalidArgument, LaunchError
from workbench.gpu import driver, packed, streams
from workbench.gpu.compile import CompiledKernel
from workbench.gpu.sizes import LaunchSizes, Size, launch_sizes

if TYPE_CHECKING:
    from cuda.core import LaunchConfig

_MOST_THREADS = 1024
_PORTABLE_CLUSTER = 8
_SHARED_WITHOUT_ASKING = 48 * 1024
_POINTER_BYTES = 8
_TENSOR_MAP_BYTES = 128


@dataclasses.dataclass
class _Loaded:
    """A kernel on one device, with what it was allowed there."""

    kernel: Any
    handle: int
    submit: Callable[..., None]
    device: driver.Device
    dynamic_shared: int = 0
    cluster_ctas: int = _PORTABLE_CLUSTER


class Kernel:
    """A compiled kernel that can be launched.

    Parameters
    ----------
    compiled : CompiledKernel
        What `workbench.gpu.compile.compile_kernel` returns.
    """

    def __init__(self, compiled: CompiledKernel) -> None:
        if not isinstance(compiled, CompiledKernel):
            raise InvalidArgument(f"compiled is a {type(compiled).__name__}; give what compile_kernel(...) returns.")
        self.compiled = compiled
        self._loaded: dict[int, _Loaded] = {}
        self._shapes: dict[tuple[Any, ...], tuple[LaunchSizes, LaunchConfig]] = {}
        self._accepted: set[tuple[type, ...]] = set()

    def __repr__(self) -> str:
        return f"Kernel({self.compiled})"

    def launch(
        self,
        grid: Size,
        block: Size,
        args: Sequence[Any],
        *,
        stream: Any = None,
        shared_bytes: int = 0,
        cluster: Size | None = None,
        pdl: bool = False,
    ) -> None:
        """Launch; returns before the kernel ends.

        Parameters
        ----------
        grid : int or tuple of int
            CTAs in x, y and z, also where `cluster` is given; then a multiple of it.
        block : int or tuple of int
            Threads a CTA in x, y and z.
        args : list or tuple
            One a kernel parameter: a torch tensor (its address), None (a null pointer), a NumPy scalar of the
            parameter's type, or a tensor map. Python numbers are refused, for they do not tell their size. A kernel
            whose one parameter is a structure takes one `ctypes.Structure`, with addresses filled in by the caller.
        stream : torch.cuda.Stream or int, optional
            Stream or its address. By default torch's current stream, so a graph being captured captures the launch.
        shared_bytes : int
            Dynamic shared memory a CTA; more than 48 KB needs nothing else.
        cluster : int or tuple of int, optional
            CTAs a cluster in x, y and z.
        pdl : bool
            Programmatic dependent launch: the kernel may start before the one ahead of it in the stream has ended, and
            must wait for its results with ``griddepcontrol.wait``.

        Raises
        ------
        InvalidArgument
            An argument has the wrong size or device, or a size is not possible.
        NoGpu
            There is no GPU.
        LaunchError
            The driver refuses the launch.
        """
        values, device = self._values(args)
        try:
            known = self._shapes.get((grid, block, shared_bytes, cluster, pdl))
        except TypeError:  # a list or the like, which `_configure` names
            known = None
        sizes, config = known or self._configure(grid, block, shared_bytes, cluster, pdl)
        current = streams.current_device()
        if device is not None and device != current:
            with streams.torch().cuda.device(device):
                self.launch(grid, block, args, stream=stream, shared_bytes=shared_bytes, cluster=cluster, pdl=pdl)
            return
        streams.enter_context(current)
        loaded = self._loaded.get(current) or self._load(current)
        if shared_bytes > loaded.dynamic_shared:
            self._allow_shared(loaded, shared_bytes)
        if sizes.cluster is not None and sizes.cluster_ctas > loaded.cluster_ctas:
            self._allow_cluster(loaded, sizes.cluster_ctas)
        target = streams.current_stream(current) if stream is None else streams.as_stream(stream)
        try:
            if len(values) == 1 and isinstance(values[0], ctypes.Structure):
                packed.launch_structure(
                    loaded.handle,
                    values[0],
                    grid=sizes.grid,
                    block=sizes.block,
                    cluster=sizes.cluster,
                    shared_bytes=shared_bytes,
                    pdl=pdl,
                    stream=int(target.handle),
                )
            else:
                loaded.submit(target, config, loaded.kernel, *values)
        except (LaunchError, _cuda_errors()) as error:
            raise LaunchError(
                f"{self.compiled}: the launch of grid {grid}, block {block}, {shared_bytes} bytes of dynamic shared "
                f"memory, cluster {cluster} on {loaded.device.name} failed: {error}"
            ) from None

    def load(self, device: int | None = None) -> None:
        """Load the kernel, so that no later launch has to.

        A launch does it when needed; call this before capturing a graph with a kernel that never ran, for loading is
        not allowed in a capture.

        Parameters
        ----------
        device : int, optional
            CUDA ordinal; torch's current device by default.

        Raises
        ------
        NoGpu
            There is no such GPU.
        LaunchError
            The GPU is of another architecture than the kernel was compiled for, or the driver refuses the kernel.
        """
        driver.require_gpu()
        index = streams.current_device() if device is None else device
        driver.device(index)
        with streams.torch().cuda.device(index):
            streams.enter_context(index)
            if index not in self._loaded:
                self._load(index)

    def _load(self, index: int) -> _Loaded:
        device = driver.device(index)
        self._check_architecture(device)
        from cuda.bindings import driver as cuda
        from cuda.core import ObjectCode, launch

        try:
            kernel = ObjectCode.from_cubin(self.compiled.cubin).get_kernel(self.compiled.symbol)
        except _cuda_errors() as error:
            raise LaunchError(f"{self.compiled} cannot be loaded on {device.name}: {error}") from None
        # The driver would put off part of the loading to the first launch, and that may be in a capture.
        driver.check(cuda.cuKernelGetFunction(kernel.handle), f"loading {self.compiled} on {device.name}")
        self._loaded[index] = _Loaded(kernel, int(kernel.handle), launch, device)
        return self._loaded[index]

    def _check_architecture(self, device: driver.Device) -> None:
        arch = self.compiled.arch
        digits = arch.removeprefix("sm_").rstrip("af")
        wanted, have = (int(digits[:-1]), int(digits[-1])), device.compute_capability
        # "a" code runs on exactly its capability, other code also on later ones of the same major version.
        if not (have == wanted if arch.endswith("a") else have[0] == wanted[0] and have[1] >= wanted[1]):
            raise LaunchError(
                f"{self.compiled} was compiled for {arch}, but GPU {device.index} is {device.name} with compute "
                f"capability {have[0]}.{have[1]}. Compile it with arch='sm_{have[0]}{have[1]}'."
            )

    def _values(self, args: Sequence[Any]) -> tuple[list[Any], int | None]:
        """What the driver is given for each argument, and the device the tensors are on."""
        if not isinstance(args, list | tuple):
            raise InvalidArgument(f"{self.compiled}: args is a {type(args).__name__}; give a list, one a parameter.")
        kinds = tuple(map(type, args))
        if kinds not in self._accepted:
            self._check_sizes(args)
            self._accepted.add(kinds)
        values: list[Any] = []
        device = None
        for position, arg in enumerate(args):
            if isinstance(arg, np.generic):  # asked first: an attribute that a NumPy scalar lacks is slow to look up
                values.append(arg)
            elif arg is None:
                values.append(0)
            elif hasattr(arg, "data_ptr"):
                where = arg.get_device()
                if where < 0 or (device is not None and where != device):
                    raise InvalidArgument(
                        f"{self.compiled}: argument {position} is a tensor on {arg.device}; "
                        + (f"an earlier one is on cuda:{device}." if device is not None else "move it to a GPU.")
                    )
                device = where
                values.append(arg.data_ptr())
            else:
                values.append(arg)
        return values, device

    def _check_sizes(self, args: Sequence[Any]) -> None:
        expected = self.compiled.facts.parameter_sizes
        if len(args) != len(expected):
            raise InvalidArgument(f"{self.compiled}: got {len(args)} arguments; the kernel takes {len(expected)}.")
        for position, (arg, size) in enumerate(zip(args, expected, strict=True)):
            given = _size_of(arg)
            if given != size:
                what = f"{given} bytes" if given else "no size of its own"
                raise InvalidArgument(
                    f"{self.compiled}: argument {position} is a {type(arg).__name__} with {what}; the kernel's "
                    f"parameter has {size} bytes. Give a torch tensor, None, a tensor map, or a NumPy scalar such as "
                    "numpy.int32(3)."
                )

    def _configure(
        self, grid: Size, block: Size, shared_bytes: int, cluster: Size | None, pdl: bool
    ) -> tuple[LaunchSizes, LaunchConfig]:
        try:
            sizes = launch_sizes(grid, block, cluster, shared_bytes)
        except InvalidArgument as error:
            raise InvalidArgument(f"{self.compiled}: {error}") from None
        most = self.compiled.facts.max_threads or _MOST_THREADS
        if sizes.threads > most:
            raise InvalidArgument(f"{self.compiled}: block {block} has {sizes.threads} threads; allowed are {most}.")
        driver.require_gpu()
        from cuda.core import LaunchConfig

        # cuda-core counts the grid in clusters where there are any, CUDA always in CTAs.
        x, y, z = (count // part for count, part in zip(sizes.grid, sizes.cluster or (1, 1, 1), strict=True))
        config = LaunchConfig(
            grid=(x, y, z),
            block=sizes.block,
            shmem_size=sizes.shared_bytes,
            cluster=sizes.cluster,
            programmatic_stream_serialization=pdl,
        )
        self._shapes[grid, block, shared_bytes, cluster, pdl] = sizes, config
        return sizes, config

    def _allow_shared(self, loaded: _Loaded, dynamic: int) -> None:
        static, most = self.compiled.facts.shared_bytes, loaded.device.shared_per_block
        if static + dynamic > most:
            raise InvalidArgument(
                f"{self.compiled}: {dynamic} bytes of dynamic and {static} of static shared memory exceed the {most} "
                f"that a CTA may have on {loaded.device.name}."
            )
        if static + dynamic > _SHARED_WITHOUT_ASKING:
            self._set(loaded, "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", dynamic)
        loaded.dynamic_shared = dynamic

    def _allow_cluster(self, loaded: _Loaded, ctas: int) -> None:
        self._set(loaded, "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
        loaded.cluster_ctas = ctas

    def _set(self, loaded: _Loaded, attribute: str, value: int) -> None:
        from cuda.bindings import driver as cuda

        name, device = getattr(cuda.CUfunction_attribute, attribute), cuda.CUdevice(loaded.device.index)
        status = cuda.cuKernelSetAttribute(name, value, loaded.kernel.handle, device)
        driver.check(status, f"{self.compiled}: setting {attribute} to {value}")


def _size_of(arg: Any) -> int | None:
    """Bytes that an argument takes in the kernel's parameters; None for what cannot be one."""
    if arg is None or hasattr(arg, "data_ptr"):
        return _POINTER_BYTES
    if isinstance(arg, np.number | np.bool_):
        return arg.itemsize
    if isinstance(arg, ctypes.Structure):
        return ctypes.sizeof(arg)
    return _TENSOR_MAP_BYTES if type(arg).__name__ == "TensorMapDescriptor" else None


def _cuda_errors() -> type[Exception]:
    """What cuda-core raises when the driver refuses; looked up only when something was raised."""
    from cuda.core._utils.cuda_utils import CUDAError

    return CUDAError  # type: ignore[no-any-return]
