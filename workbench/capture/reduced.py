"""A capture without hardware counters: event timing, the in-kernel timeline, and the kernels torch's profiler sees.

For rented GPUs and containers in which counters are forbidden. None of the three needs a permission.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from workbench.capture.collect import instrument, keep_stamps, prepare, synchronise
from workbench.capture.jobs import Job, JobFolder
from workbench.capture.operators import Instrumented, Prepared, Stamped

CACHE_BYTES = 300_000_000
"""Bytes that the calls read together, at least, so that each finds nothing of its own in the caches."""

MOST_SETS = 24
REPLAYS_A_RUN = 15
STAMPED_CALLS = 16
"""Calls of the instrumented build, each launched alone with caches scrubbed; that of median makespan is kept."""

SCRUB_BYTES = 256 << 20


def without_counters(folder: JobFolder, job: Job) -> None:
    """Time all cases, list their kernels, and write ``result.json``."""
    rows = []
    for index in range(len(job.requests)):
        first = prepare(folder, job, index)
        if job.timeline and (build := instrument(folder, first)) is not None:
            folder.report_progress("stamping", index, len(job.requests))
            keep_stamps(folder, index, [_stamped(build) for _ in range(STAMPED_CALLS)])
        folder.report_progress("timing", index, len(job.requests))
        sets = 1 if first.bytes_read is None else max(2, min(MOST_SETS, -(-CACHE_BYTES // max(first.bytes_read, 1))))
        seed = job.requests[index].seed
        calls = [first.call]
        for at in range(1, sets):
            calls.append(prepare(folder, job, index, seed + at).call)
        rows.append({"sets": sets, "kernels": kernels_of(first), **_timed(calls, job.runs)})
    folder.write("result.json", {"rows": rows})


def _timed(calls: list[Callable[[], object]], runs: int) -> dict[str, Any]:
    from workbench.measure.timing import time_interleaved

    timing = time_interleaved({"call": calls}, replays=REPLAYS_A_RUN * runs)["call"]
    low, high = timing.interval_us()
    return {"samples_us": timing.samples_us, "median_us": timing.median_us, "low_us": low, "high_us": high}


def _stamped(build: Instrumented) -> Stamped:
    import torch

    torch.empty(SCRUB_BYTES, dtype=torch.uint8, device="cuda").zero_()
    synchronise()
    build.call()
    return build.read()


def kernels_of(prepared: Prepared) -> list[dict[str, Any]]:
    """Name and time (microseconds) of each kernel that a call launches, by torch's profiler; in order of launch."""
    from torch.profiler import ProfilerActivity, profile

    prepared.call()
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        prepared.call()
        synchronise()
    found: dict[str, list[float]] = defaultdict(list)
    for event in recorded.events() or []:
        if str(event.device_type).endswith("CUDA"):
            found[event.name].append(float(event.time_range.elapsed_us()))
    return [{"name": name, "us": sum(times), "launches": len(times)} for name, times in found.items()]
