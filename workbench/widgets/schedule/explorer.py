"""The schedule explorer as a notebook widget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument, WorkbenchError
from workbench.measure.timeline import Timeline
from workbench.records import Store
from workbench.schedule import DecodePlan
from workbench.widgets import assets
from workbench.widgets.base import Screen, setting
from workbench.widgets.colours import THEMES
from workbench.widgets.schedule import frames
from workbench.widgets.schedule.batches import Batches, Given
from workbench.widgets.schedule.export import plans_json, trace_json
from workbench.widgets.schedule.recorded import Figure
from workbench.widgets.schedule.replies import REPLIES
from workbench.widgets.schedule.session import AnyPolicy, Session
from workbench.widgets.schedule.strip import Strip
from workbench.widgets.schedule.svg import render_svg
from workbench.widgets.schedule.timelines import GIVEN, NONE

SCRIPTS = (
    "dom.js", "link.js", "theme.js", "fields.js", "policies.js", "timelines.js", "controls.js", "measured.js",
    "answer.js", "raster.js", "residual.js", "plot.js", "card.js", "panels.js", "figures.js", "strip.js", "shell.js",
    "keys.js", "files.js", "schedule.js",
)  # fmt: skip
"""Files of the browser side, each after those that it imports."""

SETTINGS = (
    "gpu", "policy_a", "policy_b", "tile", "ctas_per_sm", "min_process_len", "num_kv_heads", "q_len", "cache",
    "max_batch", "order", "unit", "scale", "strip", "step", "selection", "timeline", "lanes",
)  # fmt: skip


class ScheduleExplorer(Screen):
    """How two scheduling policies fill the CTAs of a decode step, and what each costs over a whole trace.

    Parameters
    ----------
    workload : str, array of int, DecodeSteps or RequestTrace
        A preset ("64x4K", "zipf", "sample trace"), an expression ("64x4K + 2x32K"), KV lengths [batch], decode steps,
        or a request trace, which is simulated with the simulator's defaults and labelled so.
    gpu : str or devices.Gpu
        A name of the catalogue, or a GPU made with ``devices.custom``.
    policy_a, policy_b : str, Policy or callable
        As ``plan_decode`` takes them, or a name of ``policies``. ``balanced`` decides by the cost model on screen.
    tile, min_process_len, num_kv_heads, q_len : int
        As for ``plan_decode``.
    ctas_per_sm : int
        CTAs resident on an SM.
    cache : str
        "fp8" or "bf16".
    max_batch : int
        Most requests at once where a request trace is simulated.
    step : int
        Step of the trace; negative numbers count from the end.
    selection : int, optional
        Highlighted request of the step; None is the one that the slower plan waits for.
    order, unit, scale : str
        "cta", "sm" or "load"; "us" or "tiles"; "shared" or "own".
    strip : str
        What is drawn of every step: "over_bound", "call_us" or "idle".
    timeline : Timeline, str or None
        Measured times laid over the plans: "recorded" shows the newest record of each plan on screen, the name of a
        record that one, and a `workbench.measure.timeline.Timeline` of A's or B's plan itself.
    lanes : str
        What is drawn where there is a timeline: "both", "measured" or "planned".
    policies : mapping of str to Policy or callable
        Policies of your own, offered in the list under these names.
    store : Store, optional
        Where recorded times and timelines are looked for; None opens the shipped records and your own.

    Raises
    ------
    WorkbenchError
        A setting is not allowed. A policy that gives no valid plan does not raise here: the screen says why, and
        ``plan_a`` or ``plan_b`` raises when read.

    Notes
    -----
    Every setting is also an attribute; setting one redraws all views, and an error leaves everything as it was.
    :meth:`change` sets several at once.

    Examples
    --------
    >>> explorer = ScheduleExplorer("64x4K + 2x32K", policy_b="balanced")
    >>> explorer.gpu = "H100"
    >>> explorer.plan_b.metrics().descriptors >= 66
    True
    """

    _esm = assets.module(SCRIPTS)
    _css = assets.text("schedule.css")

    title = "Schedule explorer"
    replies = REPLIES
    picture_width = 1024
    session: Session

    def __init__(
        self,
        workload: Given = "1x128K+31x4K",
        *,
        policies: Mapping[str, AnyPolicy] | None = None,
        store: Store | None = None,
        **settings: Any,
    ) -> None:
        if unknown := sorted(set(settings) - set(SETTINGS)):
            known = ", ".join(("workload", *SETTINGS, "policies", "store"))
            raise InvalidArgument(f"ScheduleExplorer takes no {', '.join(unknown)}. It takes {known}.")
        self.session = Session(workload, policies, store, **settings)
        self._pasted = workload if isinstance(workload, str) and not self.session.workload.preset else ""
        self._strip: Strip | None = None
        self._strip_key: tuple[object, ...] = ()
        super().__init__(frames.constants() | {"themes": {name: theme.to_dict() for name, theme in THEMES.items()}})

    gpu = setting("gpu")
    policy_a = setting("policy_a")
    policy_b = setting("policy_b")
    tile = setting("tile")
    ctas_per_sm = setting("ctas_per_sm")
    min_process_len = setting("min_process_len")
    num_kv_heads = setting("num_kv_heads")
    q_len = setting("q_len")
    cache = setting("cache")
    order = setting("order")
    unit = setting("unit")
    scale = setting("scale")
    strip = setting("strip")
    max_batch = setting("max_batch")
    step = setting("step")
    lanes = setting("lanes")

    @property
    def workload(self) -> Batches:
        """What is looked at; set it to anything that the parameter of that name takes."""
        return self.session.workload

    @workload.setter
    def workload(self, given: Given) -> None:
        self.change(workload=given)

    @property
    def selection(self) -> int | None:
        """The highlighted request; set it to None to follow the one that the slower plan waits for."""
        return self.session.selected

    @selection.setter
    def selection(self, request: int | None) -> None:
        self.change(selection=request)

    @property
    def timeline(self) -> Timeline | str | None:
        """What was chosen: a timeline given, "recorded", the name of a record, or None."""
        choice = self.session.state.timeline
        return self.session.timelines.own if choice == GIVEN else None if choice == NONE else choice

    @timeline.setter
    def timeline(self, timeline: Timeline | str | None) -> None:
        self.change(timeline=timeline)

    @property
    def timelines(self) -> dict[str, Timeline]:
        """The timelines on screen, by the side whose plan they are of."""
        return {key: found.timeline for key, found in self.session.measured().items()}

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Recorded times of the workload on this GPU, ours and others', fastest first; empty where there is none."""
        return self.session.library.figures(self.session.shown)

    def reload_records(self) -> None:
        """Look through the stores again, for what was recorded since this explorer was made."""
        self.session.library.reload()
        self.redraw()

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """KV lengths of the step, int64 [batch], tokens."""
        return self.session.lengths

    @property
    def plan_a(self) -> DecodePlan:
        """Policy A's plan of the step; raises what kept the policy from giving one."""
        return self.session.plan("A")

    @property
    def plan_b(self) -> DecodePlan:
        """Policy B's plan of the step; raises what kept the policy from giving one."""
        return self.session.plan("B")

    @property
    def plan(self) -> DecodePlan:
        """Policy A's plan."""
        return self.plan_a

    def change(self, **changes: Any) -> None:
        """Change several settings at once, and redraw every view once.

        Raises
        ------
        WorkbenchError
            A value is not allowed; nothing is changed then.
        """
        self.session.change(**changes)
        if "workload" in changes:
            given = changes["workload"]
            self._pasted = given if isinstance(given, str) and not self.session.workload.preset else ""
        self._fault = None
        self.redraw()

    def copy_as_code(self) -> str:
        """Python that opens the same view again."""
        return self.session.as_code()

    def _drawn(self, theme: str, width: int) -> str:
        return render_svg(self.session.scene(), theme=theme, width=width)

    def to_plans_json(self) -> str:
        """Both plans with their metrics as JSON; see :func:`workbench.widgets.schedule.export.plans_json`."""
        return plans_json(self.session.sides)

    def to_trace_json(self) -> str:
        """The predicted and the measured timelines on screen, for Chrome and Perfetto."""
        session = self.session
        return trace_json(session.sides, sms=session.state.gpu.sms, measured=session.measured())

    def _content(self) -> dict[str, Any]:
        message = frames.frame(self.session, self._fault, self._pasted)
        strip = self.all_steps() if self._fault is None else None
        return {"strip": {"key": strip.key, "total": len(strip.steps)} if strip else None, **message}

    def all_steps(self) -> Strip | None:
        """The strip of the trace for the present settings, or None without a trace."""
        session, state = self.session, self.session.state
        if session.workload.steps is None:
            return None
        names = (state.policy_a, state.policy_b)
        key = (
            session.workload, *names, *map(session.custom.get, names),
            state.gpu, state.cache, *state.plan_arguments().values(), state.strip,
        )  # fmt: skip
        if key != self._strip_key:
            policies = (session.policy(names[0]), session.policy(names[1]))
            arguments = state.plan_arguments()
            self._strip = Strip(session.workload.steps, policies, arguments, session.cost, state.strip, self._number)
            self._strip_key = key
        return self._strip

    def set_from_view(self, view: str, number: int, changes: dict[str, Any]) -> None:
        """Change settings as a view asks; a value that cannot be is shown in the view in words instead."""
        field = next(iter(changes), "")
        if "pasted" in changes:
            field, self._pasted = "pasted", str(changes.pop("pasted"))
            changes["workload"] = self._pasted
        elif "workload" in changes:
            self._pasted = ""
        self._from_view(view, number, field, lambda: self.session.change(**changes))

    def _fault_of(self, field: str, error: WorkbenchError) -> frames.Fault:
        return frames.Fault.of(field, error)

    def _picture(self) -> tuple[str, str]:
        scene = self.session.scene()
        return render_svg(scene), scene.description
