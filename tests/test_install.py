"""What a wheel and an editable install hold, each looked at from an environment of its own."""

from __future__ import annotations

import json
import venv
import zipfile
from pathlib import Path

import pytest

from tests.installs import (
    ROOT,
    borrowing_environment,
    build_wheel,
    clean_environment,
    copy_sources,
    pip_install,
    run,
    site_packages,
)

DATA_FOLDERS = ("kernels", "notebooks", "profiles")
# Programs run by the environment's own Python.
WHERE = """
import json, workbench
from workbench import paths
from workbench.records import Store
assert len(Store().rows(kind="timing")) > 100
print(json.dumps([workbench.__file__, str(paths.notebooks_dir())]))
"""
LOADED = """
import importlib, json, sys, workbench
for part in ("devices", "records", "schedule", "workloads", "widgets", "cli"):
    importlib.import_module(f"workbench.{part}")
for name in workbench._LAZY:
    getattr(workbench, name)
print(json.dumps(sorted(sys.modules)))
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, in a folder with a space in its name, with what editors leave behind added."""
    copy = copy_sources(tmp_path_factory.mktemp("sources") / "a checkout")
    for stray in ("notebooks/.ipynb_checkpoints/old.ipynb", "kernels/__pycache__/old.pyc", "kernels/.hidden"):
        (copy / stray).parent.mkdir(exist_ok=True)
        (copy / stray).write_text("stray")
    return copy


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(sources, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def files_below(folder: Path) -> set[Path]:
    """Files of a source folder that belong to the project, relative to it."""
    inside = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path for path in inside if not any(part.startswith((".", "__pycache__")) for part in path.parts)}


def test_wheel_holds_every_source_and_asset_and_nothing_else(wheel_files: set[str]) -> None:
    expected = {f"workbench/{path.as_posix()}" for path in files_below(ROOT / "workbench")}
    for folder in DATA_FOLDERS:
        expected |= {f"workbench/_data/{folder}/{path.as_posix()}" for path in files_below(ROOT / folder)}
    assert wheel_files == expected


def test_wheel_holds_the_assets_by_name(wheel_files: set[str]) -> None:
    assert "workbench/py.typed" in wheel_files
    assert "workbench/_data/notebooks/00_workbench.ipynb" in wheel_files
    assert "workbench/cli/jupyter/labconfig/page_config.json" in wheel_files
    assert any(name.startswith("workbench/_data/profiles/nvidia-h200/attention_decode/64x4K/") for name in wheel_files)
    assert any(name.startswith("workbench/_data/kernels/") for name in wheel_files)
    assert any(name.startswith("workbench/widgets/") and name.endswith(".js") for name in wheel_files)


def test_wheel_alone_gives_the_light_set(wheel: Path, tmp_path: Path) -> None:
    """Installed as a user would, in an empty environment: no torch comes, and everything of the light set works."""
    environment = tmp_path / "clean"
    venv.create(environment, with_pip=True, symlinks=True)
    python = environment / "bin" / "python"
    light = ROOT / "requirements" / "light.txt"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, "-c", light, cwd=tmp_path)
    assert "torch" not in json.loads(run(python, "-c", LOADED, cwd=tmp_path))
    package, notebooks = json.loads(run(python, "-c", WHERE, cwd=tmp_path))
    assert Path(package).is_relative_to(site_packages(environment))
    assert Path(notebooks) == Path(package).parent / "_data" / "notebooks"
    doctor = json.loads(run(environment / "bin" / "workbench", "doctor", "--json", cwd=tmp_path))
    assert doctor["complete"]
    states = {finding["part"]: finding["state"] for finding in doctor["findings"]}
    assert states["torch"] == states["triton"] == "absent"
    assert states["cuda-core"] == states["kernels"] == states["profiles"] == "here"


def test_editable_install_finds_the_checkout(sources: Path, tmp_path: Path) -> None:
    """No second copy of kernels or notebooks may exist: nothing would read or refresh it."""
    environment = tmp_path / "an environment"
    python = borrowing_environment(environment)
    pip_install(python, "--editable", sources, cwd=tmp_path)
    package, notebooks = map(Path, json.loads(run(python, "-c", WHERE, cwd=tmp_path)))
    assert package == sources / "workbench" / "__init__.py"
    assert notebooks == sources / "notebooks"
    assert not (site_packages(environment) / "workbench").exists()
    assert not (sources / "workbench" / "_data").exists()


def test_borrowing_environment_does_not_see_this_workbench(tmp_path: Path) -> None:
    """The tests above would prove nothing if the environment found the checkout they run from."""
    python = borrowing_environment(tmp_path / "environment")
    code = "import importlib.util, numpy; print(importlib.util.find_spec('workbench'))"
    assert run(python, "-c", code, cwd=tmp_path, env=clean_environment()).strip() == "None"
