"""Timelines of decode attention on this GPU as records: the six cases, both cache types, three policies.

    python benchmarks/timelines.py STORE [--more]

--more adds the static grids that the cost model is fitted with besides.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from workbench.gpu.ahead import compile_ahead
from workbench.gpu.driver import require_gpu
from workbench.measure.attention_case import AttentionCase
from workbench.measure.environment import environment_here, source_digests
from workbench.measure.timeline_run import TimelineRun, input_sets, jobs, run_timeline
from workbench.records import Store
from workbench.schedule import CostModel, cost_model, resolve
from workbench.workloads import MIXES, workload

CACHES = ("fp8", "bf16")
POLICIES = ("balanced", "hpc-ops", "fixed_splits(8)")
MORE = ("fixed_splits(2)", "fixed_splits(4)", "fixed_splits(32)")


def main() -> None:
    """Capture, print a line each, and keep records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, help="folder of the store")
    parser.add_argument("--more", action="store_true", help=f"also {', '.join(MORE)}")
    arguments = parser.parse_args()
    require_gpu()
    began = time.monotonic()
    store, environment = Store(arguments.store), environment_here()
    # Before the first compilation: an edit during the run would not be what was measured.
    digest = source_digests()["attention_decode", "cuda"]
    cases = [AttentionCase(name, workload(name), cache) for cache in CACHES for name in MIXES]
    compile_ahead([job for case in cases[:: len(MIXES)] for job in jobs(case)])
    print(f"compiled in {time.monotonic() - began:.1f} s", flush=True)
    for case in cases:
        sets = input_sets(case)
        cost = cost_model(environment.gpu, cache=case.cache)
        for policy in POLICIES + MORE * arguments.more:
            run = run_timeline(case, resolve(policy, cost), sets)
            store.add(*run.record(environment, digest))
            show(run, cost)
        del sets
    print(f"{time.monotonic() - began:.1f} s in all", flush=True)


def show(run: TimelineRun, cost: CostModel) -> None:
    """Print one line: what was measured beside what the model says."""
    t = run.timeline
    modelled, measured = t.plan.spans(cost), t.spans(cost)
    busy = t.by_sm()["busy_ns"] / 1e3
    pairs = {
        "makespan": (t.makespan_ns, modelled.makespan_ns),
        "last bin": (measured.bins_ns, modelled.bins_ns),
        "merge": (measured.merge_ns, modelled.merge_ns),
    }
    beside = ", ".join(f"{name} {ns / 1e3:.2f} (model {model / 1e3:.2f})" for name, (ns, model) in pairs.items())
    print(
        f"{run.case.cache:5}{run.case.name:17}{t.plan.policy:17}call {run.call_us:.2f}, stamped "
        f"{run.stamped_call_us:.2f}; {beside}; SM busy {busy.min():.1f} to {busy.max():.1f}, mean {busy.mean():.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
