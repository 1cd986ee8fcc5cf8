"""When each descriptor of one attention call ran and where, as the instrumented kernel stamped it.

The build with ``TIMELINE=1`` writes a row of stamps for every descriptor (:mod:`workbench.measure.stamps`). Thread 0 of
a CTA takes them, with ``%globaltimer``, which all SMs share and which steps 32 ns on an H200:

    start      the CTA begins, after what it depends on has ended; a later descriptor: the one before has ended
    arrived    the queries and the first slab of the first warp are in shared memory
    streamed   the first warp has used its last slab
    combined   the warps' results are combined and stored
    end        the CTA goes on, to its next descriptor or to what it has to merge
    merge      of a descriptor that leads, once the bin is done: waiting for the other pieces, adding them up

Where the query rows need several passes over the keys, ``arrived``, ``streamed`` and ``combined`` are the last pass's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidPlan, RecordError, TimelineError
from workbench.measure.intervals import lowest_free
from workbench.measure.stamps import check, read_stamps
from workbench.records import pack_arrays, unpack_arrays
from workbench.schedule import CostModel, DecodePlan, Spans
from workbench.schedule.costs import given_or_default

if TYPE_CHECKING:
    import os

    import pandas as pd

Times = npt.NDArray[np.int64]

SOURCE = "measured: stamps of one call"

ARRAYS = (
    "start_ns", "arrived_ns", "streamed_ns", "combined_ns", "end_ns", "merge_start_ns", "merge_end_ns", "sm", "leader",
)  # fmt: skip
"""Arrays of a timeline, one value a descriptor each."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """Measured minus modelled times, nanoseconds; both axes begin where the first CTA does.

    Attributes
    ----------
    start_ns, end_ns, duration_ns : int64 arrays [num_descriptors]
    bin_end_ns : int64 array [num_bins]
        0 for a bin with nothing to do, which leaves no stamp.
    bins_ns, merge_ns, makespan_ns : int
        End of the last bin; from there to the end of the last merge; both together.
    source : str
        Where the model's constants come from.
    """

    start_ns: Times = field(repr=False)
    end_ns: Times = field(repr=False)
    duration_ns: Times = field(repr=False)
    bin_end_ns: Times = field(repr=False)
    bins_ns: int
    merge_ns: int
    makespan_ns: int
    source: str


@dataclass(frozen=True, eq=False)
class Timeline:
    """Measured times of one call, nanoseconds from its first stamp.

    Attributes
    ----------
    plan : DecodePlan
        What ran; the arrays are in its order.
    start_ns, arrived_ns, streamed_ns, combined_ns, end_ns : int64 arrays [num_descriptors]
    merge_start_ns, merge_end_ns : int64 arrays [num_descriptors]
        -1 where a descriptor merges nothing.
    sm : int32 array [num_descriptors]
        The SM that the descriptor ran on.
    leader : bool array [num_descriptors]
        Whether it merges the pieces of its group.

    Raises
    ------
    TimelineError
        The times contradict each other or the plan.
    """

    plan: DecodePlan
    start_ns: Times = field(repr=False)
    arrived_ns: Times = field(repr=False)
    streamed_ns: Times = field(repr=False)
    combined_ns: Times = field(repr=False)
    end_ns: Times = field(repr=False)
    merge_start_ns: Times = field(repr=False)
    merge_end_ns: Times = field(repr=False)
    sm: npt.NDArray[np.int32] = field(repr=False)
    leader: npt.NDArray[np.bool_] = field(repr=False)

    def __post_init__(self) -> None:
        for name in ARRAYS:
            kind = {"sm": np.int32, "leader": np.bool_}.get(name, np.int64)
            given = np.asarray(getattr(self, name))
            if given.shape != (self.plan.num_descriptors,):
                raise TimelineError(
                    f"{name} has shape {given.shape}; the plan has {self.plan.num_descriptors:,} descriptors. "
                    "Give one value a descriptor."
                )
            values: npt.NDArray[Any] = given.astype(kind)  # a copy: nobody else can change it
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        check(self)

    @classmethod
    def from_stamps(cls, plan: DecodePlan, stamps: npt.ArrayLike) -> Timeline:
        """A timeline from what the kernel wrote.

        Parameters
        ----------
        plan : DecodePlan
        stamps : 64-bit integers [num_descriptors, 10]
            A row a descriptor, in the plan's order, of :data:`workbench.measure.stamps.COLUMNS`; all zero where the
            kernel wrote nothing.

        Raises
        ------
        TimelineError
            A row is missing, was written by another CTA, or runs backwards.
        """
        return cls(plan, **read_stamps(plan, stamps))

    @property
    def bins_ns(self) -> int:
        """End of the last bin, merges left out."""
        return int(self.end_ns.max(initial=0))

    @property
    def makespan_ns(self) -> int:
        """End of the last bin or merge."""
        return max(self.bins_ns, int(self.merge_end_ns.max(initial=0)))

    @property
    def makespan_us(self) -> float:
        """The same in microseconds."""
        return self.makespan_ns / 1e3

    @cached_property
    def finish_ns(self) -> Times:
        """When the CTA is done with each descriptor, its merge included, int64 [num_descriptors]."""
        return np.maximum(self.end_ns, self.merge_end_ns)

    @property
    def busy_ns(self) -> int:
        """Time of all CTAs together from their start to their end; waiting for the pieces of a merge counts."""
        first, last = self.bins
        return int((last - first).sum())

    @cached_property
    def bins(self) -> tuple[Times, Times]:
        """Start and finish of each bin, merges included, int64 [num_bins]; 0 and 0 for a bin with nothing to do."""
        return self.by_bin(self.start_ns, np.minimum), self.by_bin(self.finish_ns, np.maximum)

    def by_bin(self, values: Times, reduce: np.ufunc) -> Times:
        """``reduce`` (such as ``numpy.add``) over the descriptors of each bin, int64 [num_bins]; 0 for an empty bin."""
        result = np.zeros(self.plan.num_bins, np.int64)
        full = np.diff(self.plan.bin_offsets) > 0
        if full.any():
            result[full] = reduce.reduceat(values, self.plan.bin_offsets[:-1][full])
        return result

    @cached_property
    def bin_sm(self) -> npt.NDArray[np.int32]:
        """The SM of each bin, int32 [num_bins]; -1 for a bin with nothing to do."""
        result = np.full(self.plan.num_bins, -1, np.int32)
        result[self.plan.cta] = self.sm
        return result

    def spans(self, cost: CostModel | None = None) -> Spans:
        """The measured times in the form of :meth:`DecodePlan.spans`, on the same axis.

        ``foot_ns`` is the time from a descriptor's start to its first bytes, ``reading_ns`` that between first and last
        bytes. A bin ends with its last descriptor; ``merge_ns`` reaches from the last bin's end
        to that of the last merge. A persistent plan's bin ``c`` has slot ``c``; a static grid's bins take the lowest
        free place of their SM, slot ``place * sms + sm``, so there may be more slots than ``num_ctas`` where an SM held
        more CTAs than planned. A bin with nothing to do starts and ends at 0.

        Parameters
        ----------
        cost : CostModel, optional
            Whose GPU and shape the result names; its constants play no part, and ``cost.source`` begins with
            "measured".
        """
        cost = given_or_default(cost)
        slot = np.arange(self.plan.num_bins, dtype=np.int32)
        start, finish = self.bins
        end = self.by_bin(self.end_ns, np.maximum)
        if self.plan.static_grid:
            used = self.bin_sm >= 0
            slot[used] = lowest_free(self.bin_sm[used], start[used], finish[used]) * cost.sms + self.bin_sm[used]
            slot[~used] = np.arange(int((~used).sum())) % self.plan.num_ctas
        return Spans(
            slot,
            start,
            end,
            self.start_ns,
            self.arrived_ns - self.start_ns,
            self.end_ns,
            int((end - start).sum()),
            int((self.streamed_ns - self.arrived_ns).sum()),
            self.makespan_ns - self.bins_ns,
            replace(cost, constants=replace(cost.constants, source=SOURCE)),
        )

    def residuals(self, cost: CostModel | None = None) -> Residuals:
        """Measured minus modelled; the default model is that of an FP8 cache on an H200."""
        cost = given_or_default(cost)
        measured, modelled = self.spans(cost), self.plan.spans(cost)
        start, end = measured.start_ns - modelled.start_ns, measured.end_ns - modelled.end_ns
        full = np.diff(self.plan.bin_offsets) > 0
        return Residuals(
            start,
            end,
            end - start,
            np.where(full, measured.bin_end_ns - modelled.bin_end_ns, 0),
            measured.bins_ns - modelled.bins_ns,
            measured.merge_ns - modelled.merge_ns,
            measured.makespan_ns - modelled.makespan_ns,
            cost.source,
        )

    def by_cta(self) -> pd.DataFrame:
        """One row a bin that had work: see :func:`workbench.measure.timeline_export.cta_table`."""
        from workbench.measure.timeline_export import cta_table

        return cta_table(self)

    def by_sm(self) -> pd.DataFrame:
        """One row an SM that had work: see :func:`workbench.measure.timeline_export.sm_table`."""
        from workbench.measure.timeline_export import sm_table

        return sm_table(self)

    def to_frame(self) -> pd.DataFrame:
        """One row a descriptor: what it was, where it ran, its times in nanoseconds."""
        from workbench.measure.timeline_export import descriptor_table

        return descriptor_table(self)

    def to_perfetto(self, path: str | os.PathLike[str], cost: CostModel | None = None) -> None:
        """Write a trace for chrome://tracing and Perfetto; with ``cost``, its prediction is a second process."""
        from workbench.measure.timeline_export import perfetto_json

        Path(path).write_text(perfetto_json([self], cost), encoding="utf-8")

    def to_npz(self) -> bytes:
        """The timeline and its plan as the bytes of a .npz; never pickled, equal timelines give equal bytes."""
        plan = np.frombuffer(self.plan.to_json().encode(), np.uint8)
        return pack_arrays({"plan": plan, **{name: getattr(self, name) for name in ARRAYS}})

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> Timeline:
        """A timeline from the arrays of :meth:`to_npz`, such as ``Store.arrays`` gives.

        Raises
        ------
        TimelineError
            An array is missing or of another kind, the plan in it is wrong, or the times contradict it.
        """
        if lacking := [name for name in ("plan", *ARRAYS) if name not in arrays]:
            raise TimelineError(f"the timeline lacks {', '.join(lacking)}; it has {', '.join(arrays) or 'nothing'}.")
        if wrong := [name for name in ("plan", *ARRAYS) if arrays[name].dtype.kind not in "iub"]:
            raise TimelineError(f"{', '.join(wrong)}: expected whole numbers, as Timeline.to_npz writes them.")
        try:
            plan = DecodePlan.from_json(arrays["plan"].astype(np.uint8).tobytes().decode())
        except (InvalidPlan, UnicodeDecodeError) as error:
            raise TimelineError(f"the plan of the timeline cannot be read: {error}") from None
        return cls(plan, **{name: arrays[name] for name in ARRAYS})

    @classmethod
    def from_npz(cls, content: bytes) -> Timeline:
        """Read what :meth:`to_npz` wrote; nothing in it is executed.

        Raises
        ------
        TimelineError
            It is no such file.
        """
        try:
            return cls.from_arrays(unpack_arrays(content))
        except RecordError as error:
            raise TimelineError(f"no timeline: {error}. Give what Timeline.to_npz wrote.") from None
