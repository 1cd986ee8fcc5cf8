"""A change of settings that the screen offers as a button."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Offer:
    """A button.

    Attributes
    ----------
    label : str
    changes : dict
        Settings as ``ScheduleExplorer.change`` takes them, all of them values that JSON has.
    """

    label: str
    changes: dict[str, Any]
