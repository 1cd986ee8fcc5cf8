"""Launch a kernel whose only parameter is a structure, which cuda-core's launcher does not take.

A kernel with dozens of parameters reads better with one structure, and filling a ctypes structure costs the host less
than converting each argument.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from math import prod
from typing import Any

from workbench.gpu import driver
from workbench.gpu.sizes import Three


@lru_cache(maxsize=4096)
def configuration(grid: Three, block: Three, cluster: Three | None, shared_bytes: int, pdl: bool, stream: int) -> Any:
    """A launch as the driver takes it (``CUlaunchConfig``); the parameters are those of :func:`launch_structure`."""
    from cuda.bindings import driver as cuda

    config = cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes, config.hStream = shared_bytes, cuda.CUstream(stream)
    attributes = []
    if pdl:
        attribute = cuda.CUlaunchAttribute()
        attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        attributes.append(attribute)
    if cluster is not None and prod(cluster) > 1:
        attribute = cuda.CUlaunchAttribute()
        attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dim = attribute.value.clusterDim
        dim.x, dim.y, dim.z = cluster
        attributes.append(attribute)
    config.attrs, config.numAttrs = attributes, len(attributes)
    return config


def launch_structure(
    kernel: int,
    parameters: ctypes.Structure,
    *,
    grid: Three,
    block: Three,
    cluster: Three | None,
    shared_bytes: int,
    pdl: bool,
    stream: int,
) -> None:
    """Launch ``kernel`` with ``parameters`` as its one argument; the driver copies it before this returns.

    Parameters
    ----------
    kernel : int
        Handle of the kernel (``CUkernel``).
    parameters : ctypes.Structure
        Laid out as the kernel's parameter is.
    grid, block, cluster : tuple of int
        CTAs (not clusters), threads, and CTAs a cluster.
    shared_bytes : int
        Dynamic shared memory a CTA.
    pdl : bool
        Programmatic dependent launch.
    stream : int
        Handle of the stream.

    Raises
    ------
    LaunchError
        The driver refuses the launch.
    """
    from cuda.bindings import driver as cuda

    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(parameters))
    config = configuration(grid, block, cluster, shared_bytes, pdl, stream)
    status = cuda.cuLaunchKernelEx(config, cuda.CUfunction(kernel), ctypes.addressof(pointers), 0)
    driver.check(status, "cuLaunchKernelEx")
