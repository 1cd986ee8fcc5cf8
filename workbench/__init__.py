"""HPC-Ops Workbench: schedules, kernels and measurements of the operators that decide serving latency.

Top-level names load on first use, so ``import workbench`` is quick and touches neither torch nor CUDA.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

__version__ = "0.1.0"

# Public name -> module that defines it, e.g. "ScheduleExplorer": "workbench.widgets". A new part adds its line here.
_LAZY: dict[str, str] = dict.fromkeys(
    ("CrossoverTuner", "ProfileBrowser", "ScheduleExplorer", "TileTuner"), "workbench.widgets"
)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
        value = import_module(f"{__name__}.{name}")  # `workbench.schedule` works after `import workbench` alone
    else:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}; it has {', '.join(__dir__())}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from pkgutil import iter_modules

    parts = (module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
    return sorted(["__version__", *_LAZY, *parts])
