"""What each counter is called and what it says, and figures that follow from several counters.

The notes are about load balance and memory, for that is what the operators here live on. Counters that are not listed
are shown by their own name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import MappingProxyType

from workbench.records import TimingRecord
from workbench.widgets.profiles.captures import Capture
from workbench.widgets.profiles.units import Reading

GROUPS = ("Time", "Balance", "Memory", "Units", "Stalls", "Launch", "Other")

LEAST, MEAN, MOST, SUM = (f"sm__cycles_active.{rollup}" for rollup in ("min", "avg", "max", "sum"))
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
IMBALANCE, LAST_OVER_MEAN, READ_AGAIN = "imbalance", "most_over_mean", "read_over_needed"
REPLAYED = "replayed"
"""Time of a call of a reduced record. It is a benchmark's time, and has a row and a column of its own."""


@dataclass(frozen=True)
class Counter:
    """One row of a comparison.

    Attributes
    ----------
    title, group : str
    note : str
        What the value tells.
    derived : bool
        Computed from several counters; its noise is not known, for their deviations are not independent.
    """

    title: str
    group: str
    note: str
    derived: bool = False


def _stall(reason: str, what: str) -> Counter:
    return Counter(f"stalled: {reason}", "Stalls", f"Warps waiting {what}, for each instruction issued.")


COUNTERS = MappingProxyType(
    {
        "gpu__time_duration.sum": Counter(
            "duration, isolated", "Time", "The kernel alone, caches cold, nothing overlaps. Not a benchmark time."
        ),
        REPLAYED: Counter(
            "a call, replayed", "Time", "Reduced record: median in a graph of calls, as in a benchmark. No counters."
        ),
        IMBALANCE: Counter(
            "imbalance", "Balance",
            "1 - mean / most active SM: share of the SMs' time that is spent waiting for the last one.", True,
        ),
        LAST_OVER_MEAN: Counter(
            "most / mean", "Balance", "How much longer the most active SM works than the mean one; 1 is perfect.", True
        ),
        LEAST: Counter("least active SM", "Balance", "Far below the mean: this SM got little, or no, work."),
        MEAN: Counter("mean of the SMs", "Balance", "What every SM would need if the work were spread evenly."),
        MOST: Counter("most active SM", "Balance", "The SM that ends last. The kernel cannot be over before it is."),
        SUM: Counter(
            "all SMs together", "Balance", "Grows where pieces cost more: more splits, more merging, slower memory."
        ),
        "sm__cycles_elapsed.avg.per_second": Counter("SM clock", "Time", "Clocks are not locked: compare it first."),
        READ: Counter("read from DRAM", "Memory", "The bytes of the inputs, K and V or a weight, if none twice."),
        READ_AGAIN: Counter(
            "read / needed", "Memory", "DRAM reads over the bytes of the inputs. Above 1: read again.", True
        ),
        WRITTEN: Counter("written to DRAM", "Memory", "Results, and partial results that left L2."),
        "dram__bytes_read.sum.per_second": Counter(
            "read rate", "Memory", "Mean over the kernel: it falls when SMs end early and leave the memory idle."
        ),
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": Counter(
            "DRAM throughput", "Memory", "Of the peak. Low with high imbalance: the tail, not the memory, costs time."
        ),
        "lts__t_sector_hit_rate.pct": Counter(
            "L2 hit rate", "Memory", "Cold streams hit seldom; partial results that are merged hit."
        ),
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": Counter(
            "SM throughput", "Units", "Busiest unit of the SM, of its peak, over the whole kernel."
        ),
        "sm__warps_active.avg.pct_of_peak_sustained_active": Counter(
            "warps active", "Units", "Occupancy while an SM is active: what the bins leave resident."
        ),
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": Counter(
            "tensor pipes", "Units", "Share of active cycles in which a tensor pipe works."
        ),
        "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active": Counter(
            "tensor pipes, FP16 and BF16", "Units", "The same for half-precision products."
        ),
        "sm__pipe_tma_cycles_active.avg.pct_of_peak_sustained_active": Counter(
            "copy engine (TMA)", "Units", "Share of active cycles in which it issues copies."
        ),
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": _stall("memory", "for memory"),
        "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": _stall("barrier", "at a CTA barrier"),
        "smsp__average_warps_issue_stalled_membar_per_issue_active.ratio": _stall("fence", "for a memory fence"),
        "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio": _stall("wgmma", "for the tensor cores"),
        "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio": _stall("math", "for a pipe"),
        "launch__grid_size": Counter("grid", "Launch", "CTAs launched. A task map launches as many as fit."),
        "launch__waves_per_multiprocessor": Counter(
            "waves", "Launch", "CTAs over those that fit at once. A fraction above 1 is a last wave that is not full."
        ),
        "launch__registers_per_thread": Counter("registers a thread", "Launch", "With shared memory: occupancy."),
        "launch__occupancy_limit_registers": Counter("CTAs an SM by registers", "Launch", "Limit of residency."),
        "launch__occupancy_limit_shared_mem": Counter("CTAs an SM by shared memory", "Launch", "Limit of residency."),
    }
)  # fmt: skip
"""By Nsight Compute's name, or by the name of a derived figure; in the order of a comparison."""


