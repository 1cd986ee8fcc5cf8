"""Folders of one's own that are empty."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STUDIES", "TABLES", "RECORDS"):
        monkeypatch.setenv(f"WORKBENCH_{name}_DIR", str(tmp_path / name.lower()))
