"""Interactive views for notebooks. Each one is a Python model whose browser side only draws.

- :class:`ScheduleExplorer` (``schedule``): how policies fill the CTAs of a decode step, over a whole trace.
- :class:`CrossoverTuner` (``crossover``): which router product for how many rows, and what a rule costs.
- :class:`ProfileBrowser` (``profiles``): captures of Nsight Compute beside each other.
- :class:`TileTuner` (``tiles``): what a kernel's configuration needs, how long it takes, which one becomes the default.

Widgets load on first use, so that the static pictures (``schedule.svg``) need no Jupyter.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WIDGETS = {
    "CrossoverTuner": "workbench.widgets.crossover.tuner",
    "ProfileBrowser": "workbench.widgets.profiles.browser",
    "ScheduleExplorer": "workbench.widgets.schedule.explorer",
    "TileTuner": "workbench.widgets.tiles.tuner",
}

__all__ = ["CrossoverTuner", "ProfileBrowser", "ScheduleExplorer", "TileTuner"]


def __getattr__(name: str) -> Any:
    if name not in _WIDGETS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(_WIDGETS)}")
    return getattr(import_module(_WIDGETS[name]), name)
