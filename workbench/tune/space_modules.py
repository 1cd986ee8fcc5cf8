"""An operator's configurations where torch is not installed.

``workbench.ops`` needs torch, and so does every package in it; their modules of configurations and costs do not. Those
are loaded here by themselves, under their own names, so that the package finds the same classes when it is imported.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_OPS = Path(__file__).resolve().parents[1] / "ops"


def module(operator: str, name: str) -> ModuleType:
    """A module of an operator's package, loaded without the package.

    Parameters
    ----------
    operator
        Folder in ``workbench/ops``.
    name
        Module in it. What it imports from its own package must have been loaded in the same way before.
    """
    full = f"workbench.ops.{operator}.{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, _OPS / operator / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None  # a file of this package
        made = importlib.util.module_from_spec(spec)
        sys.modules[full] = made
        try:
            spec.loader.exec_module(made)
        except BaseException:
            del sys.modules[full]
            raise
    return sys.modules[full]
