"""The schedule behind a capture: what its plan expected of each CTA, what the stamps saw, and what the counters say.

The timeline is a record of its own in the same folder, for the folder's name stands for provider, policy and
configuration. Where there is none, the plan is made anew from the record's workload.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench import devices
from workbench.errors import InvalidArgument, WorkbenchError
from workbench.measure.busy import ACTIVE, CLOCK, ActiveTime, BusyComparison, comparison_kept
from workbench.measure.timeline import Timeline
from workbench.measure.timeline_records import own_timeline, read_timeline, timelines_beside
from workbench.records import NsightRecord, Store, TimelineRecord, is_alone
from workbench.schedule import CostModel, DecodePlan, cost_model, plan_decode
from workbench.widgets.colours import request_classes
from workbench.widgets.profiles.captures import Capture
from workbench.widgets.profiles.chart import Axis, Chart, Line
from workbench.widgets.profiles.work import ATTENTION, attention_case

MERGE = 255
"""Shade of a merge; all others are colour classes of the request."""

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Lane:
    """Pieces of CTAs, in one unit of time.

    Attributes
    ----------
    title : str
        With where it comes from.
    columns : int
        Places of CTAs.
    column : int32 array [pieces]
    start, foot, end : float32 arrays [pieces]
        Microseconds: begin, first bytes, end.
    shade : uint8 array [pieces]
        Class of the request's colour by length, or `MERGE`.
    """

    title: str
    columns: int
    column: Array
    start: Array
    foot: Array
    end: Array
    shade: Array

    @property
    def span_us(self) -> float:
        """End of the last piece."""
        return float(self.end.max(initial=0))


@dataclass(frozen=True, eq=False)
class Beside:
    """One capture's schedule.

    Attributes
    ----------
    planned, measured : Lane or None
    busy : Chart or None
        Busy time of the SMs by stamps, sorted, with the counters' least, mean and most.
    words : str
        What can be said, or why something is missing.
    """

    planned: Lane | None
    measured: Lane | None
    busy: Chart | None
    words: str


def beside(store: Store, capture: Capture) -> Beside:
    """Plan, stamps and counters of one capture."""
    if capture.record.operator != ATTENTION:
        return Beside(None, None, None, f"{capture.record.operator} has no schedule over CTAs.")
    timeline, problem = _timeline(store, capture)
    cost = _cost(capture)
    try:
        plan = timeline.plan if timeline is not None else _plan(capture, cost)
    except WorkbenchError as error:
        return Beside(None, None, None, f"The plan cannot be made: {error}")
    planned = None if cost is None else _planned(plan, cost)
    words = [problem] if problem else []
    if cost is None:
        words.append(f"No cost model for {capture.gpu}, so nothing is planned in time.")
    if timeline is None:
        words.append('No in-kernel timeline of this configuration is recorded; metrics="schedule" takes one.')
        return Beside(planned, None, None, " ".join(words))
    counted, note = _counted(capture, timeline)
    words.append(note)
    return Beside(planned, _measured(timeline, cost), busy_chart(timeline, counted, capture), " ".join(words))


def timelines_of(store: Store, capture: Capture) -> tuple[list[tuple[Path, TimelineRecord]], list[str]]:
    """Timelines of a capture's workload and configuration that a store has, and what is wrong with others there."""
    folder = Path(*capture.path.parts[-5:-1])  # GPU, operator, case, configuration
    files = [path for root in store.roots for path in sorted((root / folder).glob("timeline-*.json"))]
    return timelines_beside(store, files, capture.record)


def _timeline(store: Store, capture: Capture) -> tuple[Timeline | None, str]:
    """The timeline of the capture's own launch, or else the newest of a launch alone, or else of calls.

    Also what is wrong with it, or with those that cannot be read.
    """
    (beside, problems), digest = timelines_of(store, capture), capture.record.source_digest
    found = own_timeline(store, beside, capture.record)
    rest = sorted(beside, key=lambda one: (is_alone(one[1].method), one[1].environment.date), reverse=True)
    for path, _ in rest if found is None else []:
        try:
            found = path, *read_timeline(store, path)
            break
        except WorkbenchError as error:
            problems.append(str(error))
    said = f"A timeline was skipped: {problems[0]}" if problems else ""
    return (None, said) if found is None else (found[2], said or _doubt(found[1], digest))


def _compared(capture: Capture, timeline: Timeline) -> BusyComparison | None:
    """The record's comparison of counters and stamps, where it is of this timeline."""
    said = capture.record.agreement if isinstance(capture.record, NsightRecord) else {}
    return comparison_kept(said, timeline, sms=capture.record.environment.sms)


def _doubt(document: TimelineRecord, digest: str | None) -> str:
    same = document.source_digest == digest
    return "" if same else "The timeline is of other kernel sources than the counters."


def _cost(capture: Capture) -> CostModel | None:
    case = attention_case(capture.record.workload)
    if case is None:
        return None
    try:
        gpu = devices.gpu(capture.gpu)
        return cost_model(gpu, cache=case.cache, group=case.group, head_dim=case.head_dim)
    except InvalidArgument:  # a GPU or a shape that no model is for
        return None


