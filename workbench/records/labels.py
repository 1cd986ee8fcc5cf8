"""Where a figure comes from, in the words that every screen uses beside it."""

from __future__ import annotations

import datetime
from typing import Literal

from workbench.errors import InvalidArgument

Origin = Literal["measured", "recorded", "reference", "modelled"]


def origin_label(
    origin: Origin, *, gpu: str | None = None, date: datetime.date | str | None = None, by: str | None = None
) -> str:
    """Say where a figure comes from.

    Parameters
    ----------
    origin
        "measured": on this machine, just now. "recorded": by this project, earlier. "reference": by somebody else.
        "modelled": computed by a cost model, not measured.
    gpu
        GPU that the figure is of; needed for "recorded".
    date
        Day of the measurement; needed for "recorded".
    by
        Who measured, needed for "reference"; or the model's name.

    Returns
    -------
    str
        Such as "recorded (NVIDIA H200, 2026-11-29)".

    Raises
    ------
    InvalidArgument
        The origin is unknown, or lacks what it has to name.
    """
    needed = {"measured": (), "recorded": ("gpu", "date"), "reference": ("by",), "modelled": ()}
    if origin not in needed:
        raise InvalidArgument(f"origin {origin!r} is not known; give one of {', '.join(needed)}.")
    given = {"by": by, "gpu": gpu, "date": date}
    if lacking := [name for name in needed[origin] if not given[name]]:
        raise InvalidArgument(f"a {origin} figure names its {' and '.join(lacking)}; give {', '.join(lacking)}=.")
    word = "measured now" if origin == "measured" else origin
    details = ", ".join(str(value) for value in given.values() if value)
    return f"{word} ({details})" if details else word
