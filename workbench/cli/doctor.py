"""``workbench doctor``: what is here, what each absent part disables, and how to get it."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

import workbench
from workbench import paths, settings
from workbench.errors import LaunchError, MissingData
from workbench.gpu import driver

OLDEST_PYTHON = (3, 11)
DRIVER_FILE = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Finding:
    """One part of the workbench's surroundings."""

    group: str
    """Heading under which it is shown."""
    part: str
    """Its name."""
    state: Literal["here", "absent", "broken"]
    """"broken" means present and not usable."""
    detail: str
    """Version, place or reason."""
    required: bool = False
    """Whether the light set, which needs no GPU, is incomplete without it."""
    disables: str | None = None
    """What cannot be done while it is not here; None where it is."""
    get: str | None = None
    """How to get it; None where it is here."""


@dataclass(frozen=True)
class _Package:
    """A distribution to look for: its name on the index, its import name, and what needs it."""

    group: str
    name: str
    imported: str
    disables: str
    required: bool = True
    linux_only: bool = False


_COMPILER = "compiling kernels and showing their registers, shared memory and occupancy"

PACKAGES = (
    _Package("Notebook", "jupyterlab", "jupyterlab", "workbench lab"),
    _Package("Notebook", "anywidget", "anywidget", "every widget"),
    _Package("Notebook", "plotly", "plotly", "curves, roofline and Pareto views"),
    _Package("Notebook", "pandas", "pandas", "traces and tables"),
    _Package("Compiler", "cuda-core", "cuda.core", _COMPILER, linux_only=True),
    _Package("Compiler", "cuda-bindings", "cuda.bindings", _COMPILER, linux_only=True),
    _Package("Compiler", "nvidia-cuda-nvrtc", "nvidia", _COMPILER, linux_only=True),
    _Package("Compiler", "nvidia-cuda-runtime", "nvidia", "kernels that include CUDA's headers", linux_only=True),
    _Package("Compiler", "nvidia-cuda-cccl", "nvidia", "kernels that include <cuda/std/...>", linux_only=True),
    _Package("Operators", "torch", "torch", "calling operators and their float64 references", required=False),
    _Package("Operators", "triton", "triton", "the portable variant of each operator", required=False, linux_only=True),
    _Package(
        "Nsight", "nsight-python", "nsight", "Nsight Compute metrics from Python", required=False, linux_only=True
    ),
)

# Folders that belong to the workbench, and what needs them.
FOLDERS = {
    "kernels": "compiling and running our kernels",
    "notebooks": "workbench lab",
    "profiles": "recorded measurements, on a machine without that GPU",
}


def examine() -> list[Finding]:
    """Everything `doctor` reports, in the order it is shown. Creates no CUDA context and imports no torch."""
    return [*_machine(), *_gpus(), *map(_package, PACKAGES), _ncu(), *_folders()]


def _machine() -> Iterator[Finding]:
    version = platform.python_version()
    if sys.version_info[:2] >= OLDEST_PYTHON:
        yield Finding("Machine", "Python", "here", f"{version} on {platform.system()} {platform.machine()}", True)
    else:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        yield Finding("Machine", "Python", "broken", version, True, "everything", f"Python {wanted} or later")
    yield Finding("Machine", "workbench", "here", f"{workbench.__version__} at {Path(workbench.__file__).parent}", True)


def _gpus() -> Iterator[Finding]:
    status = driver.probe()
    if status.problem:
        disables = "running kernels and measuring them"
        yield Finding("Machine", "GPU", "absent", status.problem, False, disables, "a machine with an NVIDIA GPU")
        return
    cuda = ".".join(map(str, status.version or ("unknown",)))
    yield Finding("Machine", "driver", "here", f"{_driver_release() or 'release unknown'}, serves CUDA up to {cuda}")
    for index in range(status.device_count):
        try:
            gpu = driver.device(index)
        except LaunchError as error:
            disables, get = "running kernels on this GPU", "see what nvidia-smi says about it"
            yield Finding("Machine", f"GPU {index}", "broken", str(error), False, disables, get)
            continue
        capability = ".".join(map(str, gpu.compute_capability))
        detail = f"{gpu.name}, {gpu.sms} SMs, {gpu.memory_bytes / 2**30:.0f} GiB, compute capability {capability}"
        yield Finding("Machine", f"GPU {gpu.index}", "here", detail)


def _driver_release() -> str | None:
    """Release of the loaded kernel module, such as "580.95.05"; None where the system does not tell."""
    if not DRIVER_FILE.is_file():
        return None
    found = re.search(r"\b\d+\.\d+(\.\d+)?\b", DRIVER_FILE.read_text())
    return found[0] if found else None


