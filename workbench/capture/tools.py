"""Which Nsight Compute and which nsight-python are here, and whether they fit each other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from workbench import settings
from workbench.capture.asking import ask
from workbench.errors import MissingDependency, ProfilerUnavailable

ATTACH_SINCE = (2026, 2, 1)
"""Oldest Nsight Compute that nsight-python 1.x attaches to a running process."""

_ASK_SECONDS = 60
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._/+-]+")
_EXTRAS = {0: "nsight0", 1: "nsight1"}


@dataclass(frozen=True)
class Tools:
    """What a capture runs with.

    Attributes
    ----------
    ncu : Path
        Command of Nsight Compute.
    ncu_version : str
        Such as "2025.3.1.0".
    nsight_version : str
        Of nsight-python: 0.9.6 starts the script again under ncu, 1.x lets ncu attach.
    python : str
        Interpreter of the capture's process.
    """

    ncu: Path
    ncu_version: str
    nsight_version: str
    python: str

    @property
    def words(self) -> str:
        """Both versions, as a record keeps them."""
        return f"ncu {self.ncu_version}, nsight-python {self.nsight_version}"


def find_tools(python: str | os.PathLike[str] | None = None) -> Tools:
    """What a capture would run with here.

    Parameters
    ----------
    python
        Interpreter that has nsight-python and the workbench's dependencies; default: this one.

    Raises
    ------
    ProfilerUnavailable
        There is no ncu, or it does not fit the installed nsight-python.
    MissingDependency
        nsight-python is not installed; the message names the version that fits.
    """
    interpreter = str(python or sys.executable)
    ncu = settings.ncu()
    if ncu is None:
        raise ProfilerUnavailable(
            "Nsight Compute's command ncu is neither on PATH nor in CUDA's folders. It comes with the CUDA toolkit "
            "and with "
            "the conda package nvidia::nsight-compute; then add its folder to PATH or set WORKBENCH_NCU. Without it, "
            "capture with counters=False (--no-counters)."
        )
    version = ncu_version(ncu)
    installed = nsight_version(interpreter)
    generation = fitting_generation(version)
    if installed is None:
        raise MissingDependency(
            "nsight",
            needed_for=f"capturing with ncu {version} ({interpreter})",
            install=f"pip install 'hpc-ops-workbench[{_EXTRAS[generation]}]'",
        )
    if generation_of(installed) > generation:
        raise ProfilerUnavailable(
            f"nsight-python {installed} needs ncu {'.'.join(map(str, ATTACH_SINCE))} or newer, and {ncu} is {version}. "
            "Install nsight-python 0.9.6 (pip install 'hpc-ops-workbench[nsight0]'), or a newer Nsight Compute; or "
            "name an "
            "interpreter that has the other version, python=."
        )
    if generation_of(installed) == 0 and not _PLAIN_PATH.fullmatch(interpreter):
        raise ProfilerUnavailable(
            f"nsight-python {installed} writes the interpreter into a command line without quotes, and "
            f"{interpreter!r} has "
            "characters that a shell reads. Use an environment in a folder without spaces."
        )
    return Tools(ncu, version, installed, interpreter)


def fitting_generation(ncu: str) -> int:
    """Newest generation of nsight-python that works with a version of ncu: 0 or 1."""
    return int(_numbers(ncu)[:3] >= ATTACH_SINCE)


def generation_of(nsight: str) -> int:
    """Generation of a version of nsight-python: 0 starts the script again under ncu, 1 attaches."""
    return min(_numbers(nsight)[0], 1)


@lru_cache(maxsize=8)
def _version_said(ncu: str, changed: int) -> str:
    try:
        done = ask([ncu, "--version"], _ASK_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProfilerUnavailable(f"{ncu} does not run: {error}. See `workbench doctor`.") from None
    version = re.search(r"Version (\d+\.\d+[\d.]*)", done.stdout)
    if done.returncode != 0 or version is None:
        said = (done.stderr or done.stdout).strip() or "nothing"
        raise ProfilerUnavailable(f"{ncu} --version said: {said}. See `workbench doctor`.")
    return version[1]


def ncu_version(ncu: Path) -> str:
    """Version of a command ncu, asked once.

    Raises
    ------
    ProfilerUnavailable
        It does not say.
    """
    try:
        changed = ncu.stat().st_mtime_ns
    except OSError as error:
        raise ProfilerUnavailable(
            f"there is no {ncu}: {error.strerror}. Set WORKBENCH_NCU to the command ncu."
        ) from None
    return _version_said(str(ncu), changed)


def nsight_version(python: str) -> str | None:
    """Version of nsight-python in an interpreter, or None where it has none.

    Raises
    ------
    ProfilerUnavailable
        The interpreter does not run.
    """
    program = (
        "from importlib.metadata import PackageNotFoundError as Absent, version\n"
        "try: print(version('nsight-python'))\nexcept Absent: pass"
    )
    try:
        done = ask([python, "-c", program], _ASK_SECONDS)
        done.check_returncode()
    except (OSError, subprocess.SubprocessError) as error:
        raise ProfilerUnavailable(f"python={python!r} does not run: {error}. Give a Python interpreter.") from None
    return done.stdout.strip() or None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
