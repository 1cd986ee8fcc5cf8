"""Ways to install the workbench, for tests of what an installation holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "workbench", "kernels", "notebooks", "profiles")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*", "_data", "*.egg-info")


def clean_environment() -> dict[str, str]:
    """This process's environment without what would let Python or Jupyter find another installation."""
    left_out = ("PYTHON", "JUPYTER", "VIRTUAL_ENV", "WORKBENCH_")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


def copy_sources(target: Path) -> Path:
    """Copy what a build reads to a new folder, as a fresh clone would have it."""
    target.mkdir(parents=True)
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=_LEFT_OUT)
        elif source.is_file():
            shutil.copy(source, target / name)
    return target


def borrowing_environment(folder: Path) -> Path:
    """Make an environment that sees the packages of this one, but not its workbench; return its interpreter.

    A path file adds this environment's packages. Python does not follow the path files it finds there, and it is one
    of those through which an editable install is found.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    (site_packages(folder) / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


def site_packages(environment: Path) -> Path:
    """Folder of an environment's packages."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return environment / "lib" / version / "site-packages"


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Run a command and return what it printed; a failure shows all of it."""
    environment = clean_environment() if env is None else env
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def pip_install(python: Path, *arguments: str | Path, cwd: Path) -> None:
    """Install into an environment that has no pip, with this one's pip, from local files alone."""
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
    run(*pip, "--no-build-isolation", *arguments, cwd=cwd)


def build_wheel(sources: Path, target: Path) -> Path:
    """Build the wheel of a copy of the sources with the locked hatchling."""
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", target, cwd=sources)
    (wheel,) = target.glob("*.whl")
    return wheel
