"""Tables of one's own lie in a folder of the test."""

from __future__ import annotations

import pytest

from workbench.tables import forget_tables


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_TABLES_DIR", str(tmp_path / "tables"))
    forget_tables()
    yield
    forget_tables()
