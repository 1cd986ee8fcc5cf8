"""How long planning takes: 4,096 requests x 8 KV heads on 528 CTAs, for each policy.

Run ``python benchmarks/planning.py``; with ``--write`` the table goes to ``docs/performance/planning.md``. The target
is 5 ms for ``hpc-ops`` and ``balanced`` on two cores. Policies take turns, so that a busy moment of the machine falls
on all of them.
"""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import numpy as np

from workbench.schedule import plan_decode
from workbench.workloads import workload

NUM_REQUESTS, NUM_KV_HEADS, NUM_CTAS = 4096, 8, 528
BATCHES = {
    "lognormal": workload("lognormal", num_requests=NUM_REQUESTS),
    "equal": workload(f"{NUM_REQUESTS}x4K"),
    "one long": workload("one-long-many-short", num_requests=NUM_REQUESTS, short=512),
}
POLICIES = ("hpc-ops", "balanced", "lpt", "fixed_splits(8)", "fixed_chunk(4096)")
TARGETS_MS = {"hpc-ops": 5.0, "balanced": 5.0}
ROUNDS = 101
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "performance" / "planning.md"


def measure() -> dict[tuple[str, str], np.ndarray]:
    """Milliseconds of each round, by batch and policy."""
    times: dict[tuple[str, str], list[float]] = {(batch, policy): [] for batch in BATCHES for policy in POLICIES}
    for _ in range(ROUNDS):
        for batch, policy in times:
            start = perf_counter()
            plan_decode(BATCHES[batch], num_kv_heads=NUM_KV_HEADS, num_ctas=NUM_CTAS, policy=policy)
            times[batch, policy].append((perf_counter() - start) * 1e3)
    return {case: np.array(values[1:]) for case, values in times.items()}  # the first round loads code


def machine() -> str:
    """The class of this machine in words."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores of {model or platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}"


def main() -> None:
    """Print the table, and write it where asked to."""
    times = measure()
    rows = ["| batch | policy | median ms | 95 % of calls within, ms | target ms |", "|---|---|---|---|---|"]
    for (batch, policy), values in times.items():
        target = f"{TARGETS_MS[policy]:g}" if policy in TARGETS_MS else ""
        rows.append(f"| {batch} | {policy} | {np.median(values):.2f} | {np.percentile(values, 95):.2f} | {target} |")
    print("\n".join(rows))
    if "--write" in sys.argv[1:]:
        DOCUMENT.parent.mkdir(parents=True, exist_ok=True)
        DOCUMENT.write_text(
            "# Planning time\n\n"
            f"`plan_decode` for {NUM_REQUESTS:,} requests x {NUM_KV_HEADS} KV heads on {NUM_CTAS} CTAs "
            f"(H200, 4 CTAs an SM), {ROUNDS - 1} calls each.\nMeasured {datetime.now(UTC):%Y-%m-%d} on {machine()}. "
            "Made by `python benchmarks/planning.py --write`.\n\n" + "\n".join(rows) + "\n"
        )


if __name__ == "__main__":
    main()