def _package(package: _Package) -> Finding:
    supported = sys.platform == "linux" or not package.linux_only
    required = package.required and supported
    get = (
        f"pip install '{_requirement(package.name)}'"
        if supported
        else "a Linux machine; this system has no wheel of it"
    )
    try:
        version = metadata.version(package.name)
    except metadata.PackageNotFoundError:
        return Finding(package.group, package.name, "absent", "not installed", required, package.disables, get)
    if find_spec(package.imported.partition(".")[0]) is None:
        detail = f"{version} is listed as installed, but {package.imported} cannot be found"
        return Finding(package.group, package.name, "broken", detail, required, package.disables, get)
    if package.name == "torch":
        version = f"{version} ({_torch_build()})"
    return Finding(package.group, package.name, "here", version, required)


def _requirement(name: str) -> str:
    """What the workbench's metadata asks for under a name; the bare name where the workbench is not installed.

    Versions that exclude each other are separate extras and are all named.
    """
    try:
        lines = metadata.requires("hpc-ops-workbench") or []
    except metadata.PackageNotFoundError:
        lines = []
    asked = (line.partition(";")[0].strip() for line in lines)
    return "' or '".join(line for line in asked if re.fullmatch(re.escape(name) + r"\W.*", line)) or name


def _torch_build() -> str:
    """Which CUDA torch was built for, read from its version file: importing torch takes seconds."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return "build unknown"
    text = Path(spec.origin).with_name("version.py").read_text()
    found = re.search(r"^cuda\b.*= ['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return f"built for CUDA {found[1]}" if found else "built for the CPU"


def _ncu() -> Finding:
    disables, get = (
        "Nsight Compute profiles",
        "NVIDIA's Nsight Compute; set WORKBENCH_NCU to its ncu, or put that on PATH",
    )
    path = settings.ncu()
    if path is None:
        where = "neither WORKBENCH_NCU, nor on PATH, nor in CUDA's folders"
        return Finding("Nsight", "ncu", "absent", where, False, disables, get)
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, errors="replace", timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("Nsight", "ncu", "broken", f"{path}: {error}", False, disables, get)
    version = re.search(r"Version ([\d.]+)", done.stdout)
    if done.returncode != 0 or version is None:
        said = (done.stderr or done.stdout).strip() or "nothing"
        return Finding("Nsight", "ncu", "broken", f"{path} --version said: {said}", False, disables, get)
    return Finding("Nsight", "ncu", "here", f"{version[1]} at {path}")


def _folders() -> Iterator[Finding]:
    for name, disables in FOLDERS.items():
        try:
            yield Finding("Files", name, "here", str(paths.data_dir(name)), True)
        except MissingData as error:
            yield Finding(
                "Files", name, "absent", str(error), True, disables, "git restore it, or install the wheel again"
            )
    yield _cache()


def _cache() -> Finding:
    cache = settings.cache_dir()
    there = next(folder for folder in (cache, *cache.absolute().parents) if os.path.exists(folder))  # noqa: PTH110 - unlike Path.exists it never raises
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        disables, get = "keeping compiled kernels", "set WORKBENCH_CACHE_DIR to a folder that can be written"
        return Finding("Files", "cache", "broken", f"{cache}: {there} cannot be written", False, disables, get)
    return Finding("Files", "cache", "here", f"{cache}{'' if there == cache else ', made at first use'}")


def _show(findings: list[Finding]) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("", "part", "state", "detail"):
        table.add_column(heading, overflow="fold")
    colours = {"here": "green", "absent": "yellow", "broken": "red"}
    group = None
    for finding in findings:
        heading = "" if finding.group == group else finding.group
        group = finding.group
        state = f"[{colours[finding.state]}]{finding.state}[/]"
        table.add_row(f"[bold]{heading}[/]", finding.part, state, _plain(finding.detail))
        if finding.disables:
            table.add_row("", "", "", f"[dim]without it:[/] {_plain(finding.disables)}")
            table.add_row("", "", "", f"[dim]to get it:[/] {_plain(finding.get or '')}")
    Console().print(table)


def _plain(text: str) -> str:
    """Text with the brackets of `[full]` and the like kept from rich's markup."""
    return text.replace("[", r"\[")


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """Say what is here, what each absent part disables, and how to get it.

    Exits with 0 where everything that the light set needs is here, else with 1. A GPU is not needed for that.
    """
    findings = examine()
    lacking = [finding for finding in findings if finding.required and finding.state != "here"]
    if as_json:
        typer.echo(json.dumps({"complete": not lacking, "findings": [asdict(f) for f in findings]}, indent=2))
    else:
        _show(findings)
        if lacking:
            typer.echo(f"\nIncomplete: {', '.join(finding.part for finding in lacking)}. See the lines above.")
        else:
            typer.echo("\nEverything that the light set needs is here.")
    if lacking:
        raise typer.Exit(1)
