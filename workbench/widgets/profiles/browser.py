"""The profile browser as a notebook widget."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from workbench.errors import InvalidArgument, RecordError
from workbench.measure.timeline_records import own_timeline
from workbench.records import Store
from workbench.widgets import assets
from workbench.widgets.base import Screen, setting
from workbench.widgets.profiles import exports, frames
from workbench.widgets.profiles.bins import settings_of, timelines_of
from workbench.widgets.profiles.captures import Capture
from workbench.widgets.profiles.notes import Notes
from workbench.widgets.profiles.replies import REPLIES
from workbench.widgets.profiles.session import Session, State
from workbench.widgets.profiles.svg import render_svg
from workbench.widgets.profiles.words import sentence

if TYPE_CHECKING:
    import pandas as pd

    from workbench.widgets.schedule.explorer import ScheduleExplorer

SCRIPTS = (
    "dom.js", "link.js", "theme.js", "fields.js", "files.js", "shell.js", "crossover_axes.js",
    "profiles_chart.js", "profiles_table.js", "profiles_compare.js", "profiles_bins.js", "profiles_notes.js",
    "profiles_filters.js", "profiles_files.js", "profiles.js",
)  # fmt: skip
"""Files of the browser side, each after those that it imports."""

Content = TypeVar("Content", str, bytes)

SETTINGS = tuple(field.name for field in fields(State))


class ProfileBrowser(Screen):
    """Captures of Nsight Compute beside each other: metrics with their noise, ceilings, schedules, notes.

    Parameters
    ----------
    store : Store, str or Path, optional
        Where records are; None opens the shipped ones and your own.
    picks : iterable of Capture, str or Path
        What is compared, the first as the base: captures, names of records, beginnings of names, or files. At most 5.
    operator, case, gpu, provider, policy, set : str
        Only captures with this value. `set` is a set of metrics, "reduced" or "other".
    config : str
        Words of the configuration: "stages=3", or part of a kernel's name or of a note.
    since, until : str
        ISO days.
    metric, parameter : str
        Figure of the table and of the chart, and the parameter of the configuration on that chart's axis.
    view : str
        "compare", "roofline", "parameter", "schedule" or "notes".
    sort : str
        "date", "case", "gpu", "policy", "config", "set", "isolated", "replayed", "metric", "runs", "operator" or
        "provider".
    descending : bool

    Raises
    ------
    InvalidArgument
        A setting is not allowed. A filter that nothing matches is allowed.

    Notes
    -----
    Every setting is also an attribute; setting one redraws all views, and an error leaves everything as it was.
    :meth:`change` sets several at once. What you write about a capture is kept in your own store.

    Examples
    --------
    >>> browser = ProfileBrowser(operator="attention_decode", view="roofline")
    >>> all(capture.record.operator == "attention_decode" for capture in browser.shown)
    True
    """

    _esm = assets.module(SCRIPTS)
    _css = assets.text("schedule.css") + assets.text("profiles.css")

    title = "Profile browser"
    replies = REPLIES
    session: Session

    def __init__(
        self,
        store: Store | str | os.PathLike[str] | None = None,
        *,
        picks: Iterable[Capture | str | os.PathLike[str]] | Capture | str = (),
        **settings: Any,
    ) -> None:
        if unknown := sorted(set(settings) - set(SETTINGS)):
            raise InvalidArgument(
                f"ProfileBrowser takes no {', '.join(unknown)}. It takes store, {', '.join(SETTINGS)}."
            )
        opened = store if isinstance(store, Store) or store is None else Store(store)
        self.session = Session(opened, Notes(), picks=picks, **settings)
        super().__init__(frames.constants())

    operator = setting("operator")
    case = setting("case")
    gpu = setting("gpu")
    provider = setting("provider")
    policy = setting("policy")
    set = setting("set")
    config = setting("config")
    since = setting("since")
    until = setting("until")
    metric = setting("metric")
    parameter = setting("parameter")
    view = setting("view")
    sort = setting("sort")
    descending = setting("descending")

    @property
    def captures(self) -> tuple[Capture, ...]:
        """All captures of the store, newest first."""
        return self.session.captures

    @property
    def shown(self) -> tuple[Capture, ...]:
        """Those that the filters let through, in the order of the table."""
        return self.session.shown

    @property
    def picks(self) -> tuple[Capture, ...]:
        """Those that are compared, the first as the base; set it to captures, names of records, or files."""
        return self.session.picked

    @picks.setter
    def picks(self, given: Iterable[Capture | str | os.PathLike[str]] | Capture | str) -> None:
        self.change(picks=given)

    @property
    def problems(self) -> tuple[str, ...]:
        """Files that were skipped, with the reason."""
        return (*self.session.problems, *self.session.notes.problems)

    def reload(self) -> None:
        """Read the store again, for what was captured or imported since."""
        self.session.reload()
        self._fault = None
        self.redraw()

    def note(self, capture: Capture | str, text: str | None = None) -> str:
        """What you wrote about a capture; with `text`, write it. Empty text removes the note.

        Raises
        ------
        InvalidArgument
            There is no such capture, or the text is too long.
        RecordError
            Your store cannot be written.
        """
        key = capture.key if isinstance(capture, Capture) else capture
        if key not in {one.key for one in self.captures}:
            raise InvalidArgument(f"no capture of this store is named {key!r}. Give a Capture, or its key.")
        if text is not None:
            self.session.notes.write(key, text)
            self.session.change()
            self.redraw()
        return self.session.notes.texts.get(key, "")

    def explorer(self, pick: int = 0) -> ScheduleExplorer:
        """The schedule explorer on the plan of a picked capture, with its own timeline, or else a recorded one.

        Parameters
        ----------
        pick
            0 for A, 1 for B.

        Raises
        ------
        InvalidArgument
            Nothing is picked there, or its workload is not one of decode attention.
        """
        from workbench.widgets.schedule.explorer import ScheduleExplorer

        if not 0 <= pick < len(self.picks):
            raise InvalidArgument(f"pick is {pick}; {len(self.picks)} captures are picked. Set browser.picks first.")
        capture, store = self.picks[pick], self.session.store
        settings = settings_of(capture)
        explorer = ScheduleExplorer(settings.pop("workload"), store=store, **settings)
        own = own_timeline(store, timelines_of(store, capture)[0], capture.record)
        explorer.timeline = "recorded" if own is None else own[0].stem
        return explorer

    def compare(self) -> pd.DataFrame:
        """The picked captures side by side, a row a figure.

        Columns: metric, title, unit; for each letter its value and deviation; from B on the difference from A, half
        the width of its 95 % interval (noise), and the verdict: "beyond" or "within" the noise, "unknown", "equal".
        Values are in base units.
        """
        return exports.comparison(self.session.rows)

    def to_frame(self) -> pd.DataFrame:
        """A row a capture and figure, of the picked captures, or of all on screen where none is picked."""
        return exports.to_frame(self.picks or self.shown, self.session.notes.texts)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """:meth:`to_frame` as CSV; with `path`, written there too."""
        return _written(exports.to_csv(self.to_frame()), path)

    def to_parquet(self, path: str | os.PathLike[str] | None = None) -> bytes:
        """:meth:`to_frame` as Parquet; with `path`, written there too."""
        return _written(exports.to_parquet(self.to_frame()), path)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The comparison as a page of its own, with the picture; with `path`, written there too."""
        session = self.session
        words = sentence(session)
        page = exports.to_html(
            "Captures", words, session.picked, session.rows, session.notes.texts, render_svg(session)
        )
        return _written(page, path)

    def _drawn(self, theme: str, width: int) -> str:
        return render_svg(self.session, theme=theme, width=width)

    def copy_as_code(self) -> str:
        """Python that opens the same view again."""
        return exports.as_code(self.session.state)

    def _content(self) -> dict[str, Any]:
        return frames.frame_of(self.session, self._fault)

    def note_from_view(self, view: str, number: int, key: str, text: str) -> None:
        """Keep a note as a view asks."""
        self._from_view(view, number, "note", lambda: self.session.notes.write(key, text))

    def reload_from_view(self, view: str, number: int) -> None:
        """Read the store again as a view asks."""
        self._from_view(view, number, "store", self.session.reload)

    def _picture(self) -> tuple[str, str]:
        return self.to_svg(), f"Profile browser. {sentence(self.session)}"


def _written(content: Content, path: str | os.PathLike[str] | None) -> Content:
    if path is None:
        return content
    try:
        Path(path).write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error.strerror or error}. Give another path.") from None
    return content
