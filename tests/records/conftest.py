"""A cache and a data folder of its own for each test."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WORKBENCH_RECORDS_DIR", str(tmp_path / "own"))