def _plan(capture: Capture, cost: CostModel | None) -> DecodePlan:
    record = capture.record
    case, sms = attention_case(record.workload), record.environment.sms
    per_sm, tile = record.configuration.get("ctas_per_sm"), record.configuration.get("tile", 64)
    if case is None:
        raise InvalidArgument("the record does not describe the KV lengths and the shape.")
    if sms is None or type(per_sm) is not int or type(tile) is not int:
        raise InvalidArgument("the record does not say the SMs, the CTAs an SM and the tile.")
    return plan_decode(
        case.lengths,
        num_kv_heads=case.kv_heads,
        num_ctas=sms * per_sm,
        policy=capture.policy or "balanced",
        tile=tile,
        q_len=case.q_len,
        cost=cost,
    )


def _classes(plan: DecodePlan) -> Array:
    return request_classes(plan.lengths, None, hues=False)[0][plan.request]


def _planned(plan: DecodePlan, cost: CostModel) -> Lane:
    spans = plan.spans(cost)
    start, foot, end = (
        array.astype(np.float32) / np.float32(1e3)
        for array in (spans.start_ns, spans.start_ns + spans.foot_ns, spans.end_ns)
    )
    title = f"planned ({cost.source.partition(':')[0]})"
    return Lane(title, plan.num_ctas, spans.slot[plan.cta].astype(np.int32), start, foot, end, _classes(plan))


def _measured(timeline: Timeline, cost: CostModel | None) -> Lane:
    plan = timeline.plan
    slot = timeline.spans(cost).slot
    column, shade = slot[plan.cta].astype(np.int32), _classes(plan)
    merged = timeline.merge_start_ns >= 0
    start, foot, end = (
        np.concatenate([pieces, merges[merged]]).astype(np.float32) / np.float32(1e3)
        for pieces, merges in (
            (timeline.start_ns, timeline.merge_start_ns),
            (timeline.arrived_ns, timeline.merge_start_ns),
            (timeline.end_ns, timeline.merge_end_ns),
        )
    )
    columns = max(plan.num_ctas, int(slot.max(initial=0)) + 1)
    merge = np.full(int(merged.sum()), MERGE, np.uint8)
    return Lane(
        "measured (stamps of one call)", columns, np.concatenate([column, column[merged]]), start, foot, end,
        np.concatenate([shade, merge]),
    )  # fmt: skip


def _counted(capture: Capture, timeline: Timeline) -> tuple[ActiveTime | None, str]:
    """Active time of the SMs by counters, and whether it is the stamps'."""
    record = capture.record
    if not isinstance(record, NsightRecord):
        return None, "Reduced record: there are no counters to set beside the stamps."
    if (compared := _compared(capture, timeline)) is not None:
        return compared.counted, compared.verdict
    clock = capture.readings.get(CLOCK)
    cycles = [capture.readings.get(name) for name in ACTIVE]
    if clock is None or clock.unit != "cycle/second" or clock.value <= 0 or any(one is None for one in cycles):
        return None, "The counters are cycles without their clock; the set schedule counts both."
    active = ActiveTime(*(one.value / clock.value * 1e9 for one in cycles if one is not None))
    return active, "Counters are of the plain kernel, stamps of the instrumented one: two launches."


def busy_chart(timeline: Timeline, counted: ActiveTime | None, capture: Capture) -> Chart:
    """Busy time of each SM by stamps, most first, and what the counters know: least, mean, most."""
    table = timeline.by_sm()["busy_ns"].to_numpy(np.float64)
    sms = max(capture.record.environment.sms or 0, table.size)
    busy = np.zeros(sms)
    busy[: table.size] = np.sort(table)[::-1]
    guides = [] if counted is None else [
        (counted.most_ns, "most"), (counted.mean_ns, "mean"), (counted.least_ns, "least")
    ]  # fmt: skip
    y = Axis.around([0.0, *busy.tolist(), *(value for value, _ in guides)], zero=True)
    steps = [((at + edge) / sms, y.share(float(value))) for at, value in enumerate(busy) for edge in (0, 1)]
    lines = [Line(tuple(steps), "series", 0)]
    lines += [
        Line(((0.0, y.inside(value)), (1.0, y.inside(value))), "guide", label=f"{name} {value / 1e3:.1f}")
        for value, name in guides
    ]
    ends = ((0.0, "1"), (1.0, str(sms)))
    return Chart("Busy time of the SMs", "SMs, busiest first", "\u00b5s", ends, y.ticks(1e3, 3), tuple(lines))


def settings_of(capture: Capture) -> dict[str, Any]:
    """Settings with which the schedule explorer shows a capture's plan.

    Raises
    ------
    InvalidArgument
        The record does not say enough, or is of another operator.
    """
    record = capture.record
    case = attention_case(record.workload) if record.operator == ATTENTION else None
    if case is None:
        raise InvalidArgument(f"{capture.key} is no capture of {ATTENTION} with its lengths and shape.")
    settings = {
        "workload": case.lengths,
        "gpu": devices.gpu(capture.gpu),
        "policy_a": capture.policy or "balanced",
        "num_kv_heads": case.kv_heads,
        "q_len": case.q_len,
        "cache": case.cache,
    }
    numbers = {name: record.configuration.get(name) for name in ("ctas_per_sm", "tile")}
    return settings | {name: value for name, value in numbers.items() if type(value) is int}
