"""Run a notebook in a fresh kernel, with cells replaced or added, and read values back."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

import workbench
from workbench.paths import notebooks_dir

SECONDS = 240


def load(name: str) -> nbformat.NotebookNode:
    """A notebook of the project."""
    return nbformat.read(notebooks_dir() / name, as_version=4)


def run(
    notebook: nbformat.NotebookNode, folder: Path, *, replace: Mapping[str, str] | None = None, then: str = ""
) -> Any:
    """Execute and return the value of the expression that ``then`` ends in (its other lines are statements).

    Parameters
    ----------
    notebook
        Is changed: it holds the outputs afterwards.
    folder
        Where the kernel runs.
    replace
        New sources by cell id.
    then
        Runs after the last cell; the value of its last line must be plain data.
    """
    replace = dict(replace or {})
    for cell in notebook.cells:
        if cell.id in replace:
            cell.source = replace.pop(cell.id)
    assert not replace, f"no such cells: {', '.join(replace)}"
    if then:
        *before, last = then.strip().splitlines()
        source = "\n".join([*before, f"import json as _json; print(_json.dumps({last}))"])
        notebook.cells.append(nbformat.v4.new_code_cell(source))
    client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}})
    # The package under test, installed or not.
    path = os.pathsep.join(filter(None, (str(Path(workbench.__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    client.execute(env=os.environ | {"PYTHONPATH": path})
    if not then:
        return None
    # A busy kernel may send one line in several pieces.
    printed = "".join(output.text for output in notebook.cells[-1].outputs if output.get("name") == "stdout")
    return json.loads(printed.splitlines()[-1])


def shown(notebook: nbformat.NotebookNode, cell_id: str) -> str:
    """All text that a cell shows: streams, and the richest text of each result."""
    cell = next(cell for cell in notebook.cells if cell.id == cell_id)
    parts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            parts.append(output.text)
        else:
            parts.append(output.data.get("text/html") or output.data.get("text/plain") or "")
    return "\n".join(parts)


def functions_of(solutions: str) -> dict[str, str]:
    """Source of each function in a file of solutions, as it would be pasted, with the module's imports."""
    text = (notebooks_dir() / "solutions" / solutions).read_text(encoding="utf-8")
    tree = ast.parse(text)
    imports = [
        ast.get_source_segment(text, node) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    return {
        node.name: "\n".join([*imports, ast.get_source_segment(text, node)])  # type: ignore[list-item]
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
