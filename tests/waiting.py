"""Waiting for what another process or a page does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SECONDS = 60.0
"""Longest wait for anything. A busy machine is slow, not wrong, so only what never comes runs into it."""


def until(read: Callable[[], T], accepts: Callable[[T], object] = bool, *, seconds: float = SECONDS) -> T:
    """Read again and again until what is read is accepted, and return it.

    Parameters
    ----------
    read
        Gives the present value.
    accepts
        Whether it is the one that is waited for; by itself, whether it is true.
    seconds
        After how long the wait fails, with the last value in its message.
    """
    deadline = time.monotonic() + seconds
    while not accepts(found := read()):
        assert time.monotonic() < deadline, f"after {seconds:.0f} s it still is {found!r}"
        time.sleep(0.02)
    return found
