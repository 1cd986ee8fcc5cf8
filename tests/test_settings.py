"""Environment variables that cannot be understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench import settings
from workbench.errors import InvalidArgument


def test_a_home_folder_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", "~/cache")
    assert settings.cache_dir() == tmp_path / "cache"


def test_a_home_folder_of_nobody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", "~no-such-user-here/cache")
    with pytest.raises(InvalidArgument, match=r"WORKBENCH_CACHE_DIR is '~no-such-user-here/cache': .*absolute path"):
        settings.cache_dir()
