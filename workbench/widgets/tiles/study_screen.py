"""A screen that a study is run from: what a reader can ask of it, in Python and by a button."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from workbench.errors import InvalidArgument
from workbench.tune.study import Result
from workbench.widgets.base import Screen
from workbench.widgets.tiles.session import Session


class StudyScreen(Screen):
    """Starts, holds and ends the study of the workload on screen.

    Attributes
    ----------
    session : Session
    """

    session: Session

    @property
    def result(self) -> Result | None:
        """The finals of the study on screen; None where there are none."""
        return self.session.known.result

    def start(self) -> None:
        """Measure the configurations of the workload on screen beside the notebook, or go on with it.

        Raises
        ------
        NoGpu
            There is no GPU.
        InvalidArgument
            A study runs already, or there is no event loop, as in a plain script.
        """
        self.session.study.start(self.session.plan())

    def pause(self) -> None:
        """Stop after the trial in flight and keep the GPU; `resume` goes on."""
        self.session.study.pause()

    def resume(self) -> None:
        """Go on after `pause`."""
        self.session.study.resume()

    def cancel(self) -> None:
        """Stop after the trial in flight and let the GPU go; the journal keeps what was finished."""
        self.session.study.cancel()

    async def finished(self) -> None:
        """Wait for the study: ``await tuner.finished()``.

        Raises
        ------
        InvalidArgument
            It failed; the message says why.
        """
        study = self.session.study
        await study.finished()
        if study.status == "failed":
            raise InvalidArgument(f"the study failed: {study.problem}")

    def apply(self, *, force: bool = False) -> Path:
        """Make the best of the study on screen the default of its GPU and shape, for processes that start from now on.

        Raises
        ------
        InvalidArgument
            There is no finished study, none of its best could be the default, or none is surely faster.
        """
        path = self.session.apply(force=force)
        self.redraw()
        return path

    def set_from_view(self, view: str, number: int, changes: dict[str, object], *, action: str = "") -> None:
        """Change settings, or act, as a view asks; what cannot be is shown in the view in words instead."""
        session = self.session
        actions: dict[str, Callable[[], object]] = {
            "start": self.start, "pause": self.pause, "resume": self.resume, "cancel": self.cancel,
            "apply": session.apply, "compile": session.compile_all, "stop": session.compiler.cancel,
        }  # fmt: skip
        if action:
            self._from_view(view, number, "study", actions[action])
        else:
            super().set_from_view(view, number, changes)

    def _studied(self) -> None:
        """A study moved on."""
        self.session.learn()
        if self._fault and self._fault["field"] == "study":
            self._fault = None
        self.redraw()
