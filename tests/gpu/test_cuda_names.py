"""Every name that our modules take from CUDA's packages exists, also where it is looked up only on a GPU."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import workbench

pytest.importorskip("cuda.core", reason="the compiler's packages exist for Linux only")


def imported() -> set[tuple[str, str]]:
    """Module and name of each ``from cuda... import ...`` in the package, inside functions too."""
    found = set()
    for path in Path(workbench.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "cuda":
                found |= {(str(node.module), alias.name) for alias in node.names}
    return found


def test_there_are_some() -> None:
    assert ("cuda.core", "Program") in imported()


@pytest.mark.parametrize(("module", "name"), sorted(imported()))
def test_a_name_exists(module: str, name: str) -> None:
    found = importlib.import_module(module)
    assert hasattr(found, name) or importlib.import_module(f"{module}.{name}")
