"""Occupancy against NVIDIA's own calculator, the header ``cuda_occupancy.h``, over many random kernels."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbench import devices
from workbench.errors import InvalidArgument
from workbench.gpu.occupancy import occupancy

RESOURCES = {0x01: "warps", 0x02: "registers", 0x04: "shared memory", 0x08: "CTAs"}

ORACLE = """
#include <cuda_occupancy.h>
int occupancy(int major, int minor, int max_threads, int registers_per_sm, long shared_per_sm, long shared_per_block,
              int threads, int registers, long shared, int* factors) {
    struct cudaOccDeviceProp device = {0};
    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = max_threads;
    device.regsPerBlock = 65536;
    device.regsPerMultiprocessor = registers_per_sm;
    device.warpSize = 32;
    device.sharedMemPerBlock = 49152;
    device.sharedMemPerMultiprocessor = shared_per_sm;
    device.numSms = 1;
    device.sharedMemPerBlockOptin = shared_per_block;
    device.reservedSharedMemPerBlock = 1024;
    struct cudaOccFuncAttributes kernel = {0};
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = registers;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = shared;
    kernel.numBlockBarriers = 1;
    struct cudaOccDeviceState state = {0};
    state.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT;
    struct cudaOccResult result = {0};
    int status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, shared);
    *factors = (int)result.limitingFactors;
    return status ? -status : result.activeBlocksPerMultiprocessor;
}
"""


def header_folder() -> Path | None:
    for package, inside in (("nvidia", "cu13/include"), ("triton", "backends/nvidia/include")):
        spec = find_spec(package)
        for root in (spec and spec.submodule_search_locations) or ():
            if (Path(root) / inside / "cuda_occupancy.h").is_file():
                return Path(root) / inside
    return None


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler, header = shutil.which("cc") or shutil.which("gcc"), header_folder()
    if compiler is None:
        pytest.skip("no C compiler here to build NVIDIA's calculator with")
    if header is None:
        pytest.skip("cuda_occupancy.h is not installed; it comes with nvidia-cuda-runtime")
    folder = tmp_path_factory.mktemp("oracle")
    (folder / "oracle.c").write_text(ORACLE)
    command = [compiler, "-O1", "-w", "-shared", "-fPIC", f"-I{header}", "oracle.c", "-o", "oracle.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "oracle.so"))


def ask(oracle: ctypes.CDLL, gpu: devices.Gpu, threads: int, registers: int, shared: int) -> tuple[int, set[str]]:
    factors = ctypes.c_int()
    major, minor = gpu.compute_capability
    ctas = oracle.occupancy(
        major,
        minor,
        gpu.max_threads_per_sm,
        gpu.registers_per_sm,
        ctypes.c_long(gpu.shared_per_sm),
        ctypes.c_long(gpu.shared_per_block),
        threads,
        registers,
        ctypes.c_long(shared),
        ctypes.byref(factors),
    )
    assert ctas >= 0, f"the calculator refuses {gpu.name}: status {-ctas}"
    return ctas, {name for bit, name in RESOURCES.items() if factors.value & bit}


@pytest.mark.parametrize("name", sorted(devices.CATALOGUE))
def test_ctas_and_limits_equal_nvidias_calculator(oracle: ctypes.CDLL, name: str) -> None:
    gpu = devices.gpu(name)
    random = np.random.default_rng(sum(map(ord, name)))
    for _ in range(6000):
        threads = int(random.integers(1, 1100)) if random.random() < 0.4 else 32 * int(random.integers(1, 34))
        registers = int(random.integers(0, 256))
        # Mostly small sizes, so that every resource is the limit often, and some just around the largest.
        largest = gpu.shared_per_block
        shared = (
            int(largest * random.random() ** 3) if random.random() < 0.8 else largest + int(random.integers(-300, 300))
        )
        ours = occupancy(gpu, threads=threads, registers=registers, shared_bytes=shared)
        theirs, factors = ask(oracle, gpu, threads, registers, shared)
        case = f"{name}: {threads} threads, {registers} registers, {shared} bytes"
        assert ours.ctas_per_sm == theirs, case
        if theirs and registers:
            assert set(ours.limited_by) == factors, case


def test_every_resource_limits_some_kernel() -> None:
    cases = {
        "registers": {"threads": 128, "registers": 168},
        "shared memory": {"threads": 128, "registers": 32, "shared_bytes": 60 * 1024},
        "warps": {"threads": 1024, "registers": 32},
        "CTAs": {"threads": 32, "registers": 32},
    }
    for resource, kernel in cases.items():
        found = occupancy("H200", **kernel)
        assert resource in found.limited_by
        assert found.ctas_per_sm == found.limits[resource]


def test_figures_worked_out_by_hand() -> None:
    # 168 registers x 32 = 5,376 a warp; 16,384 a sub-partition hold 3 such warps, so 12 an SM: 3 CTAs of 4 warps.
    found = occupancy("H200", threads=128, registers=168)
    assert (found.ctas_per_sm, found.warps_per_sm, found.fraction) == (3, 12, 12 / 64)
    # 56 KB + 1 KB for the driver: 4 of them are the 228 KB of an SM; one byte more and only 3 fit.
    assert occupancy("H200", threads=128, registers=32, shared_bytes=56 * 1024).ctas_per_sm == 4
    assert occupancy("H200", threads=128, registers=32, shared_bytes=56 * 1024 + 1).ctas_per_sm == 3


def test_a_kernel_that_cannot_run_has_no_cta() -> None:
    assert occupancy("H200", threads=1025, registers=32).ctas_per_sm == 0
    assert occupancy("H200", threads=128, registers=32, shared_bytes=228 * 1024).ctas_per_sm == 0
    assert occupancy("H200", threads=1024, registers=80).limited_by == ("registers",)


@pytest.mark.parametrize(
    "kernel",
    [
        {"threads": 0, "registers": 32},
        {"threads": 32, "registers": 256},
        {"threads": 32, "registers": -1},
        {"threads": 32, "registers": 32, "shared_bytes": -1},
    ],
)
def test_nonsense_is_refused(kernel: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument):
        occupancy("H200", **kernel)


@pytest.mark.parametrize("name", ["threads", "registers", "shared_bytes"])
@pytest.mark.parametrize("value", [12.5, "x", None, True, float("nan")], ids=repr)
def test_what_is_no_whole_number_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=rf"{name} is .*; give a whole number"):
        occupancy("H200", **{"threads": 128, "registers": 32, "shared_bytes": 0, name: value})
