"""A machine with a stand-in for Nsight Compute, which can be told to fail in every known way."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.capture import installed
from workbench.capture import SETS
from workbench.capture.metrics import NOT_COUNTED

STAND_IN = Path(__file__).with_name("stand_in")


class Machine:
    """How its ncu behaves, and what it was asked to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.behave("works")
        self.version("2025.3.1.0")
        names = {name for names in SETS.values() for name in names if not name.startswith(NOT_COUNTED)}
        self.knows(*names)

    def behave(self, how: str) -> None:
        """Of each profiling run from now on."""
        (self.folder / "behaviour").write_text(how)

    def version(self, text: str) -> None:
        """What ``ncu --version`` says."""
        (self.folder / "version").write_text(text)
        (self.folder / "ncu").touch()

    def knows(self, *metrics: str) -> None:
        """What ``ncu --query-metrics`` lists."""
        (self.folder / "metrics").write_text("\n".join(metrics))

    def use_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Take the installed nsight-python, not the stand-in: the folder of kernels that is looked in has none."""
        modules = self.folder / "modules"
        modules.mkdir()
        for name in ("kernels.py", "toy_operator.py"):
            shutil.copyfile(STAND_IN / name, modules / name)  # a link leads back to the stand-in's folder
        if str(STAND_IN) in sys.path:
            monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(STAND_IN)])
        look_in(modules, monkeypatch)

    @property
    def profiled(self) -> int:
        """Profiling runs so far."""
        runs = self.folder / "runs"
        return len(runs.read_text().splitlines()) if runs.exists() else 0


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """ncu is a stand-in, nsight-python the real 0.9.6 where it is installed; all is written below tmp_path."""
    if find_spec("ncu_report") is None:
        pytest.skip("ncu-report is not installed: pip install 'hpc-ops-workbench[ncu-report]'")
    folder = tmp_path / "machine"
    folder.mkdir()
    ncu = folder / "ncu"
    ncu.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN / "ncu.py"}" "$@"\n')
    ncu.chmod(0o755)
    made = Machine(folder)
    if installed.NSIGHT.startswith("0."):
        made.use_installed(monkeypatch)
    else:
        look_in(STAND_IN, monkeypatch)
    for name, value in {
        "STAND_IN_FOLDER": folder,
        "WORKBENCH_NCU": ncu,
        "WORKBENCH_CACHE_DIR": tmp_path / "cache",
        "WORKBENCH_RECORDS_DIR": tmp_path / "records",
        "TMPDIR": tmp_path / "temporary",
    }.items():
        monkeypatch.setenv(name, str(value))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    yield made
    for name in ("kernels", "toy_operator"):  # where they were found would be looked in for nsight-python, too
        sys.modules.pop(name, None)


def look_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process and those it starts import from a folder first."""
    paths = (str(folder), str(Path(__file__).resolve().parents[2]), installed.PYTHONPATH)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.syspath_prepend(str(folder))


@pytest.fixture
def leftovers(tmp_path: Path) -> Callable[[], list[str]]:
    """Job folders that are still there."""
    return lambda: sorted(path.name for path in (tmp_path / "temporary").iterdir())
