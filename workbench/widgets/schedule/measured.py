"""A measured timeline beside the plan that it is of: its stages as pieces to draw, and what differs from the model."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from workbench.measure.intervals import union_length
from workbench.measure.timeline import Timeline
from workbench.schedule import DecodePlan
from workbench.widgets.colours import STAGE_TONES
from workbench.widgets.schedule.side import Side

STAGES = tuple(STAGE_TONES)
"""What a CTA does with a descriptor: reads and computes, waits for its first bytes, combines its warps, merges."""

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pieces:
    """Stages as intervals, in time order within a slot.

    Attributes
    ----------
    slot, descriptor : int64 arrays [pieces]
    stage : uint8 array [pieces]
        Index into :data:`STAGES`.
    start_us, end_us : float64 arrays [pieces]
    """

    slot: Times = field(repr=False)
    descriptor: Times = field(repr=False)
    stage: npt.NDArray[np.uint8] = field(repr=False)
    start_us: npt.NDArray[np.float64] = field(repr=False)
    end_us: npt.NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Measured:
    """A timeline laid beside one side's plan.

    Attributes
    ----------
    timeline : Timeline
    source : str
        Where it comes from, in words, its mark first.
    pieces : Pieces
    slot : int64 array [num_descriptors]
        Place of each descriptor.
    slots : int
        Places needed: at least the plan's resident CTAs.
    slot_sm : int32 array [slots]
        SM of each slot, from the stamps; a slot without stamps is assumed to be on SM ``slot mod sms``.
    residual_us : float64 array [slots]
        Measured minus modelled end of the slot's last bin, merges left out; NaN where nothing ran.
    residual_rms_us : float
        Root of the mean square of the bins' residuals.
    stage_us : dict of str to float
        Mean time of a resident CTA in each of :data:`STAGES`.
    idle_us : float
        Mean time of a resident CTA until the makespan that is in none of them.
    makespan_us, modelled_us : float
    busy_us : tuple of float
        Least, mean and most time that an SM is busy, over all SMs.
    """

    timeline: Timeline
    source: str
    pieces: Pieces = field(repr=False)
    slot: Times = field(repr=False)
    slots: int
    slot_sm: npt.NDArray[np.int32] = field(repr=False)
    residual_us: npt.NDArray[np.float64] = field(repr=False)
    residual_rms_us: float
    stage_us: dict[str, float]
    idle_us: float
    makespan_us: float
    modelled_us: float
    busy_us: tuple[float, float, float]

    @property
    def imbalance(self) -> float:
        """``1 - mean / most`` of the SMs' busy times."""
        _, mean, most = self.busy_us
        return 1 - mean / most if most else 0.0


def lay_beside(timeline: Timeline, side: Side, *, sms: int, source: str) -> Measured:
    """Lay a timeline beside the plan that it is of.

    Parameters
    ----------
    timeline
        Of ``side.plan``; see :func:`difference`.
    side
        The evaluated plan.
    sms
        Streaming multiprocessors of the GPU.
    source
        Where the timeline comes from.
    """
    plan, cost = side.plan, side.spans.cost
    spans, residuals = timeline.spans(cost), timeline.residuals(cost)
    slot = spans.slot[plan.cta].astype(np.int64)
    pieces = _pieces(timeline, slot)
    slots = max(side.columns, int(spans.slot.max(initial=0)) + 1)
    slot_sm = (np.arange(slots) % sms).astype(np.int32)
    ran = np.flatnonzero(timeline.bin_sm >= 0)
    slot_sm[spans.slot[ran]] = timeline.bin_sm[ran]
    residual = np.full(slots, np.nan)
    in_order = ran[np.argsort(spans.bin_end_ns[ran], kind="stable")]  # the last bin of a slot is written last
    residual[spans.slot[in_order]] = residuals.bin_end_ns[in_order] / 1e3

    lengths = pieces.end_us - pieces.start_us
    stage = np.bincount(pieces.stage, weights=lengths, minlength=len(STAGES)) / side.columns
    busy = _busy_us(timeline, sms)
    bins = residuals.bin_end_ns[ran] / 1e3
    return Measured(
        timeline=timeline,
        source=source,
        pieces=pieces,
        slot=slot,
        slots=slots,
        slot_sm=slot_sm,
        residual_us=residual,
        residual_rms_us=float(np.sqrt(np.mean(bins**2))) if bins.size else 0.0,
        stage_us=dict(zip(STAGES, stage.tolist(), strict=True)),
        idle_us=timeline.makespan_us - float(stage.sum()),
        makespan_us=timeline.makespan_us,
        modelled_us=side.metrics.makespan_us,
        busy_us=(float(busy.min()), float(busy.mean()), float(busy.max())),
    )


def _busy_us(timeline: Timeline, sms: int) -> npt.NDArray[np.float64]:
    """Time that each SM is busy with at least one CTA, float64 [sms]; what ``by_sm`` tells, but many times as fast."""
    order = np.argsort(timeline.bin_sm, kind="stable")
    edges = np.searchsorted(timeline.bin_sm[order], np.arange(sms + 1))
    start, finish = (values[order] for values in timeline.bins)
    return np.array([union_length(start[low:high], finish[low:high]) / 1e3 for low, high in itertools.pairwise(edges)])


def _pieces(timeline: Timeline, slot: Times) -> Pieces:
    """The stages of every descriptor that last any time."""
    t = timeline
    intervals = {
        "waiting": (t.start_ns, t.arrived_ns),
        "streaming": (t.arrived_ns, t.streamed_ns),
        "combining": (t.streamed_ns, t.end_ns),
        "merge": (t.merge_start_ns, t.merge_end_ns),  # both -1 where there is none
    }
    low, high = (np.concatenate([intervals[stage][edge] for stage in STAGES]) for edge in (0, 1))
    stage = np.repeat(np.arange(len(STAGES), dtype=np.uint8), slot.size)
    descriptor = np.tile(np.arange(slot.size), len(STAGES))
    lasting = np.flatnonzero(high > low)
    kept = lasting[np.lexsort((low[lasting], slot[descriptor[lasting]]))]
    return Pieces(slot[descriptor[kept]], descriptor[kept], stage[kept], low[kept] / 1e3, high[kept] / 1e3)


def difference(timeline: Timeline, plan: DecodePlan, *, sms: int) -> str:
    """Why a timeline is not of a plan on a GPU with so many SMs, in words; "" where it is."""
    own = timeline.plan
    names = {"num_ctas": "CTAs", "tile": "tokens a tile", "num_kv_heads": "KV heads", "q_len": "query tokens"}
    for name, words in names.items():
        if getattr(own, name) != getattr(plan, name):
            return f"it has {getattr(own, name):,} {words}, the plan {getattr(plan, name):,}"
    if not np.array_equal(own.lengths, plan.lengths):
        if own.lengths.size != plan.lengths.size:
            return f"it is of {own.lengths.size:,} requests, the plan of {plan.lengths.size:,}"
        at = int(np.argmax(own.lengths != plan.lengths))
        return f"its request {at} has {own.lengths[at]:,} tokens, the plan's {plan.lengths[at]:,}"
    for name in ("bin_offsets", "kv_head", "request", "first_tile", "num_tiles"):
        if not np.array_equal(getattr(own, name), getattr(plan, name)):
            return f"its CTAs read other tiles: it is of {own.policy}, the plan of {plan.policy}"
    if timeline.sm.size and int(timeline.sm.max()) >= sms:
        return f"it ran on SM {int(timeline.sm.max())}, the GPU on screen has {sms}"
    return ""
