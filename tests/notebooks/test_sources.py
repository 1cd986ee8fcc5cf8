"""Notebooks as files: reviewable, without outputs, with links that lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from workbench.paths import notebooks_dir

NOTEBOOKS = sorted(notebooks_dir().glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert {"00_workbench.ipynb", "01_load_balancing.ipynb"} <= {path.name for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_file(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    for cell in notebook.cells:
        # A name that says what the cell is, so that a review of a change reads well and the cell can be found.
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", cell.id), cell.id
        assert not re.fullmatch(r"[0-9a-f]{8}(-.*)?", cell.id), f"{cell.id} looks like an id that Jupyter made"
        assert cell.source.strip()
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_links(path: Path) -> None:
    text = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert "://" not in target, f"{target}: a notebook needs no network"
        assert (path.parent / target).is_file(), target
