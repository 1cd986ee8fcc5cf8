"""The charts that the views have: made anew when what they show has changed, now and then while much is found."""

from __future__ import annotations

import time
from typing import Any

from workbench.widgets.tiles.known import Known
from workbench.widgets.tiles.scene import scene_of
from workbench.widgets.tiles.session import Session

LEAST_QUIET_S, QUIET_SHARE = 0.5, 10
"""While figure comes upon figure, charts stay for so many seconds, or so many times what making them took."""


class Charts:
    """What was drawn last, and whether it still says what is known.

    Attributes
    ----------
    scene : dict
        See `workbench.widgets.tiles.scene.scene_of`; `number` is another one for each that was made.
    """

    def __init__(self, session: Session) -> None:
        self.scene: dict[str, Any] = {}
        self._session = session
        # The object itself is held and not its id, which another one may have once this one is forgotten.
        self._drawn: Known | None = None
        self._version = 0
        self._number = 0
        self._quiet_until = 0.0

    @property
    def stale(self) -> bool:
        """Whether they are to be made anew: at once for another workload, and when nothing more is coming."""
        session, known = self._session, self._session.known
        if known is not self._drawn:
            return True
        more = session.compiler.left or session.study.status == "running"
        return known.version != self._version and not (more and time.monotonic() < self._quiet_until)

    def make(self) -> dict[str, Any]:
        """Make them of what is known now; returns the scene."""
        self._drawn, self._version = self._session.known, self._session.known.version
        self._number += 1
        started = time.monotonic()
        self.scene = {"number": self._number, **scene_of(self._session)}
        ended = time.monotonic()
        self._quiet_until = ended + max(LEAST_QUIET_S, QUIET_SHARE * (ended - started))
        return self.scene
