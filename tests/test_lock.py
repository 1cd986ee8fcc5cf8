"""pyproject.toml, the lock files and environment.yml say the same."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
SETS = ("light", "full", "test")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINUX = {"sys_platform": "linux", "platform_system": "Linux"}
MACOS = {"sys_platform": "darwin", "platform_system": "Darwin"}


def lock_lines(name: str) -> list[str]:
    """Lines of one lock file and of those it includes, comments left out."""
    lines: list[str] = []
    for line in (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("-r "):
            lines += lock_lines(Path(line[3:]).stem)
        elif line and not line.startswith("#"):
            lines.append(line)
    return lines


def locked(name: str) -> dict[str, Requirement]:
    """Requirements of a lock file and of those it includes, by canonical name."""
    return {canonicalize_name(r.name): r for r in map(Requirement, lock_lines(name))}


def asked(name: str) -> list[Requirement]:
    """What pyproject.toml asks for in a set: its dependencies, the build's and those of the extras up to it."""
    project = PYPROJECT["project"]
    lines = [*project["dependencies"], *PYPROJECT["build-system"]["requires"]]
    for extra in SETS[1 : SETS.index(name) + 1]:
        lines += project["optional-dependencies"][extra]
    return [Requirement(line) for line in lines]


def applies(requirement: Requirement, platform: dict[str, str]) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({**platform, "extra": ""})


@pytest.mark.parametrize("name", SETS)
def test_lock_lines_are_plain(name: str) -> None:
    """An exact public version and at most a marker: no hash, no address, no `+cpu`, nothing twice."""
    lines = lock_lines(name)
    assert [x for x in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9._]+(; [^#@]+)?", x)] == []
    assert len(locked(name)) == len(lines)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("platform", [LINUX, MACOS], ids=["linux", "macos"])
def test_lock_holds_what_pyproject_asks_for(name: str, platform: dict[str, str]) -> None:
    lock = locked(name)
    for requirement in asked(name):
        if not applies(requirement, platform):
            continue
        entry = lock.get(canonicalize_name(requirement.name))
        assert entry is not None, f"{requirement.name} is not in the {name} lock; run `make lock`"
        assert applies(entry, platform)
        (pin,) = entry.specifier
        assert requirement.specifier.contains(pin.version, prereleases=True), f"{entry} is not {requirement}"


def test_light_set_has_neither_torch_nor_triton() -> None:
    assert not {"torch", "triton", "nsight-python"} & locked("light").keys()


def test_cuda_parts_are_those_of_torch() -> None:
    """torch 2.13 on Linux is built for CUDA 13.0; its pins and ours must name one toolkit."""
    for name, entry in locked("full").items():
        if name.startswith("nvidia-cuda-"):
            (pin,) = entry.specifier
            assert pin.version.startswith("13.0."), entry
            assert not applies(entry, MACOS)


def test_lock_is_closed_on_this_machine() -> None:
    """Every dependency of what the lock installs is locked too, except the NVIDIA libraries that torch pins itself."""
    lock = locked("test")
    todo, seen = {canonicalize_name(r.name) for r in asked("test") if applies(r, LINUX)}, set[str]()
    while todo:
        name = todo.pop()
        seen.add(name)
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # not for this platform
        for requirement in map(Requirement, lines):
            target = canonicalize_name(requirement.name)
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            if name in {"torch", "cuda-toolkit"} and target.startswith(("nvidia-", "cuda-toolkit")):
                continue
            assert target in lock, f"{name} needs {target}, which the lock lacks; run `make lock`"
            (pin,) = lock[target].specifier
            assert requirement.specifier.contains(pin.version, prereleases=True), f"{name} needs {requirement}"
            todo |= {target} - seen
    assert len(seen) > 100


def test_conda_environment_is_in_step() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    project = PYPROJECT["project"]
    assert environment["name"] == project["name"]
    conda = [x for x in environment["dependencies"] if isinstance(x, str)]
    (pip,) = [x["pip"] for x in environment["dependencies"] if isinstance(x, dict)]
    assert [x for x in conda if x.startswith("python")] == [f"python{project['requires-python']}"]
    assert "pip" in conda
    assert pip == ["-r requirements/full.txt", "--editable ."]


def test_python_versions_agree() -> None:
    project = PYPROJECT["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert all(SpecifierSet(project["requires-python"]).contains(version) for version in named)
    oldest = min(named, key=lambda version: int(version.split(".")[1]))
    assert project["requires-python"] == f">={oldest}"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == oldest
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"


def test_nsight_versions_exclude_each_other() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    pins = [str(Requirement(extras[name][0]).specifier) for name in ("nsight0", "nsight1")]
    assert pins == ["==0.9.6", "==1.1.0"]
