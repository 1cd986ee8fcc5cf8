"""One plan in numbers: exact counts, and times by the cost model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from workbench.schedule.costs import CACHE_BYTES, CostModel, given_or_default
from workbench.schedule.plan import DecodePlan
from workbench.schedule.timing import Spans, place

LATE_SHARE = 0.02
"""CTAs that end within this share of the last bin's end count as finishing last."""


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Summary of a plan. Counts and bytes are exact; times (``*_us``, microseconds) and shares of time are modelled.

    ``call_us = launch_us + stream_us + fixed_us + waiting_us + merge_us``: a call's time as the mean slot spends it.
    A slot is one of the ``num_ctas`` resident places; in a persistent plan it is the CTA itself. Where the memory
    system decides, a slot's parts are stretched as its spans are (:func:`workbench.schedule.timing.place`).

    Attributes
    ----------
    policy : str
    num_ctas, num_bins, waves : int
        Resident CTAs, bins (CTAs of the grid), and waves of the grid.
    tiles, descriptors : int
        In all bins.
    used_ctas, empty_ctas : int
        Bins with and without work.
    idle_ctas : int
        Slots with no tile to read.
    max_tiles : int
        Tiles of the fullest slot.
    mean_tiles, max_over_mean : float
        Tiles a slot on average, and the fullest slot over that (0 for an empty batch).
    max_descriptors : int
        Most descriptors of one bin.
    max_chunks, split_requests : int
        Pieces of the most split (KV head, request), and how many of them have more than one piece.
    mean_chunks : float
        Pieces of a non-empty (KV head, request).
    kv_bytes, partial_bytes, merge_bytes : int
        KV cache read; FP32 partial results written; read again and written by the merges.
    launch_us, bins_us, merge_us : float
        Launch; end of the last bin; from there to the end of the last merge.
    makespan_us, call_us : float
        ``bins_us + merge_us``; with the launch.
    stream_us, fixed_us, mean_us, waiting_us : float
        Mean over slots of time reading tiles, of fixed costs, their sum, and of waiting for the last bin.
    idle_fraction : float
        ``waiting_us / bins_us``.
    bound_us : float
        No plan of these tiles on these slots has a shorter makespan under the model.
    efficiency : float
        ``bound_us / makespan_us`` (1 for an empty batch).
    last_ctas : int
        Bins that end within 2 % of the last one.
    culprit_request : int or None
        The request whose descriptor ends last (the longest such request).
    source : str
        Where the times come from.
    """

    policy: str
    num_ctas: int
    num_bins: int
    waves: int
    tiles: int
    descriptors: int
    used_ctas: int
    empty_ctas: int
    idle_ctas: int
    max_tiles: int
    mean_tiles: float
    max_over_mean: float
    max_descriptors: int
    max_chunks: int
    mean_chunks: float
    split_requests: int
    kv_bytes: int
    partial_bytes: int
    merge_bytes: int
    launch_us: float
    bins_us: float
    merge_us: float
    makespan_us: float
    call_us: float
    stream_us: float
    fixed_us: float
    mean_us: float
    waiting_us: float
    idle_fraction: float
    bound_us: float
    efficiency: float
    last_ctas: int
    culprit_request: int | None
    source: str

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain data."""
        return asdict(self)


def bound_ns(plan: DecodePlan, cost: CostModel) -> int:
    """Least makespan of any plan of these tiles on these slots, under the model.

    Some bin holds at least ``ceil(tiles / num_ctas)`` tiles, which one CTA must read, and all tiles must pass the
    memory system; either way at least one descriptor is opened.
    """
    total = plan.problem.total_tiles
    if total == 0:
        return 0
    alone = cost.pace(total, plan.tile, plan.num_ctas).reading_ns(-(-total // plan.num_ctas))
    return max(int(alone), cost.stream_ns(total, plan.tile)) + cost.constants.descriptor_ns


def summarise(plan: DecodePlan, cost: CostModel | None = None, spans: Spans | None = None) -> Metrics:
    """Compute :class:`Metrics`; ``spans`` may be given where they are known already."""
    cost = given_or_default(cost or (spans.cost if spans else None))
    spans = spans or place(plan, cost)
    slots = plan.num_ctas
    per_slot = np.bincount(spans.slot, weights=plan.bin_tiles, minlength=slots)
    total, most = int(plan.bin_tiles.sum()), int(per_slot.max(initial=0))
    counts = plan.chunk_counts
    split = int(np.count_nonzero(counts > 1))
    pieces = int(counts[counts > 1].sum())
    rows = cost.group * plan.q_len
    partial = pieces * cost.partial_bytes(plan.q_len)
    bins, merge, launch = spans.bins_ns, spans.merge_ns, cost.constants.launch_ns
    busy, stream = spans.busy_ns, spans.reading_ns
    bound = bound_ns(plan, cost)
    late = np.count_nonzero(spans.bin_end_ns >= (1 - LATE_SHARE) * bins) if bins else 0
    return Metrics(
        policy=plan.policy,
        num_ctas=slots,
        num_bins=plan.num_bins,
        waves=plan.waves,
        tiles=total,
        descriptors=plan.num_descriptors,
        used_ctas=int(np.count_nonzero(plan.bin_tiles)),
        empty_ctas=int(np.count_nonzero(plan.bin_tiles == 0)),
        idle_ctas=int(np.count_nonzero(per_slot == 0)),
        max_tiles=most,
        mean_tiles=total / slots,
        max_over_mean=most * slots / total if total else 0.0,
        max_descriptors=int(np.diff(plan.bin_offsets).max(initial=0)),
        max_chunks=int(counts.max(initial=0)),
        mean_chunks=plan.num_descriptors / max(int(np.count_nonzero(counts)), 1),
        split_requests=split,
        kv_bytes=int(plan.lengths.sum()) * plan.num_kv_heads * cost.head_dim * 2 * CACHE_BYTES[cost.cache],
        partial_bytes=partial,
        merge_bytes=partial + split * rows * cost.head_dim * 2,
        launch_us=launch / 1e3,
        bins_us=bins / 1e3,
        merge_us=merge / 1e3,
        makespan_us=(bins + merge) / 1e3,
        call_us=(launch + bins + merge) / 1e3,
        stream_us=stream / slots / 1e3,
        fixed_us=(busy - stream) / slots / 1e3,
        mean_us=busy / slots / 1e3,
        waiting_us=(bins - busy / slots) / 1e3,
        idle_fraction=1 - busy / (slots * bins) if bins else 0.0,
        bound_us=bound / 1e3,
        efficiency=bound / (bins + merge) if bins else 1.0,
        last_ctas=int(late),
        culprit_request=_culprit(plan, spans),
        source=cost.source,
    )


def _culprit(plan: DecodePlan, spans: Spans) -> int | None:
    if plan.num_descriptors == 0:
        return None
    last = plan.request[spans.end_ns == spans.end_ns.max()]
    return int(last[np.argmax(plan.lengths[last])])
