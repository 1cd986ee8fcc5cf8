"""The explorer without a browser: settings, the plans that follow from them, and what is said about them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument, WorkbenchError
from workbench.records import Store
from workbench.schedule import CostModel, DecodePlan, Policy, cost_model, plan_decode, resolve
from workbench.schedule.policies import BUILT_IN, UserFunction
from workbench.widgets import text
from workbench.widgets.schedule.batches import MAX_BATCH, Given, batches
from workbench.widgets.schedule.failure import Failure
from workbench.widgets.schedule.measured import Measured
from workbench.widgets.schedule.placing import place, remember_parameters
from workbench.widgets.schedule.recorded import Library, Shown
from workbench.widgets.schedule.scene import Scene, View, culprit, make_scene
from workbench.widgets.schedule.side import STOPS, Side, evaluate, policy_title
from workbench.widgets.schedule.state import State, as_code, checked
from workbench.widgets.schedule.timelines import GIVEN, NONE, Timelines
from workbench.workloads import format_lengths

AnyPolicy = str | Policy | UserFunction

CACHED = 24
"""Evaluated plans kept: enough for every policy of a step, and the step before."""


class Session:
    """Settings, workload and user's policies, with the plans that follow. Every change is checked before it is kept.

    Parameters
    ----------
    workload
        Anything that :func:`workbench.widgets.schedule.batches.batches` reads.
    policies
        The user's own policies by name: policy objects or functions as ``plan_decode`` takes them.
    store
        Where recorded times and timelines are looked for; None opens the shipped records and the user's own.
    **settings
        Fields of :class:`State`; ``policy_a`` and ``policy_b`` may also be policy objects or functions, and
        ``timeline`` a `Timeline` or None.
    """

    def __init__(
        self,
        workload: Given,
        policies: Mapping[str, AnyPolicy] | None = None,
        store: Store | None = None,
        **settings: Any,
    ) -> None:
        self.custom: dict[str, Policy] = {}
        for name, policy in (policies or {}).items():
            self._add(name, policy)
        self._sides: OrderedDict[object, Side | Failure] = OrderedDict()
        self.library = Library(store)
        self.timelines = Timelines(self.library)
        self._recorded: tuple[tuple[object, ...], int] = ((), 0)
        self.workload = batches(workload, checked("max_batch", settings.get("max_batch", MAX_BATCH)))
        step = settings.pop("step", 0)
        self.state = State(gpu=settings.pop("gpu", "H200"))
        self.change(step=step, **settings)

    # Settings

    def change(self, **changes: Any) -> None:
        """Change settings and, with the name ``workload``, what is looked at; all or nothing.

        Raises
        ------
        WorkbenchError
            A value is not allowed; nothing is changed then.
        """
        before = self.state, self.workload, self.timelines.own
        timeline = changes.get("timeline")
        if "timeline" in changes and not isinstance(timeline, str):
            changes["timeline"] = GIVEN if timeline is not None else NONE
        self._change(**changes)
        if "timeline" in changes:
            try:
                self.timelines.choose(timeline, self.sides, self.shown, self.state.gpu)
            except WorkbenchError:
                self.state, self.workload, self.timelines.own = before
                raise

    def _change(self, **changes: Any) -> None:
        custom = dict(self.custom)
        try:
            cap = changes.get("max_batch", self.state.max_batch)
            new = self.workload
            if "workload" in changes:
                new = batches(changes.pop("workload"), checked("max_batch", cap))
            elif cap != self.state.max_batch and new.trace is not None:
                new = replace(batches(new.trace, checked("max_batch", cap)), preset=new.preset)
            sides: tuple[str, ...] = ("policy_a", "policy_b")
            named = {side: self._policy_name(changes[side]) for side in sides if side in changes}
            self._check_names(named, custom, changes)
            changes.update(named)
            if new is not self.workload:
                same = new.trace is not None and new.trace is self.workload.trace  # under another cap
                step = min(self.state.step, len(new) - 1) if same else 0
                changes = {"step": step, "selection": None} | changes
            state = remember_parameters(self.state.change(**changes), changes)
            before = (self.workload, self.state)
            state = place(state, new, before, follow="selection" not in changes)
        except WorkbenchError:
            self.custom = custom
            raise
        if new is not self.workload or custom != self.custom:
            self._sides.clear()
        self.state, self.workload = state, new

    def _policy_name(self, policy: AnyPolicy) -> str:
        if isinstance(policy, str):
            return policy if policy in self.custom else resolve(policy).name
        chosen = resolve(policy)
        if type(chosen) not in BUILT_IN.values():
            self._add(chosen.name, chosen)
        return chosen.name

    def _check_names(self, named: Mapping[str, str], before: Mapping[str, Policy], changes: Mapping[str, Any]) -> None:
        """A name means one policy: A and B cannot be two different functions of the same name."""
        if not named:
            return
        sides = {"policy_a": self.state.policy_a, "policy_b": self.state.policy_b, **named}
        name = sides["policy_a"]
        if name != sides["policy_b"] or name not in self.custom:
            return
        given = [resolve(changes[side]) for side in named if not isinstance(changes[side], str)]
        kept = [before[name]] if len(given) < 2 and name in before else []
        if any(policy != self.custom[name] for policy in given + kept):
            raise InvalidArgument(
                f"policy_a and policy_b are two policies of the same name, {name!r}. "
                "Name them: policies={'first': ..., 'second': ...}, policy_a='first', policy_b='second'."
            )

    @staticmethod
    def _built_in(name: str) -> bool:
        try:
            resolve(name)
        except InvalidArgument:
            return False
        return True

    def _add(self, name: str, policy: AnyPolicy) -> None:
        if not isinstance(name, str) or not name.strip() or self._built_in(name):
            raise InvalidArgument(f"policies= has the name {name!r}. Give one that no built-in policy has.")
        try:
            self.custom[name] = resolve(policy)
        except InvalidArgument as error:
            raise InvalidArgument(f"policies[{name!r}]: {error}") from None

    # What follows

    @property
    def cost(self) -> CostModel:
        """The cost model of the chosen GPU and cache type."""
        return cost_model(self.state.gpu, cache=self.state.cache)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """KV lengths of the step, int64 [batch], tokens."""
        return self.workload.lengths(self.state.step)

    def policy(self, name: str) -> Policy:
        """The policy of that name; ``balanced`` decides by the cost model on screen."""
        return self.custom[name] if name in self.custom else resolve(name, self.cost)

    def side(self, key: str) -> Side | Failure:
        """What policy A or B makes of the step."""
        return self.evaluated(key, self.state.policy_a if key == "A" else self.state.policy_b)

    def evaluated(self, key: str, name: str) -> Side | Failure:
        """What any policy makes of the step; kept for a while."""
        where = self._where(key, name)
        if where not in self._sides:
            self._sides[where] = self._evaluate(key, name)
            if len(self._sides) > CACHED:
                self._sides.popitem(last=False)
        self._sides.move_to_end(where)
        return self._sides[where]

    def known(self, key: str, name: str) -> Side | Failure | None:
        """What :meth:`evaluated` gives, if it is there already."""
        return self._sides.get(self._where(key, name))

    def _where(self, key: str, name: str) -> tuple[object, ...]:
        state = self.state
        return (key, name, state.step, state.gpu, state.cache, *state.plan_arguments().values())

    def _evaluate(self, key: str, name: str) -> Side | Failure:
        title = policy_title(name)
        try:
            plan = plan_decode(self.lengths, policy=self.policy(name), **self.state.plan_arguments())
            return evaluate(key, title, plan, self.cost)
        except WorkbenchError as error:
            return Failure(title, error, key=name if name in self.custom else "")
        except STOPS as error:
            if name not in self.custom:
                raise
            return Failure(title, error, key=name)

    def plan(self, key: str) -> DecodePlan:
        """The plan of A or B.

        Raises
        ------
        WorkbenchError, Exception
            Whatever kept the policy from giving one.
        """
        side = self.side(key)
        if isinstance(side, Failure):
            raise side.error
        return side.plan

    @property
    def sides(self) -> list[Side]:
        """A and B, without a policy that gives no plan."""
        return [side for side in (self.side("A"), self.side("B")) if isinstance(side, Side)]

    @property
    def shown(self) -> Shown:
        """What records are asked for."""
        state = self.state
        return Shown(self.lengths, state.gpu.name, state.cache, state.num_kv_heads, state.q_len)

    @property
    def records_key(self) -> int:
        """Another number whenever the records may have something else to say of the screen."""
        state = self.state
        named = (state.step, state.policy_a, state.policy_b, state.gpu.name, state.cache, state.timeline)
        given = (self.workload, self.timelines.own, self.library.version)
        screen = (*given, *named, *state.plan_arguments().values())
        if screen != self._recorded[0]:
            self._recorded = screen, self._recorded[1] + 1
        return self._recorded[1]

    def measured(self) -> dict[str, Measured]:
        """The timelines that are shown, by side."""
        state = self.state
        candidates = self.timelines.candidates(state.timeline, self.shown)
        return self.timelines.measured(candidates, self.sides, state.gpu.sms) if candidates else {}

    @property
    def selected(self) -> int | None:
        """The highlighted request: the one chosen, or the one that the slower plan waits for."""
        sides = self.sides
        if self.state.selection is not None or not sides:
            return self.state.selection
        return culprit(sides)

    def header(self) -> tuple[str, ...]:
        """Facts of the step for the header and the title of a picture."""
        state, facts = self.state, [self.workload.name]
        if self.workload.steps is not None:
            facts.append(f"step {state.step:,} of {len(self.workload):,}")
        return (*facts, f"{state.gpu.name}, {state.gpu.sms} SMs \u00d7 {text.plural(state.ctas_per_sm, 'CTA')}")

    def scene(self) -> Scene:
        """Everything on screen for the present settings."""
        state = self.state
        a, b = self.side("A"), self.side("B")
        return make_scene(
            a if isinstance(a, Side) else None,
            b if isinstance(b, Side) else None,
            sms=state.gpu.sms,
            view=View(state.order, state.unit, state.scale, state.selection, state.lanes),
            measured=self.measured(),
            header=self.header(),
            titles=(a.title, b.title),
            problems=tuple(side.message if isinstance(side, Failure) else "" for side in (a, b)),  # type: ignore[arg-type]
        )

    def listed(self) -> list[str]:
        """Names of the policies in the list: built-in ones, those in use, the user's."""
        state = self.state
        names = ["hpc-ops", "balanced", "lpt"]
        used = [name for name in (state.policy_a, state.policy_b) if name not in self.custom]
        for base, parameter in (("fixed_splits", state.splits), ("fixed_chunk", state.chunk)):
            mine = [name for name in used if name.startswith(base)]
            names += mine or [f"{base}({parameter})"]
        return [*dict.fromkeys(names), *self.custom]

    def as_code(self) -> str:
        """Python that opens the same view again."""
        state, custom = self.state, self.custom
        if self.workload.preset:
            return as_code(state, self.workload.preset, step=state.step, custom=custom)
        lengths, note = self.lengths, ""
        if self.workload.steps is not None:
            note = f"Step {state.step:,} of {self.workload.steps.label}"
        if lengths.size == 0 or not lengths.all():
            return as_code(state, lengths.tolist(), note=note, step=0, custom=custom)
        return as_code(state, format_lengths(lengths), note=note, step=0, custom=custom)
