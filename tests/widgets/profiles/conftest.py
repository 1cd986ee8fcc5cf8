"""Stores of invented captures; no test reads or writes the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.widgets.profiles.samples import fill
from workbench.records import Store


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user's own records and notes are."""
    folder = tmp_path / "own"
    monkeypatch.setenv("WORKBENCH_RECORDS_DIR", str(folder))
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "cache"))
    return folder


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two GPUs, two cases, three policies, three configurations, one reduced record. Read only."""
    store = Store(tmp_path_factory.mktemp("captures"))
    fill(store)
    return store


@pytest.fixture
def empty(tmp_path: Path) -> Store:
    """A store for a test to fill."""
    return Store(tmp_path / "store")
