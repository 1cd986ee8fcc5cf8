"""A measured timeline as tables and as a trace for Chrome and Perfetto."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from workbench.measure.intervals import lowest_free, union_length
from workbench.measure.timeline import ARRAYS, SOURCE, Timeline
from workbench.schedule import CostModel, perfetto

if TYPE_CHECKING:
    import pandas as pd


def descriptor_table(timeline: Timeline) -> pd.DataFrame:
    """One row a descriptor, in the plan's order: what it was, where it ran, its times in nanoseconds."""
    import pandas as pd

    table = pd.DataFrame(timeline.plan.descriptors)
    for name in ARRAYS:
        table[name] = getattr(timeline, name)
    return table


def cta_table(timeline: Timeline) -> pd.DataFrame:
    """One row a bin that had work, by CTA.

    Columns: ``sm``, ``start_ns``, ``end_ns`` (merges included), ``busy_ns`` (between the two), ``merge_ns`` (waiting
    for pieces and adding them up), ``descriptors``, ``tiles``.
    """
    import pandas as pd

    start, finish = timeline.bins
    merge = np.where(timeline.leader, timeline.merge_end_ns - timeline.merge_start_ns, 0)
    table = pd.DataFrame(
        {
            "sm": timeline.bin_sm,
            "start_ns": start,
            "end_ns": finish,
            "busy_ns": finish - start,
            "merge_ns": timeline.by_bin(merge, np.add),
            "descriptors": np.diff(timeline.plan.bin_offsets),
            "tiles": timeline.plan.bin_tiles,
        },
        index=pd.RangeIndex(timeline.plan.num_bins, name="cta"),
    )
    return table[table["sm"] >= 0]


def sm_table(timeline: Timeline) -> pd.DataFrame:
    """One row an SM that had work, by SM.

    Columns: ``ctas`` (that ran there), ``resident`` (most at once), ``start_ns``, ``end_ns``, ``busy_ns`` (at least one
    CTA there), ``descriptors``, ``tiles``.
    """
    import pandas as pd

    columns = ["ctas", "resident", "start_ns", "end_ns", "busy_ns", "descriptors", "tiles"]
    rows = {}
    for sm, ctas in timeline.by_cta().groupby("sm"):
        start, end = ctas["start_ns"].to_numpy(), ctas["end_ns"].to_numpy()
        resident = int(lowest_free(np.zeros(start.size, np.int32), start, end).max()) + 1
        sums = (int(ctas["descriptors"].sum()), int(ctas["tiles"].sum()))
        rows[sm] = (len(ctas), resident, int(start.min()), int(end.max()), union_length(start, end), *sums)
    table = pd.DataFrame(list(rows.values()), columns=columns, dtype=np.int64)
    table.index = pd.Index(list(rows), name="sm", dtype=np.int64)
    return table


def perfetto_json(timelines: Sequence[Timeline], cost: CostModel | None = None) -> str:
    """A trace of measured calls, a process each, and with ``cost`` what that model predicts behind each."""
    tracks, notes = [], {"source measured": SOURCE}
    for timeline in timelines:
        plan = timeline.plan
        tracks.append(measured_track(timeline, plan.policy, cost))
        if cost is not None:
            tracks.append(perfetto.predicted_track(plan.policy, plan, plan.spans(cost), sms=cost.sms))
            notes["source predicted"] = cost.source
    return perfetto.trace_json(tracks, notes)


def measured_track(timeline: Timeline, title: str, cost: CostModel | None = None) -> perfetto.Track:
    """The measured call as one timeline of a trace: a thread a slot, the merges where they ran.

    Of ``cost`` only the GPU's SMs play a part, in the names of a static grid's threads.
    """
    plan, spans = timeline.plan, timeline.spans(cost)
    slot = spans.slot[plan.cta]
    places = zip(slot.tolist(), plan.cta.tolist(), timeline.sm.tolist(), strict=True)
    if plan.static_grid:
        threads = {s: f"SM {sm}, place {s // spans.cost.sms}" for s, _, sm in places}
    else:
        threads = {s: f"CTA {cta}, SM {sm}" for s, cta, sm in places}
    merges = [
        perfetto.Merge(
            int(slot[i]),
            int(timeline.merge_start_ns[i]),
            int(timeline.merge_end_ns[i]),
            {"request": int(plan.request[i]), "kv_head": int(plan.kv_head[i])},
        )
        for i in np.flatnonzero(timeline.leader).tolist()
    ]
    columns = {
        "streaming_ns": timeline.streamed_ns - timeline.arrived_ns,
        "combining_ns": timeline.combined_ns - timeline.streamed_ns,
    }
    return perfetto.Track(f"{title} (measured)", plan, spans, threads, merges, columns)
