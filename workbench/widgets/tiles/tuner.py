"""The tile tuner as a notebook widget.

The charts are SVG of its own: a point and an axis value take focus and keys, some hundred points are little to draw,
and while a slider moves only a frame of a few kilobytes comes, which redraws the numbers and one mark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import traitlets

from workbench.errors import InvalidArgument
from workbench.records import Store
from workbench.tune.resources import Resources
from workbench.tune.resources_sass import MachineCode, machine_code
from workbench.tune.space import Space, Value
from workbench.widgets import assets
from workbench.widgets.base import setting
from workbench.widgets.tiles import frames
from workbench.widgets.tiles.charts import Charts
from workbench.widgets.tiles.compiler import Compiler
from workbench.widgets.tiles.exports import as_code
from workbench.widgets.tiles.known import Known
from workbench.widgets.tiles.replies import REPLIES
from workbench.widgets.tiles.session import Session
from workbench.widgets.tiles.study import BenchOf, StudyRun
from workbench.widgets.tiles.study_screen import StudyScreen
from workbench.widgets.tiles.svg import render_svg
from workbench.widgets.tiles.times import Time

SCRIPTS = (
    "dom.js", "link.js", "theme.js", "fields.js", "files.js", "shell.js", "crossover_axes.js",
    "tiles_controls.js", "tiles_answer.js", "tiles_scatter.js", "tiles_parallel.js", "tiles_table.js", "tiles_study.js",
    "tiles.js",
)  # fmt: skip
"""Files of the browser side, each after those that it imports."""


class TileTuner(StudyScreen):
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
    'shared memory 297,760 > 232,448 bytes'
    >>> tuner.values = {"stages": 4}
    >>> tuner.refused
    ''
    """

    _esm = assets.module(SCRIPTS)
    _css = assets.text("schedule.css") + assets.text("tiles.css")

    title = "Tile tuner"
    replies = REPLIES

    scene = traitlets.Dict().tag(sync=True)

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
        self._charts = Charts(self.session)
        super().__init__(frames.constants())
        self.session.compiler.on_found = self._found
        self.session.compiler.on_change = self.redraw
        self.session.study.on_change = self._studied

    operator = setting("operator")
    lengths = setting("lengths")
    cache = setting("cache")
    group = setting("group")
    kv_heads = setting("kv_heads")
    q_len = setting("q_len")
    router = setting("router")
    m = setting("m")
    terms = setting("terms")
    gpu = setting("gpu")
    whole = setting("whole")
    method = setting("method")
    most = setting("most")
    applicable = setting("applicable")

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

    def compile_all(self) -> None:
        """Compile every configuration that is listed, beside the notebook."""
        self.session.compile_all()
        self.redraw()

    async def compiled(self) -> None:
        """Wait until nothing is left to compile or to count: ``await tuner.compiled()``."""
        await self.session.compiler.finished()

    def _drawn(self, theme: str, width: int) -> str:
        return render_svg(self.session, theme=theme, width=width)

    def copy_as_code(self) -> str:
        """Python that opens the same view again."""
        return as_code(self.session.state, self.session.known.default.to_dict())

    def redraw(self) -> None:
        """Send the present screen to every view; charts only where they have changed."""
        with self.hold_sync():
            if self._charts.stale:
                self.scene = self._charts.make()
            super().redraw()

    @property
    def description(self) -> str:
        """The screen in a sentence or two."""
        words = "".join(run["text"] for run in self.frame["sentence"])
        return f"Tile tuner, {', '.join(self.frame['header'])}. {words}"

    def _first(self) -> dict[str, Any]:
        return {"scene": self._charts.make(), **super()._first()}

    def _content(self) -> dict[str, Any]:
        return frames.frame_of(self.session, self._charts.scene, self._fault)

    def _picture(self) -> tuple[str, str]:
        return self.to_svg(), self.description

    def _found(self, known: Known, found: list[Resources]) -> None:
        """Needs of some configurations were found, of this workload or of one that was left meanwhile."""
        for each in found:
            known.add(each)
        if found and known is self.session.known:
            self.session.look()
            self.redraw()
