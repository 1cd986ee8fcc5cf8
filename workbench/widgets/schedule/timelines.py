"""Which timeline is shown: none, the recorded ones of the plans on screen, or one that was given in Python."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench import devices
from workbench.errors import InvalidArgument
from workbench.measure.timeline import Timeline
from workbench.schedule import resolve
from workbench.widgets.schedule.measured import Measured, difference, lay_beside
from workbench.widgets.schedule.recorded import MARKS, Library, Shown
from workbench.widgets.schedule.side import Side

NONE, RECORDED, GIVEN = "none", "recorded", "given"
"""Values of the setting ``timeline``; besides them the name of one record."""

KEPT = 8
"""Timelines kept laid beside a plan."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A timeline that may be shown.

    Attributes
    ----------
    name : str
        Value of the setting that shows this one.
    timeline : Timeline
    source, date : str
        Where it comes from, its mark first; the ISO day, "" where it is not known.
    alone : bool
        It is of one launch by itself on cold caches, as captures make it.
    """

    name: str
    timeline: Timeline
    source: str
    date: str = ""
    alone: bool = False

    @property
    def policy(self) -> str:
        """Name of the policy that it was captured under."""
        return self.timeline.plan.policy


def given(timeline: Timeline) -> Candidate:
    """A timeline from Python. It does not say which GPU it is of, so neither does the screen."""
    return Candidate(GIVEN, timeline, f"{MARKS['given']} measured (timeline given)")


def recorded(library: Library, shown: Shown) -> tuple[Candidate, ...]:
    """The timelines that records hold for the work on screen, newest first; those of launches alone come last."""
    found = [Candidate(*entry) for entry in library.timelines(shown)]
    return tuple(sorted(found, key=lambda candidate: (not candidate.alone, candidate.date), reverse=True))


def fitting(candidates: Sequence[Candidate], side: Side, sms: int) -> list[Candidate]:
    """Those that are of a side's plan, in their order; those of its policy before those of one that plans the same."""
    found = [candidate for candidate in candidates if not difference(candidate.timeline, side.plan, sms=sms)]
    return sorted(found, key=lambda candidate: candidate.policy != side.plan.policy)


def check_given(timeline: object, sides: Sequence[Side], gpu: devices.Gpu) -> Timeline:
    """A timeline that is of one of the plans on screen.

    Raises
    ------
    InvalidArgument
        It is no timeline, or of other plans; the message says what differs and what to set.
    """
    if not isinstance(timeline, Timeline):
        raise InvalidArgument(
            f"timeline is {_short(timeline)}. Give a Timeline, 'recorded', or None; "
            "workbench.measure.timeline.Timeline.from_npz reads one from a file."
        )
    reasons = [f"{side.key}: {difference(timeline, side.plan, sms=gpu.sms)}" for side in sides]
    if all(reason[3:] for reason in reasons):
        raise InvalidArgument(
            f"the timeline is of no plan on screen. {'; '.join(reasons) or 'There is none.'}. {_remedy(timeline, gpu)}"
        )
    return timeline


def _remedy(timeline: Timeline, gpu: devices.Gpu) -> str:
    """How to get the timeline's own plan on screen."""
    plan = timeline.plan
    if timeline.sm.size and int(timeline.sm.max()) >= gpu.sms:
        return "Choose the GPU that it was captured on."
    if plan.num_ctas % gpu.sms:
        return f"Its {plan.num_ctas:,} CTAs are not a whole number for each of {gpu.sms} SMs: it is of another GPU."
    words = ", ".join(f"{name}={value!r}" for name, value in settings_of(timeline, gpu).items())
    return f"Set explorer.change(workload=timeline.plan.lengths, {words}) first."


def settings_of(timeline: Timeline, gpu: devices.Gpu) -> dict[str, Any]:
    """Settings that give a timeline's plan, but for the workload; without a policy that is the user's own."""
    plan = timeline.plan
    settings: dict[str, Any] = {
        "ctas_per_sm": plan.num_ctas // gpu.sms,
        "tile": plan.tile,
        "min_process_len": plan.min_process_len,
        "num_kv_heads": plan.num_kv_heads,
        "q_len": plan.q_len,
    }
    try:
        settings["policy_a"] = resolve(plan.policy).name
    except InvalidArgument:
        return settings
    return settings


def _short(value: object) -> str:
    words = repr(value)
    return words if len(words) <= 60 else words[:59] + "\u2026"


class Timelines:
    """The timelines of one explorer: what was given, what is recorded, and those laid beside the plans on screen.

    Parameters
    ----------
    library
        Records to look in.

    Attributes
    ----------
    own : Timeline or None
        The one given in Python.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.own: Timeline | None = None
        self._laid: OrderedDict[tuple[Side, Timeline], Measured] = OrderedDict()

    def choose(self, timeline: object, sides: Sequence[Side], shown: Shown, gpu: devices.Gpu) -> None:
        """Check what was asked for against the plans that are on screen, and keep what was given.

        Raises
        ------
        InvalidArgument
            It is of no plan on screen, or no such record.
        """
        if timeline is not None and not isinstance(timeline, str):
            self.own = check_given(timeline, sides, gpu)
        elif timeline == GIVEN and self.own is None:
            raise InvalidArgument("timeline is 'given', but none was. Set explorer.timeline to a Timeline.")
        elif timeline not in (None, NONE, RECORDED, GIVEN):
            names = [candidate.name for candidate in self.candidates(RECORDED, shown)]
            if timeline not in names:
                known = ", ".join(map(repr, (NONE, RECORDED, *names)))
                raise InvalidArgument(f"timeline is {timeline!r}. Give a Timeline, None, or one of {known}.")

    def candidates(self, choice: str, shown: Shown) -> tuple[Candidate, ...]:
        """Those that the choice allows, best first."""
        if choice == NONE:
            return ()
        if choice == GIVEN:
            return (given(self.own),) if self.own is not None else ()
        found = recorded(self.library, shown)
        return found if choice == RECORDED else tuple(c for c in found if c.name == choice)

    def measured(self, candidates: Sequence[Candidate], sides: Sequence[Side], sms: int) -> dict[str, Measured]:
        """The first candidate that fits each side, laid beside its plan, by the side's key."""
        found = {}
        for side in sides:
            for candidate in fitting(candidates, side, sms)[:1]:
                found[side.key] = self._lay(candidate, side, sms)
        return found

    def _lay(self, candidate: Candidate, side: Side, sms: int) -> Measured:
        where = (side, candidate.timeline)
        if where not in self._laid:
            self._laid[where] = lay_beside(candidate.timeline, side, sms=sms, source=candidate.source)
            if len(self._laid) > KEPT:
                self._laid.popitem(last=False)
        return self._laid[where]
