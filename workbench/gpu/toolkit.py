"""The CUDA compiler that is installed: its version, its headers, and how to get what is not here."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from workbench.errors import MissingDependency

_PARTS = ("nvidia-cuda-nvrtc", "nvidia-cuda-cccl", "nvidia-cuda-runtime", "nvidia-cuda-crt")
_INSTALL = "pip install 'cuda-core==1.2.*' 'cuda-bindings==13.3.*' " + " ".join(f"'{part}==13.0.*'" for part in _PARTS)


@cache
def compiler_version() -> str:
    """Version of NVRTC.

    Raises
    ------
    MissingDependency
        It is not installed.
    """
    version = _version("nvidia-cuda-nvrtc")
    if version is None:  # not from a wheel: conda or the CUDA toolkit; ask the library itself
        try:
            from cuda.bindings import nvrtc

            _status, major, minor = nvrtc.nvrtcVersion()
        except (ImportError, RuntimeError) as error:
            raise missing() from error
        version = f"{major}.{minor}"
    return version


def versions() -> dict[str, str | None]:
    """Version of each part that comes as a wheel; None for one that does not."""
    return {part: _version(part) for part in _PARTS}


@cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def header_folders() -> tuple[Path, ...]:
    """Header folders of the CUDA wheels; empty where the toolkit came in another way."""
    package = find_spec("nvidia")
    roots = (Path(folder) / "cu13" / "include" for folder in (package and package.submodule_search_locations) or ())
    return tuple(folder for root in roots for folder in (root / "cccl", root) if folder.is_dir())


def remedy(log: str) -> str:
    """What mends an include that was not found, where the toolkit's headers are not here; else nothing."""
    if "cannot open source file" not in log or header_folders():
        return ""
    headers = " ".join(f"'{part}==13.0.*'" for part in _PARTS[1:])
    return f"\nCUDA's own headers are not here. If it is one of them: pip install {headers}"


def missing() -> MissingDependency:
    """The error of a machine without the compiler."""
    return MissingDependency("cuda-core", needed_for="compiling kernels", install=_INSTALL)
