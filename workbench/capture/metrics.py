"""Which counters to ask for: sets by purpose, and what the installed Nsight Compute knows of them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import MappingProxyType

from workbench import settings
from workbench.capture.asking import ask
from workbench.errors import InvalidArgument, ProfilerUnavailable

DURATION = "gpu__time_duration.sum"
CLOCK = "sm__cycles_elapsed.avg.per_second"

_LAUNCH = (
    "launch__registers_per_thread",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__waves_per_multiprocessor",
    "launch__grid_size",
)
_ACTIVE_CYCLES = tuple(f"sm__cycles_active.{rollup}" for rollup in ("min", "avg", "max", "sum"))
_TRAFFIC = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__bytes_read.sum.per_second",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sector_hit_rate.pct",
)
_STALLS = ("long_scoreboard", "barrier", "membar", "gmma", "math_pipe_throttle")

SETS: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        "overview": (
            DURATION,
            *_TRAFFIC,
            "sm__throughput.avg.pct_of_peak_sustained_elapsed",
            *_ACTIVE_CYCLES,
            "sm__warps_active.avg.pct_of_peak_sustained_active",
            *_LAUNCH,
        ),
        "memory": (
            DURATION,
            *_TRAFFIC,
            *(f"smsp__average_warps_issue_stalled_{stall}_per_issue_active.ratio" for stall in _STALLS[:3]),
        ),
        "tensor": (
            DURATION,
            "sm__throughput.avg.pct_of_peak_sustained_elapsed",
            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
            "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
            "sm__pipe_tma_cycles_active.avg.pct_of_peak_sustained_active",
            *(f"smsp__average_warps_issue_stalled_{stall}_per_issue_active.ratio" for stall in _STALLS),
        ),
        "schedule": (DURATION, *_ACTIVE_CYCLES, CLOCK, "launch__waves_per_multiprocessor", "launch__grid_size"),
    }
)
"""Metrics by purpose. "schedule" also runs the kernel's instrumented build, where there is one."""

NOT_COUNTED = ("launch__", "device__")
"""Beginnings of metrics that describe the launch and are always there; the query lists hardware counters only."""

CHIPS = MappingProxyType(
    {(8, 0): "ga100", (8, 6): "ga102", (8, 9): "ad102", (9, 0): "gh100", (10, 0): "gb100", (12, 0): "gb202"}
)
"""Nsight Compute's name of a chip by compute capability."""

QUERY_SECONDS = 120

# Nsight Compute's command line has a list of names with commas between them, and a shell may read it.
_METRIC = re.compile(r"[a-z][a-z0-9_]*__[A-Za-z0-9_.]+")


def expand(wanted: str | Iterable[str]) -> tuple[str, ...]:
    """Names of metrics from names of sets and of metrics, each once.

    Parameters
    ----------
    wanted
        A name or several: of a set (`SETS`), or a metric by Nsight Compute's own name.

    Raises
    ------
    InvalidArgument
        A name is neither, or there is none.
    """
    names = [wanted] if isinstance(wanted, str) else list(wanted) if isinstance(wanted, Iterable) else [wanted]
    if not_text := [name for name in names if not isinstance(name, str)]:
        raise InvalidArgument(f"metric {not_text[0]!r}: give text, the name of a set ({', '.join(SETS)}) or a metric.")
    found = [metric for name in names for metric in SETS.get(name, (name,))]
    for name in found:
        if not _METRIC.fullmatch(name):
            raise InvalidArgument(
                f"metric {name!r}: give a set ({', '.join(SETS)}) or one of Nsight Compute's names, "
                f"such as {DURATION} (`ncu --query-metrics` lists them)."
            )
    if not found:
        raise InvalidArgument(f"no metric given; give a set ({', '.join(SETS)}) or names of metrics.")
    return tuple(dict.fromkeys(found))


def additive(metric: str) -> bool:
    """Whether values of kernels that ran one after another may be added: totals may, rates and shares may not."""
    return metric.endswith(".sum")


def known_metrics(ncu: Path, version: str, chip: str) -> frozenset[str]:
    """All counters that an installed Nsight Compute has for a chip; asked once for each version, then kept.

    Raises
    ------
    ProfilerUnavailable
        It does not answer.
    """
    key = hashlib.sha256(f"{ncu.resolve()} {version} {chip}".encode()).hexdigest()[:16]
    kept = settings.cache_dir() / "ncu" / f"metrics-{key}.txt"
    try:
        return frozenset(kept.read_text().split())
    except OSError:  # not asked yet
        names = _query(ncu, chip)
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
        kept.parent.mkdir(parents=True, exist_ok=True)
        unfinished = kept.with_suffix(f".{os.getpid()}")
        unfinished.write_text("\n".join(sorted(names)))
        unfinished.replace(kept)
    return names


def _query(ncu: Path, chip: str) -> frozenset[str]:
    command = [str(ncu), "--query-metrics", "--query-metrics-mode", "all", "--chips", chip]
    try:
        done = ask(command, QUERY_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProfilerUnavailable(f"{ncu} cannot list its metrics: {error}. See `workbench doctor`.") from None
    names = frozenset(line.split()[0] for line in done.stdout.splitlines() if "__" in line.partition(" ")[0])
    if done.returncode != 0 or not names:
        said = (done.stdout + done.stderr).strip().splitlines()[-3:]
        raise ProfilerUnavailable(
            f"{' '.join(command)} lists no metric: {' / '.join(said) or 'it said nothing'}. Install Nsight Compute "
            f"anew."
        )
    return names


def keep_known(metrics: Sequence[str], known: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split metrics into those that can be asked for and those that cannot, in order."""
    usable = tuple(name for name in metrics if name in known or name.startswith(NOT_COUNTED))
    return usable, tuple(name for name in metrics if name not in usable)
