"""``workbench doctor``: what it says where parts are present, absent or broken."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

from workbench.cli import app, doctor
from workbench.errors import LaunchError
from workbench.gpu import driver

RUNNER = CliRunner()
H200 = driver.Device(0, "NVIDIA H200", (9, 0), 132, 150_754_820_096, 62_914_560, 233_472, 232_448, 65_536, 2_048)


def finding(part: str) -> doctor.Finding:
    (found,) = [found for found in doctor.examine() if found.part == part]
    return found


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "probe", lambda: driver.DriverStatus(None, 0, "There is no NVIDIA driver here."))


@pytest.mark.usefixtures("no_gpu")
def test_absent_gpu_is_explained_and_no_fault() -> None:
    gpu = finding("GPU")
    assert (gpu.state, gpu.required) == ("absent", False)
    assert gpu.detail == "There is no NVIDIA driver here."
    assert "running kernels" in str(gpu.disables)
    assert gpu.get


def test_gpu_and_driver_are_described(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    version = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\nGCC version:  12.2.0\n"
    )
    (tmp_path / "version").write_text(version)
    monkeypatch.setattr(doctor, "DRIVER_FILE", tmp_path / "version")
    monkeypatch.setattr(driver, "probe", lambda: driver.DriverStatus((13, 0), 1, None))
    monkeypatch.setattr(driver, "device", lambda index: H200)
    assert finding("driver").detail == "580.95.05, serves CUDA up to 13.0"
    assert finding("GPU 0").detail == "NVIDIA H200, 132 SMs, 140 GiB, compute capability 9.0"


def test_absent_package_names_what_it_disables_and_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "torch":
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(metadata, "requires", lambda name: ["numpy>=2.2", "torch==2.13.0; extra == 'full'"])
    torch = finding("torch")
    assert (torch.state, torch.required) == ("absent", False)
    assert torch.get == "pip install 'torch==2.13.0'"
    assert "operators" in str(torch.disables)


def test_package_whose_files_are_gone_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert finding("plotly").state == "broken"


@pytest.mark.parametrize(
    ("script", "state", "says"),
    [
        ("echo 'Version 2025.3.1.0 (build 36398880)'", "here", "2025.3.1.0 at "),
        ("echo 'no licence' >&2; exit 3", "broken", "no licence"),
        ("echo 'something else'", "broken", "something else"),
    ],
)
def test_ncu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, state: str, says: str) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text(f"#!/bin/sh\n{script}\n")
    ncu.chmod(0o755)
    monkeypatch.setenv("WORKBENCH_NCU", str(ncu))
    found = finding("ncu")
    assert found.state == state
    assert says in found.detail


def test_torch_build_is_read_without_importing_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Spec:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr(doctor, "find_spec", lambda name: Spec)
    (tmp_path / "version.py").write_text(
        "__version__ = '2.13.0'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n"
    )
    assert doctor._torch_build() == "built for CUDA 13.0"
    (tmp_path / "version.py").write_text("cuda: Optional[str] = None\n")
    assert doctor._torch_build() == "built for the CPU"


@pytest.mark.usefixtures("no_gpu")
def test_exit_code_is_0_where_the_light_set_is_complete() -> None:
    done = RUNNER.invoke(app, ["doctor", "--json"])
    report = json.loads(done.stdout)
    assert report["complete"], [f for f in report["findings"] if f["required"] and f["state"] != "here"]
    assert done.exit_code == 0


@pytest.mark.usefixtures("no_gpu")
def test_exit_code_is_1_where_the_light_set_lacks_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor.FOLDERS, "nothing-of-this-name", "a test")
    done = RUNNER.invoke(app, ["doctor"])
    assert done.exit_code == 1
    assert re.search(r"^Incomplete: .*nothing-of-this-name", done.stdout, re.MULTILINE)
    report = json.loads(RUNNER.invoke(app, ["doctor", "--json"]).stdout)
    assert not report["complete"]


def test_every_absent_part_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    absent_parts = [found for found in doctor.examine() if found.state != "here"]
    assert len(absent_parts) >= len(doctor.PACKAGES)
    assert all(found.disables and found.get for found in absent_parts)
    assert all(not (found.disables or found.get) for found in doctor.examine() if found.state == "here")


def test_brackets_of_an_extra_reach_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = doctor.Finding("Group", "part", "absent", "detail", False, "all", "pip install 'thing[extra]'")
    monkeypatch.setattr(doctor, "examine", lambda: [shown])
    assert "thing[extra]" in RUNNER.invoke(app, ["doctor"]).stdout


def test_a_gpu_that_does_not_answer_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(index: int) -> driver.Device:
        if index:
            return replace(H200, index=index)
        raise LaunchError("cuDeviceGet failed: CUDA_ERROR_999.")

    monkeypatch.setattr(driver, "probe", lambda: driver.DriverStatus((13, 0), 2, None))
    monkeypatch.setattr(driver, "device", fails)
    assert (finding("GPU 0").state, finding("GPU 1").state) == ("broken", "here")
    assert "CUDA_ERROR_999" in finding("GPU 0").detail


def test_an_ncu_that_answers_in_bytes_of_no_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "ncu"
    program.write_text("#!/bin/sh\nprintf '\\377 Version 2025.3.1'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert finding("ncu").detail.startswith("2025.3.1 at")


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_cache_that_cannot_be_written_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / place))
    found = finding("cache")
    assert (found.state, found.required) == ("broken", False)
    assert "cannot be written" in found.detail
    assert "WORKBENCH_CACHE_DIR" in str(found.get)
