"""The arrows of the architecture point down: a part imports only parts below it."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PACKAGE = Path(__file__).resolve().parents[1] / "workbench"

LAYERS = (
    ("errors", "settings", "paths"),
    ("devices", "device_files", "records", "tables"),
    ("schedule", "workloads"),
    ("gpu",),
    ("ops",),
    ("measure",),
    ("tune", "capture"),
    ("widgets", "report", "cli"),
)
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}
# May be imported on a machine that has neither, and must stay quick.
NO_TORCH = {
    "errors",
    "settings",
    "paths",
    "devices",
    "device_files",
    "records",
    "tables",
    "schedule",
    "workloads",
    "widgets",
    "report",
}
GPU_PACKAGES = {"torch", "triton", "cuda"}


def imported_modules(source: str, package: str) -> set[str]:
    """Absolute names of all modules that a source imports, inside functions too.

    ``from workbench import paths`` counts as "workbench.paths"; relative imports are resolved against ``package``.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            names.update(f"{base}.{alias.name}" if base == "workbench" else base for alias in node.names)
    return names


def part_of(module: str) -> str | None:
    """The part of the workbench that a module belongs to: "schedule" for "workbench.schedule.plan"."""
    root, _, rest = module.partition(".")
    return rest.partition(".")[0] or None if root == "workbench" else None


def all_imports() -> list[tuple[str, str, str]]:
    """(part, file, imported module) for every import statement of the package, its entry points left out."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE)
        if (inside.name in {"__init__.py", "__main__.py"} and len(inside.parts) == 1) or inside.parts[0] == "_data":
            continue
        package = ".".join(["workbench", *inside.parts[:-1]])
        modules = imported_modules(path.read_text(encoding="utf-8"), package)
        found += [(Path(inside.parts[0]).stem, inside.as_posix(), module) for module in sorted(modules)]
    return found


def test_every_part_has_a_layer() -> None:
    parts = {part for part, _, _ in all_imports()}
    assert parts <= RANK.keys(), f"give these parts a layer: {sorted(parts - RANK.keys())}"


def test_no_import_points_up() -> None:
    upward = [
        f"{file} imports {module}"
        for part, file, module in all_imports()
        if (target := part_of(module)) in RANK and RANK[target] > RANK[part]
    ]
    assert not upward


def test_neighbours_do_not_import_each_other_both_ways() -> None:
    edges = {
        (part, target)
        for part, _, module in all_imports()
        if (target := part_of(module)) in RANK and target != part and RANK[target] == RANK[part]
    }
    assert not [edge for edge in edges if edge[::-1] in edges]


def test_parts_for_machines_without_a_gpu_import_no_gpu_package() -> None:
    found = [
        f"{file} imports {m}" for part, file, m in all_imports() if part in NO_TORCH and m.split(".")[0] in GPU_PACKAGES
    ]
    assert not found


def test_light_parts_import_declared_packages_only() -> None:
    """A package that only torch or a test tool brings would be found here and missing in a light install."""
    declared = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    known = {"workbench", *sys.stdlib_module_names} | {Requirement(line).name.replace("-", "_") for line in declared}
    found = {
        f"{file} imports {module}"
        for part, file, module in all_imports()
        if part in NO_TORCH | {"cli"} and module.partition(".")[0].lower() not in known
    }
    assert not found, "declare the package in pyproject.toml"


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("import workbench.ops.api", {"workbench.ops.api"}),
        ("from workbench import paths, widgets", {"workbench.paths", "workbench.widgets"}),
        ("def f():\n    from workbench.ops import api", {"workbench.ops"}),
        ("from . import plan", {"workbench.schedule"}),
        ("from .plan import DecodePlan", {"workbench.schedule.plan"}),
        ("from ..ops.api import call", {"workbench.ops.api"}),
        ("from .. import ops", {"workbench.ops"}),
    ],
)
def test_imported_modules_sees_every_form(source: str, modules: set[str]) -> None:
    assert imported_modules(source, "workbench.schedule") == modules
