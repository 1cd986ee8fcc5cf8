"""Where the workbench's own files are looked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench import paths, settings
from workbench.errors import MissingData


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that stands for the installed package."""
    folder = tmp_path / "workbench"
    (folder / "_data" / "kernels").mkdir(parents=True)
    monkeypatch.setattr(paths, "_PACKAGE", folder)
    paths.checkout_root.cache_clear()
    yield folder
    paths.checkout_root.cache_clear()


def test_wheel_reads_its_own_copy(package: Path) -> None:
    assert paths.checkout_root() is None
    assert paths.kernels_dir() == package / "_data" / "kernels"


def test_checkout_reads_its_root_even_beside_a_stale_copy(package: Path) -> None:
    (package.parent / "pyproject.toml").touch()
    (package.parent / "kernels").mkdir()
    assert paths.checkout_root() == package.parent
    assert paths.kernels_dir() == package.parent / "kernels"


def test_a_project_that_vendors_the_package_is_no_checkout(package: Path) -> None:
    (package.parent / "pyproject.toml").touch()
    assert paths.checkout_root() is None


def test_missing_folder_is_named(package: Path) -> None:
    with pytest.raises(MissingData, match=r"'notebooks' is missing.*install the wheel again"):
        paths.notebooks_dir()
    assert package.is_dir()


def test_settings_follow_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable, setting in (
        ("WORKBENCH_CACHE_DIR", settings.cache_dir),
        ("WORKBENCH_RECORDS_DIR", settings.records_dir),
        ("WORKBENCH_REFERENCE_DATA", settings.reference_data),
        ("WORKBENCH_CHROMIUM", settings.chromium),
    ):
        monkeypatch.setenv(variable, str(tmp_path))
        assert setting() == tmp_path
        monkeypatch.setenv(variable, "~/there")
        assert setting() == Path.home() / "there"
        monkeypatch.setenv(variable, "")
        assert setting() != Path()
