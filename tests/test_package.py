"""What ``import workbench`` costs and touches, and that its names are real."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import workbench

PACKAGE = Path(workbench.__file__).parent
LIGHT_PARTS = ("devices", "records", "tables", "schedule", "workloads", "widgets", "report", "cli")

# Prints what importing one module took and left behind.
PROBE = """
import importlib, json, sys, time
start = time.process_time()  # the processor's, which the other work of a machine changes little
importlib.import_module(sys.argv[1])
seconds = time.process_time() - start
try:
    libraries = open("/proc/self/maps").read()
except FileNotFoundError:
    libraries = ""
print(json.dumps({"seconds": seconds, "modules": sorted(sys.modules), "libcuda": "libcuda" in libraries}))
"""


def probe(module: str) -> dict[str, object]:
    """Import a module in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", PROBE, module], capture_output=True, text=True, check=True)
    result: dict[str, object] = json.loads(done.stdout)
    return result


def test_import_is_quick() -> None:
    best = min(float(str(probe("workbench")["seconds"])) for _ in range(3))
    assert best < 0.3


def test_import_alone_loads_no_third_party_package() -> None:
    loaded = {str(name).partition(".")[0] for name in probe("workbench")["modules"]}  # type: ignore[attr-defined]
    assert not loaded & {"numpy", "pandas", "pydantic", "torch", "triton", "cuda", "plotly", "anywidget", "typer"}


@pytest.mark.parametrize("part", [part for part in LIGHT_PARTS if list(PACKAGE.glob(f"{part}*"))])
def test_light_parts_load_neither_torch_nor_cuda(part: str) -> None:
    result = probe(f"workbench.{part}")
    loaded = {str(name).partition(".")[0] for name in result["modules"]}  # type: ignore[attr-defined]
    assert not loaded & {"torch", "triton"}
    assert "cuda.bindings.driver" not in result["modules"]  # type: ignore[operator]
    assert not result["libcuda"]


def test_operators_without_torch_say_how_to_get_it() -> None:
    code = "import sys; sys.modules['torch'] = None; import workbench.ops"  # None: Python finds no such package
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("workbench.errors.MissingDependency: torch is not installed")
    assert "pip install torch" in last


def test_every_listed_name_exists() -> None:
    for name in dir(workbench):
        assert getattr(workbench, name) is not None, name


def test_unknown_name_says_what_there_is() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'scheduel'.*schedule"):
        _ = workbench.scheduel


def test_submodules_load_on_first_use() -> None:
    code = "import workbench, sys; workbench.paths.checkout_root; assert 'workbench.paths' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_environment_is_read_in_settings_only() -> None:
    """Handing the whole environment to a child process is not reading a variable."""
    reads = []
    for path in PACKAGE.rglob("*.py"):
        if path == PACKAGE / "settings.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(value=ast.Attribute(attr="environ"), attr="get" | "setdefault" | "pop"):
                    reads.append(path)
                case ast.Subscript(value=ast.Attribute(attr="environ")) | ast.Attribute(attr="getenv"):
                    reads.append(path)
    assert not reads


def test_version_of_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "workbench", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"hpc-ops-workbench {workbench.__version__}"


def test_user_error_is_a_message_with_an_exit_code() -> None:
    patch = "import pathlib, workbench.paths as paths; paths._PACKAGE = pathlib.Path('nowhere/workbench')"
    code = f"{patch}; from workbench.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "lab"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: The workbench's own folder 'notebooks' is missing")
    assert "Traceback" not in done.stderr


def test_unknown_command_is_a_usage_error() -> None:
    done = subprocess.run([sys.executable, "-m", "workbench", "paln"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
