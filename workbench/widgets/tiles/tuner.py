"""The tile tuner as a notebook widget.

The charts are SVG of its own: a point and an axis value take focus and keys, some hundred points are little to draw,
and while a slider moves only a frame of a few kilobytes comes, which redraws the numbers and one mark.
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.display import display

from workbench.errors import InvalidArgument, WorkbenchError
from workbench.records import Store
from workbench.tune.resources import Resources
from workbench.tune.resources_sass import MachineCode, machine_code
from workbench.tune.space import Space, Value
from workbench.tune.study import Result
from workbench.widgets import assets
from workbench.widgets.tiles import frames
from workbench.widgets.tiles.compiler import Compiler
from workbench.widgets.tiles.exports import as_code
from workbench.widgets.tiles.journal import apply_best
from workbench.widgets.tiles.known import Known
from workbench.widgets.tiles.replies import REPLIES
from workbench.widgets.tiles.scene import scene_of
from workbench.widgets.tiles.session import Session
from workbench.widgets.tiles.study import BenchOf, StudyRun
from workbench.widgets.tiles.svg import render_svg, static_html
from workbench.widgets.tiles.times import Time

SCRIPTS = (
    "dom.js", "link.js", "theme.js", "fields.js", "files.js", "crossover_axes.js", "tiles_controls.js",
    "tiles_answer.js", "tiles_scatter.js", "tiles_parallel.js", "tiles_table.js", "tiles_study.js", "tiles_files.js",
    "tiles.js",
)  # fmt: skip
"""Files of the browser side, each after those that it imports."""

QUIET_SHARE = 10
"""While much is found, charts are made anew when so many times the last making have passed."""


def _setting(name: str) -> Any:
    """A property that reads a setting and, when set, changes it and redraws every view."""

    def read(self: TileTuner) -> Any:
        return getattr(self.session.state, name)

    def write(self: TileTuner, value: Any) -> None:
        self.change(**{name: value})

    return property(read, write, doc=f"The setting ``{name}``; see :class:`TileTuner`.")


class TileTuner(anywidget.AnyWidget):
    """What each configuration of a kernel needs of an SM, how long it takes, and which one becomes the default.

    Parameters
    ----------
    operator : str
        "attention" or "router".
    lengths : str
        Attention: KV lengths such as "2x32K + 30x4K".
    cache : str
        Attention: "fp8" or "bf16".
    group, kv_heads, q_len : int
        Attention: query heads a KV head, KV heads, query tokens a request.
    router : str
        Router: a model of `workbench.tables.MODELS`, or "K,N".
    m, terms : int
        Router: tokens, and terms of the weight, 2 or 3.
    gpu : str
        GPU that configurations are fitted on; of the architecture that the kernels are written for.
    whole : bool
        Every value that the kernel declares, not only those worth measuring.
    values : mapping or configuration, optional
        What is changed of the default. The combination may be one that cannot run: then the screen says why.
    method, most, applicable
        How a study searches ("grid", "random" or "tpe"), how many configurations it tries, and whether only those that
        could be the default.
    store : Store, optional
        Where records are looked for, and where a study adds what it timed; None: the shipped ones and your own.
    journal : path, optional
        Of a study to show and to go on with; None: that of the workload among your own, where there is one.
    bench : callable, optional
        What measures instead of the GPU at hand; see `workbench.widgets.tiles.study.BenchOf`.

    Raises
    ------
    WorkbenchError
        A setting is not allowed.

    Notes
    -----
    Every setting is also an attribute; setting one redraws all views, and an error leaves everything as it was.
    :meth:`change` sets several at once. ``values`` changes the parameters that it names and leaves the others.

    Examples
    --------
    >>> tuner = TileTuner("attention", lengths="64x4K", values={"stages": 8})
    >>> tuner.refused
    'shared memory 265,792 > 232,448 bytes'
    >>> tuner.values = {"stages": 4}
    >>> tuner.refused
    ''
    """

    _esm = assets.module(SCRIPTS)
    _css = assets.text("schedule.css") + assets.text("tiles.css")

    frame = traitlets.Dict().tag(sync=True)
    scene = traitlets.Dict().tag(sync=True)
    constants = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        operator: str = "attention",
        *,
        store: Store | None = None,
        journal: str | Path | None = None,
        bench: BenchOf | None = None,
        **settings: Any,
    ) -> None:
        self.session = Session(
            store=store,
            journal=None if journal is None else Path(journal),
            study=StudyRun(bench),
            compiler=Compiler(),
            **{"operator": operator} | settings,
        )
        self._fault: dict[str, str] | None = None
        self._number = 0
        self._ack: dict[str, int] = {}
        self._mark = f"wb-static-{uuid.uuid4().hex}"
        self._shown: tuple[int, int] | None = None
        self._quiet_until = 0.0
        scene = self._make_scene()
        super().__init__(
            constants=frames.constants() | {"picture": self._mark}, scene=scene, frame=self._make_frame(scene)
        )
        self.session.compiler.on_found = self._found
        self.session.compiler.on_change = self.redraw
        self.session.study.on_change = self._studied
        self.on_msg(self._answer)

    operator = _setting("operator")
    lengths = _setting("lengths")
    cache = _setting("cache")
    group = _setting("group")
    kv_heads = _setting("kv_heads")
    q_len = _setting("q_len")
    router = _setting("router")
    m = _setting("m")
    terms = _setting("terms")
    gpu = _setting("gpu")
    whole = _setting("whole")
    method = _setting("method")
    most = _setting("most")
    applicable = _setting("applicable")

    @property
    def values(self) -> dict[str, Value]:
        """The configuration on screen by parameter; set those that are to change."""
        return self.session.values

    @values.setter
    def values(self, wished: Any) -> None:
        self.change(values=wished)

    @property
    def space(self) -> Space:
        """All settings of the kernel for the workload on screen."""
        return self.session.space

    @property
    def refused(self) -> str:
        """Why the values on screen cannot run; "" where they can."""
        return self.session.refused

    @property
    def config(self) -> Any:
        """The configuration on screen, for ``config=`` of the operator; raises InvalidArgument where it cannot run."""
        return self.session.config

    @property
    def default(self) -> Any:
        """The configuration that runs when none is given."""
        return self.session.known.default

    @property
    def best(self) -> Any | None:
        """The fastest that was measured, or else recorded; None where nothing was."""
        return self.session.known.best()

    @property
    def time(self) -> Time:
        """Time of the configuration on screen, and where it is from."""
        return self.session.known.time(self.config)

    @property
    def resources(self) -> Resources:
        """What the configuration on screen needs; compiled now if it was not."""
        found = self.session.compile()
        self.redraw()
        return found

    @property
    def machine_code(self) -> MachineCode:
        """Instructions of the configuration on screen, counted now; raises where it has no kernel."""
        found = self.session.compile()
        if found.kernel is None:
            raise InvalidArgument(f"there is no machine code: {found.problem}")
        return machine_code(found.kernel)

    @property
    def result(self) -> Result | None:
        """The finals of the study on screen; None where there are none."""
        return self.session.known.result

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

    def compile_all(self) -> None:
        """Compile every configuration that is listed, beside the notebook."""
        self.session.compile_all()
        self.redraw()

    async def compiled(self) -> None:
        """Wait until nothing is left to compile or to count: ``await tuner.compiled()``."""
        await self.session.compiler.finished()

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
        read = self.session.read
        if read is None or self.session.study.running:
            raise InvalidArgument(
                "there is no finished study of this workload here. Measure it on a GPU first, or give journal=."
            )
        return apply_best(self.session.space, read.path, force=force)

    def to_svg(self, *, theme: str = "light", width: int = 1100) -> str:
        """The screen as an SVG document."""
        return render_svg(self.session, theme=theme, width=width)

    def copy_as_code(self) -> str:
        """Python that opens the same view again."""
        return as_code(self.session.state, self.session.known.default.to_dict())

    def redraw(self) -> None:
        """Send the present screen to every view."""
        known = self.session.known
        with self.hold_sync():
            if self._shown != (id(known), known.version) and self._may_draw(known):
                self.scene = self._make_scene()
            self.frame = self._make_frame(self.scene)

    def _may_draw(self, known: Known) -> bool:
        """While a batch or a study brings figure upon figure, charts follow now and then."""
        busy = self.session.compiler.running or self.session.study.status == "running"
        same = self._shown is not None and self._shown[0] == id(known)
        return not (busy and same) or time.monotonic() >= self._quiet_until

    def _make_scene(self) -> dict[str, Any]:
        known = self.session.known
        started = time.monotonic()
        self._shown = id(known), known.version
        made = {"number": self._number + 1, **scene_of(self.session)}
        ended = time.monotonic()
        self._quiet_until = ended + max(0.5, QUIET_SHARE * (ended - started))
        return made

    def _make_frame(self, scene: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        content = frames.frame_of(self.session, scene, self._fault)
        return {"number": self._number, "ack": dict(self._ack), **content}

    def _found(self, known: Known, found: list[Resources]) -> None:
        for each in found:
            known.add(each)
        if found and known is self.session.known:
            self.session.look()
            self.redraw()

    def _studied(self) -> None:
        self.session.learn()
        if self._fault and self._fault["field"] == "study":
            self._fault = None
        self.redraw()

    def _answer(self, _: object, message: dict[str, Any], __: list[memoryview]) -> None:
        """Answer one message of a view."""
        reply = REPLIES[message["kind"]](self, message)
        if reply is not None:
            self.send({"kind": message["kind"], "view": message["view"], **reply})

    def set_from_view(self, view: str, number: int, changes: dict[str, Any], *, action: str = "") -> None:
        """Change settings, or act, as a view asks; what cannot be is shown in the view in words instead."""
        self._ack[view] = number
        field = "study" if action else next(iter(changes), "")
        actions = {
            "start": self.start, "pause": self.pause, "resume": self.resume, "cancel": self.cancel,
            "compile": self.session.compile_all, "stop": self.session.compiler.cancel, "apply": self._apply_from_view,
        }  # fmt: skip
        try:
            self.session.change(**changes)
            self._fault = None
            if action:
                actions[action]()
        except WorkbenchError as error:
            self._fault = {"field": field, "text": str(error)}
        self.redraw()

    def _apply_from_view(self) -> None:
        path = self.apply()
        self._fault = {"field": "applied", "text": f"Wrote {path}; processes that start from now on use it."}

    def _ipython_display_(self) -> None:
        """Show the live widget, and below it a picture for whoever opens the saved notebook without its kernel.

        JupyterLab shows an error in place of a widget whose kernel is gone, whatever else its output holds, so the
        picture is an output of its own; every live view hides it.
        """
        bundle = self._repr_mimebundle_()
        if bundle is not None:
            display(bundle[0], metadata=bundle[1], raw=True)  # type: ignore[no-untyped-call]
        words = self.description
        display({"text/html": static_html(self.to_svg(), words, self._mark), "text/plain": words}, raw=True)  # type: ignore[no-untyped-call]

    @property
    def description(self) -> str:
        """The screen in a sentence or two."""
        words = "".join(run["text"] for run in self.frame["sentence"])
        return f"Tile tuner, {', '.join(self.frame['header'])}. {words}"
