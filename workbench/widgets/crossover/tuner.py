"""The crossover tuner as a notebook widget.

The chart is SVG of its own, not a plotly figure: a threshold is an element that takes focus, arrow keys and a drag, and
while it moves only a frame of a few kilobytes comes back, which redraws the rule, its price and where it loses; plotly
would send its layout through two more layers and lay the whole figure out anew. It is SVG and not a canvas, as the
explorer's bins are, because there is little to draw: some curves of at most 128 points each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import traitlets

from workbench.errors import InvalidArgument, WorkbenchError
from workbench.records import Environment, Store
from workbench.tables import SGLANG, Choice, DispatchTable, module_source, save_table
from workbench.tables.sglang import ThresholdTable
from workbench.tune import CrossoverSearch, Regret, Settings, Traffic
from workbench.widgets import assets
from workbench.widgets.base import Screen, setting
from workbench.widgets.crossover import frames
from workbench.widgets.crossover.exports import as_code, sglang_export
from workbench.widgets.crossover.live import PROVIDERS, Live, Meter
from workbench.widgets.crossover.replies import REPLIES
from workbench.widgets.crossover.rule import Pieces
from workbench.widgets.crossover.session import Session
from workbench.widgets.crossover.svg import render_svg
from workbench.widgets.crossover.traffic import AnyTraffic

SCRIPTS = (
    "dom.js", "link.js", "theme.js", "fields.js", "files.js", "shell.js", "crossover_axes.js",
    "crossover_chart.js", "crossover_rule.js", "crossover_controls.js", "crossover_answer.js", "crossover_files.js",
    "crossover.js",
)  # fmt: skip
"""Files of the browser side, each after those that it imports."""


class CrossoverTuner(Screen):
    """From how many rows on which router product is fastest, and what any other choice costs.

    Parameters
    ----------
    router : str
        A model of `workbench.tables.MODELS` or "K,N".
    precision : str
        Least accurate class allowed: "fp32", "split", "tf32" or "bf16".
    figures : str
        "recorded": times from records; "live": measured here, once `start` was called.
    gpu : str
        GPU of the records.
    traffic : str, Path, RequestTrace, DecodeSteps, Traffic or mapping
        "sample", "even", the file of a trace, a trace, simulated steps, or a number of calls by M.
    mixed : bool
        Whether prefill chunks share a pass with decoded tokens; for traces and steps.
    max_batch : int
        Most requests that the simulated engine runs at once; for traces.
    providers : sequence of str, optional
        Who is compared; None: everybody with figures.
    thresholds : str, Choice, mapping or pairs of (int, str), optional
        The rule: first M and provider of each piece; "in use", "one" or "always ..." for a rule of the table; None for
        the best choice of the figures.
    in_use : mapping or path
        The engine's table, {(K, N): smallest M}, or a file that holds it.
    store : Store, optional
        Where records are looked for; None opens the shipped ones and your own.
    measured_providers : sequence of str
        Whom `start` measures.
    settings : workbench.tune.Settings, optional
        How a measurement decides and when it stops.
    meter, environment : callable, optional
        What measures instead of the GPU at hand, ``meter(k, n, providers)``, and what it stands for.

    Raises
    ------
    WorkbenchError
        A setting is not allowed, or there are no figures.

    Notes
    -----
    Every setting is also an attribute; setting one redraws all views, and an error leaves everything as it was.
    :meth:`change` sets several at once.

    Examples
    --------
    >>> tuner = CrossoverTuner("longcat-chat", precision="tf32")
    >>> tuner.thresholds = [(0, "hpc"), (128, "cublas-tf32")]
    >>> tuner.regret.us > 0
    True
    """

    _esm = assets.module(SCRIPTS)
    _css = assets.text("schedule.css") + assets.text("crossover.css")

    title = "Crossover tuner"
    replies = REPLIES
    session: Session

    scene = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        router: str = "longcat-chat",
        *,
        traffic: AnyTraffic = "sample",
        in_use: ThresholdTable | str | Path = SGLANG,
        store: Store | None = None,
        measured_providers: Sequence[str] = PROVIDERS,
        settings: Settings | None = None,
        meter: Callable[[int, int, Sequence[str]], Meter] | None = None,
        environment: Callable[[], Environment] | None = None,
        **changes: Any,
    ) -> None:
        live = Live(measured_providers, settings, meter, environment)
        self.session = Session(traffic=traffic, in_use=in_use, store=store, live=live, **{"router": router} | changes)
        self._board: object = None
        super().__init__(frames.constants())
        live.on_change = self._measured

    router = setting("router")
    precision = setting("precision")
    figures = setting("figures")
    gpu = setting("gpu")
    mixed = setting("mixed")
    max_batch = setting("max_batch")
    providers = setting("providers")

    @property
    def thresholds(self) -> Pieces:
        """The rule on screen: first M and provider of each piece. Set None to follow the figures."""
        rule = self.rule
        return tuple(zip(rule.starts, rule.providers, strict=True))

    @thresholds.setter
    def thresholds(self, rule: Any) -> None:
        self.change(thresholds=rule)

    @property
    def traffic(self) -> Traffic:
        """The distribution of M; set it to anything that the parameter of that name takes."""
        state = self.session.state
        return self.session.source.traffic(mixed=state.mixed, max_batch=state.max_batch)

    @traffic.setter
    def traffic(self, given: AnyTraffic) -> None:
        self.change(traffic=given)

    @property
    def rule(self) -> Choice:
        """The rule on screen."""
        return self.session.shown().rule

    @property
    def table(self) -> DispatchTable:
        """The rule on screen as a dispatch table, with all that it rests on."""
        return self.session.table()

    @property
    def search(self) -> CrossoverSearch:
        """The figures on screen, with their verdicts, intervals and crossings."""
        return self.session.shown().board.figures.search

    @property
    def regret(self) -> Regret:
        """What the rule on screen loses against the best choice under the traffic."""
        shown = self.session.shown()
        return shown.board.pricing.regret(shown.rule, shown.board.best)

    @property
    def regrets(self) -> dict[str, Regret]:
        """What each rule of the table loses against the best choice, cheapest first; only those with a price."""
        prices = self.session.shown().prices
        return {price.key: price.regret for price in prices if price.regret is not None}

    def start(self) -> None:
        """Measure the router here, or go on with it, beside the notebook; `figures` becomes "live".

        Raises
        ------
        NoGpu
            There is no GPU.
        InvalidArgument
            A measurement runs already, or there is no event loop, as in a plain script.
        """
        k, n = self.session.shape
        self.session.live.start(k, n, self.session.state.precision)
        self.change(figures="live")

    def cancel(self) -> None:
        """Stop measuring after the present step; `start` goes on from there."""
        self.session.live.cancel()

    async def finished(self) -> None:
        """Wait for the measurement: ``await tuner.finished()``.

        Raises
        ------
        InvalidArgument
            The measurement failed; the message says why.
        """
        live = self.session.live
        await live.finished()
        if live.status == "failed":
            raise InvalidArgument(f"the measurement failed: {live.problem}")

    def save(self, path: str | Path | None = None) -> Path:
        """Keep the dispatch table; None: where ``router_gemm(provider="auto")`` finds it.

        Raises
        ------
        TableError
            The file cannot be written.
        """
        return save_table(self.table, path)

    def to_sglang(self) -> str:
        """The rule as SGLang's dict; comments say what that form cannot express, and what it loses."""
        return sglang_export(self.session).text

    def to_module(self) -> str:
        """The table as a Python module that needs nothing else."""
        return module_source([self.table])

    def _drawn(self, theme: str, width: int) -> str:
        return render_svg(self.session, theme=theme, width=width)

    def copy_as_code(self) -> str:
        """Python that opens the same view again."""
        return as_code(self.session.state, traffic=self.session.source.title)

    def redraw(self) -> None:
        """Send the present screen to every view."""
        shown = self.session.evaluation
        with self.hold_sync():
            if (shown.board if shown else None) is not self._board:
                self.scene = self._make_scene()
            self.frame = self._make_frame()

    def _make_scene(self) -> dict[str, Any]:
        shown = self.session.evaluation
        self._board = shown.board if shown else None
        return {"number": self._number + 1, **frames.scene_of(self.session)}

    def _first(self) -> dict[str, Any]:
        return {"scene": self._make_scene(), **super()._first()}

    def _content(self) -> dict[str, Any]:
        return frames.frame_of(self.session, self._fault)

    def _measured(self, fresh: bool) -> None:
        """A step was measured, or the measurement began or ended; `fresh`: the chart is made anew."""
        if fresh and self.session.state.figures == "live":
            try:
                self.session.refresh()
                self._fault = None if self._fault and self._fault["field"] == "live" else self._fault
            except WorkbenchError as error:  # what was measured so far allows no comparison yet
                self._fault = {"field": "live", "text": str(error)}
        self.redraw()

    def set_from_view(self, view: str, number: int, changes: dict[str, Any], *, action: str = "") -> None:
        """Change settings, or measure, as a view asks; what cannot be is shown in the view in words instead."""

        def act() -> None:
            if action == "start":
                self.start()
            elif action == "cancel":
                self.cancel()
            self.session.change(**changes)

        self._from_view(view, number, next(iter(changes), "live"), act)

    def _picture(self) -> tuple[str, str]:
        return self.to_svg(), self.description

    @property
    def description(self) -> str:
        """The screen in a sentence or two."""
        answer = self.frame["answer"]
        head = "Crossover tuner, " + ", ".join(self.frame["header"])
        words = "".join(run["text"] for run in answer["sentence"]) if answer else "Nothing was measured yet."
        return f"{head}. {words}"