def counter_of(name: str) -> Counter:
    """What is known of a counter."""
    return COUNTERS.get(name) or Counter(name, "Other", "")


def names_in(captures: Iterable[Capture]) -> tuple[str, ...]:
    """All figures that any of the captures has, known ones first, each group together."""
    present: dict[str, None] = {}
    for capture in captures:
        present |= dict.fromkeys(figures(capture))
    known = [name for name in COUNTERS if name in present]
    return tuple(sorted([*known, *sorted(present.keys() - COUNTERS.keys())], key=_group))


def _group(name: str) -> int:
    return GROUPS.index(counter_of(name).group)


def figures(capture: Capture) -> dict[str, Reading]:
    """All counters of a capture with what follows from them."""
    found = dict(capture.readings)
    for name, derive in _DERIVED.items():
        value = derive(capture)
        if value is not None:
            found[name] = value
    return found


def figure(capture: Capture, name: str) -> Reading | None:
    """One counter or derived figure of a capture."""
    return _DERIVED[name](capture) if name in _DERIVED else capture.readings.get(name)


def _pair(capture: Capture, first: str, second: str) -> tuple[float, float] | None:
    """Two counters of one unit, the second above 0."""
    a, b = capture.readings.get(first), capture.readings.get(second)
    if a is None or b is None or a.unit != b.unit or not b.value > 0:
        return None
    return a.value, b.value


def _imbalance(capture: Capture) -> Reading | None:
    found = _pair(capture, MEAN, MOST)
    return None if found is None else Reading(100 * (1 - found[0] / found[1]), "%")


def _most_over_mean(capture: Capture) -> Reading | None:
    found = _pair(capture, MOST, MEAN)
    return None if found is None else Reading(found[0] / found[1], "")


def _read_over_needed(capture: Capture) -> Reading | None:
    read, work = capture.readings.get(READ), capture.work
    if read is None or read.unit != "byte" or work is None or not work.needed_bytes:
        return None
    return Reading(read.value / work.needed_bytes, "")


def _replayed(capture: Capture) -> Reading | None:
    record = capture.record
    if not isinstance(record, TimingRecord):
        return None
    half = max(record.high_us - record.median_us, record.median_us - record.low_us, 0.0)
    return Reading(record.median_us * 1e3, "ns", half_width=half * 1e3)


_DERIVED: dict[str, Callable[[Capture], Reading | None]] = {
    IMBALANCE: _imbalance,
    LAST_OVER_MEAN: _most_over_mean,
    READ_AGAIN: _read_over_needed,
    REPLAYED: _replayed,
}
