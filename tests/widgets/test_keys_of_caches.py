"""What a widget keeps is found by the object it is of, never by that object's number."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import workbench

WIDGETS = Path(workbench.__file__).parent / "widgets"


@pytest.mark.parametrize("path", sorted(WIDGETS.rglob("*.py")), ids=lambda path: str(path.relative_to(WIDGETS)))
def test_no_id(path: Path) -> None:
    """Once an object is gone, its ``id`` is given to another one: what was kept of the first would be shown."""
    names = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Name)]
    assert [name.lineno for name in names if name.id == "id"] == []
