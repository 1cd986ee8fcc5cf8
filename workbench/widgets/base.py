"""What every widget is: a session that Python owns, frames for its views, a picture for readers without a kernel."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

import anywidget
import traitlets
from IPython.display import display

from workbench.errors import WorkbenchError
from workbench.widgets.still import check_picture, still_html

Reply: TypeAlias = tuple[dict[str, Any], list[bytes]] | None
"""What is answered to a message, and its buffers; None where a new frame is the answer."""


def setting(name: str) -> Any:
    """A property that reads a setting and, when set, changes it and redraws every view."""

    def read(self: Screen) -> Any:
        return getattr(self.session.state, name)

    def write(self: Screen, value: Any) -> None:
        self.change(**{name: value})

    return property(read, write, doc=f"The setting ``{name}``; see the class.")


class Screen(anywidget.AnyWidget):
    """A screen whose browser side only draws: each change makes one frame, and every view shows the latest.

    A subclass sets `session` before it calls ``super().__init__``, and says what its frame and its picture are.

    Parameters
    ----------
    constants : dict
        What its views are told once.

    Attributes
    ----------
    title : str
        Name of the widget.
    picture_width : int
        Pixels of its picture where no other width is asked for.
    replies : mapping of str to callable
        What answers each kind of message of a view.
    session
        Has the settings as `state`, and ``change(**settings)``, which raises WorkbenchError and then changes nothing.
    """

    title: ClassVar[str]
    picture_width: ClassVar[int] = 1100
    replies: ClassVar[Mapping[str, Callable[[Any, dict[str, Any]], Reply]]]
    session: Any

    frame = traitlets.Dict().tag(sync=True)
    constants = traitlets.Dict().tag(sync=True)

    def __init__(self, constants: dict[str, Any]) -> None:
        self._fault: Any = None
        self._number = 0
        self._ack: dict[str, int] = {}
        self._mark = f"wb-static-{uuid.uuid4().hex}"
        super().__init__(constants=constants | {"picture": self._mark}, **self._first())
        self.on_msg(self._answer)

    def change(self, **changes: Any) -> None:
        """Change several settings at once, and redraw every view once.

        Raises
        ------
        WorkbenchError
            A value is not allowed; nothing is changed then.
        """
        self.session.change(**changes)
        self._fault = None
        self.redraw()

    def redraw(self) -> None:
        """Send the present screen to every view."""
        self.frame = self._make_frame()

    def set_from_view(self, view: str, number: int, changes: dict[str, Any]) -> None:
        """Change settings as a view asks; a value that cannot be is shown in the view in words instead."""
        self._from_view(view, number, next(iter(changes), ""), lambda: self.session.change(**changes))

    def to_svg(self, *, theme: str = "light", width: int | None = None) -> str:
        """The screen as an SVG document.

        Parameters
        ----------
        theme
            "light" or "dark".
        width
            Pixels; default: `picture_width`. A screen that needs more takes what it needs.

        Raises
        ------
        InvalidArgument
            There is no such theme, or the width is no number of pixels.
        """
        width = self.picture_width if width is None else width
        check_picture(theme, width)
        return self._drawn(theme, width)

    def _content(self) -> dict[str, Any]:
        """The frame, without its number."""
        raise NotImplementedError

    def _drawn(self, theme: str, width: int) -> str:
        """The screen as an SVG document, in a theme that there is."""
        raise NotImplementedError

    def _picture(self) -> tuple[str, str]:
        """The screen as an SVG document, and in words."""
        raise NotImplementedError

    def _first(self) -> dict[str, Any]:
        """What is sent when the widget is made."""
        return {"frame": self._make_frame()}

    def _make_frame(self) -> dict[str, Any]:
        self._number += 1
        return {"number": self._number, "ack": dict(self._ack), **self._content()}

    def _answer(self, _: object, message: dict[str, Any], __: list[memoryview]) -> None:
        """Answer one message of a view."""
        reply = self.replies[message["kind"]](self, message)
        if reply is not None:
            content, buffers = reply
            self.send({"kind": message["kind"], "view": message["view"], **content}, buffers)

    def _from_view(self, view: str, number: int, field: str, act: Callable[[], object]) -> None:
        """Act as a view asks; `field` is what is marked there if that cannot be."""
        self._ack[view] = number
        try:
            act()
            self._fault = None
        except WorkbenchError as error:
            self._fault = self._fault_of(field, error)
        self.redraw()

    def _fault_of(self, field: str, error: WorkbenchError) -> Any:
        return {"field": field, "text": str(error)}

    def _ipython_display_(self) -> None:
        """Show the live widget, and below it a picture for whoever opens the saved notebook without its kernel.

        JupyterLab shows an error in place of a widget whose kernel is gone, whatever else its output holds, so the
        picture is an output of its own; every live view hides it.
        """
        bundle = self._repr_mimebundle_()
        if bundle is not None:
            display(bundle[0], metadata=bundle[1], raw=True)  # type: ignore[no-untyped-call]
        svg, words = self._picture()
        still = still_html(self.title, svg, words, self._mark)
        display({"text/html": still, "text/plain": words}, raw=True)  # type: ignore[no-untyped-call]
