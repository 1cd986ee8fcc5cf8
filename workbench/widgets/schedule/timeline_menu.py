"""The choice of a timeline: what can be shown, why nothing is, and which settings would show something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.widgets import text
from workbench.widgets.schedule.measured import difference
from workbench.widgets.schedule.offers import Offer
from workbench.widgets.schedule.side import policy_title
from workbench.widgets.schedule.timelines import GIVEN, NONE, RECORDED, Candidate, fitting, settings_of

if TYPE_CHECKING:
    from workbench.widgets.schedule.session import Session


@dataclass(frozen=True)
class TimelineMenu:
    """What the control shows.

    Attributes
    ----------
    options : tuple of (str, str)
        Values of the setting ``timeline`` and their words.
    note : str
        Why nothing is shown although something was chosen, or what there is for other settings; "" otherwise.
    offers : tuple of Offer
        Settings under which a recorded timeline can be shown.
    """

    options: tuple[tuple[str, str], ...]
    note: str
    offers: tuple[Offer, ...]


def timeline_menu(session: Session) -> TimelineMenu:
    """The control for the screen as it is."""
    state, timelines = session.state, session.timelines
    found = timelines.candidates(RECORDED, session.shown)
    fits = {side.key: fitting(found, side, state.gpu.sms) for side in session.sides}
    options = [(NONE, "none")]
    if any(fits.values()):
        options.append((RECORDED, "recorded, " + " and ".join(key for key, mine in fits.items() if mine)))
        if any(len(mine) > 1 for mine in fits.values()):
            options += _each(found, fits)
    if timelines.own is not None:
        options.append((GIVEN, f"given, {policy_title(timelines.own.plan.policy)}"))
    if state.timeline not in dict(options):
        options.append((state.timeline, "recorded" if state.timeline == RECORDED else "another record"))
    chosen = timelines.candidates(state.timeline, session.shown)
    note = _note(session, chosen, found)
    shown = any(fits.values()) or (state.timeline == GIVEN and not note)
    return TimelineMenu(tuple(dict(options).items()), note, () if shown else _offers(session, found, chosen))


def _each(found: Sequence[Candidate], fits: Mapping[str, Sequence[Candidate]]) -> list[tuple[str, str]]:
    """Each record that can be shown, one by one: over which plans, under which policy it was captured, and when."""
    sides = {one.name: " and ".join(key for key, mine in fits.items() if one in mine) for one in found}
    words = {
        one.name: f"{sides[one.name]}, {policy_title(one.policy)}, {one.date}{', alone' if one.alone else ''}"
        for one in found
        if sides[one.name]
    }
    same = {line: [name for name in words if words[name] == line] for line in words.values()}
    return [
        (name, line if len(same[line]) == 1 else f"{line}, {same[line].index(name) + 1} of {len(same[line])}")
        for name, line in words.items()
    ]


def _note(session: Session, chosen: Sequence[Candidate], found: Sequence[Candidate]) -> str:
    sides, sms, choice = session.sides, session.state.gpu.sms, session.state.timeline
    if any(fitting(chosen, side, sms) for side in sides):
        return ""
    if choice == NONE:
        fits = any(fitting(found, side, sms) for side in sides)
        return "Recorded for other settings:" if found and not fits else ""
    if not chosen:
        return "No timeline of this workload is recorded."
    if not sides:
        return "There is no plan to lay it beside."
    nearest = min(chosen, key=lambda candidate: candidate.policy != sides[0].plan.policy)  # of these, the newest
    return f"Not shown ({policy_title(nearest.policy)}): {difference(nearest.timeline, sides[0].plan, sms=sms)}."


def _offers(session: Session, found: Sequence[Candidate], chosen: Sequence[Candidate]) -> tuple[Offer, ...]:
    """Settings that give the plans of the timelines, each plan once: of policies on screen first, then by name."""
    gpu, offers = session.state.gpu, {}
    on_screen = [session.state.policy_a, session.state.policy_b]

    def order(candidate: Candidate) -> tuple[bool, int, str, int]:
        place = [*on_screen, candidate.policy].index(candidate.policy)
        name, _, number = candidate.policy.removesuffix(")").partition("(")
        return candidate.name != GIVEN, place, name, int(number) if number.isdecimal() else 0

    for candidate in sorted((*chosen, *found), key=order):
        plan = candidate.timeline.plan
        if plan.num_ctas % gpu.sms == 0 and plan.lengths.tolist() == session.lengths.tolist():
            label = f"{policy_title(plan.policy)}, {text.plural(plan.num_ctas // gpu.sms, 'CTA')} an SM"
            choice = GIVEN if candidate.name == GIVEN else RECORDED
            offers[label] = Offer(label, settings_of(candidate.timeline, gpu) | {"timeline": choice})
    return tuple(offers.values())
