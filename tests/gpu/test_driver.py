"""The driver probe, with and without a driver."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from workbench.errors import InvalidArgument, LaunchError, NoGpu
from workbench.gpu import driver
from workbench.gpu.report import gpu_report


@pytest.fixture
def fresh() -> Iterator[None]:
    """Forget what the driver said, before and after."""
    caches = (driver._load, driver.probe, driver.device)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def pretend(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    """Put a library with these functions in the place of libcuda."""

    def name(status: int, out: Any) -> int:
        ctypes.cast(out, ctypes.POINTER(ctypes.c_char_p))[0] = b"CUDA_ERROR_%d" % status
        return 0

    def version(out: Any) -> int:
        ctypes.cast(out, ctypes.POINTER(ctypes.c_int))[0] = 13000
        return 0

    common = {"cuGetErrorName": name, "cuGetErrorString": name, "cuDriverGetVersion": version}
    library = type("Library", (), {key: staticmethod(value) for key, value in {**common, **functions}.items()})
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)


@pytest.mark.usefixtures("fresh")
def test_no_library_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    status = driver.probe()
    assert (status.version, status.device_count) == (None, 0)
    with pytest.raises(NoGpu, match=r"libcuda\.so\.1 was not found.*Compiling"):
        driver.require_gpu()
    with pytest.raises(NoGpu):
        driver.device(0)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(("code", "words"), [(100, "CUDA_VISIBLE_DEVICES"), (999, "CUDA_ERROR_999 999.*nvidia-smi")])
def test_a_driver_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch, code: int, words: str) -> None:
    pretend(monkeypatch, cuInit=lambda _: code)
    assert driver.probe().version == (13, 0)
    with pytest.raises(NoGpu, match=words):
        driver.require_gpu()


@pytest.mark.usefixtures("fresh")
def test_a_driver_that_cannot_be_loaded_is_not_called_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(name: str) -> None:
        raise OSError(f"{name}: file too short")

    monkeypatch.setattr(ctypes, "CDLL", damaged)
    with pytest.raises(NoGpu, match=r"broken: libcuda\.so\.1: file too short. Install it again"):
        driver.require_gpu()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("functions", "words"),
    [
        ({}, "no attribute 'cuInit'"),
        ({"cuInit": lambda _: 0, "cuDeviceGetCount": lambda _: 999}, "cuDeviceGetCount failed: CUDA_ERROR_999"),
    ],
)
def test_a_driver_that_lacks_or_fails_a_function_is_broken(
    monkeypatch: pytest.MonkeyPatch, functions: dict[str, Any], words: str
) -> None:
    pretend(monkeypatch, **functions)
    with pytest.raises(NoGpu, match=f"broken: .*{words}.*Install it again"):
        driver.require_gpu()


@pytest.mark.parametrize("index", ["0", 1.0, None, True], ids=repr)
def test_the_index_of_a_gpu_is_a_number(index: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"index of a GPU is .*; give a whole number"):
        driver.device(index)


@pytest.mark.usefixtures("fresh")
def test_the_driver_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    pretend(monkeypatch, cuInit=lambda _: asked.append(1) or 100)
    for _ in range(3):
        driver.probe()
    assert asked == [1]


def test_a_failed_call_is_an_error_with_its_purpose() -> None:
    assert driver.check((0,), "nothing") is None
    assert driver.check((0, 5), "one") == 5
    assert driver.check((0, 5, 6), "two") == (5, 6)
    with pytest.raises(LaunchError, match="setting an attribute failed"):
        driver.check((1, None), "setting an attribute")


def test_looking_at_the_machine_imports_no_cuda_package() -> None:
    code = (
        "import sys; from workbench.gpu.report import gpu_report; gpu_report(); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'cuda.core', 'cuda.bindings.driver')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_the_report_is_about_this_machine() -> None:
    report = gpu_report()
    assert report.driver == driver.probe()
    assert len(report.gpus) == len(report.catalogue_names) == report.driver.device_count
    assert (report.compiler is None) == (report.compiler_problem is not None)
    assert report.cached_kernels == 0
    assert report.to_dict()["cache_folder"] == str(report.cache_folder)


@pytest.mark.gpu
def test_a_gpu_is_described() -> None:
    found = driver.device(0)
    assert found.name.startswith("NVIDIA")
    assert found.sms > 0
    assert found.memory_bytes > 1 << 30
    with pytest.raises(NoGpu, match="numbered from 0"):
        driver.device(driver.probe().device_count)


@pytest.mark.gpu
def test_the_catalogue_agrees_with_the_driver() -> None:
    from workbench import devices

    report = gpu_report()
    if report.catalogue_names[0] is None:
        pytest.skip(f"{report.gpus[0].name} is not in the catalogue")
    ours, here = devices.gpu(report.catalogue_names[0]), report.gpus[0]
    assert (ours.sms, ours.compute_capability) == (here.sms, here.compute_capability)
    assert (ours.shared_per_sm, ours.shared_per_block) == (here.shared_per_sm, here.shared_per_block)
    assert (ours.registers_per_sm, ours.max_threads_per_sm) == (here.registers_per_sm, here.max_threads_per_sm)
    assert ours.l2_bytes == here.l2_bytes
    # ECC and the driver take a part of the nominal size.
    assert 0.9 * ours.memory_bytes < here.memory_bytes <= ours.memory_bytes
