"""How long it takes to simulate 100,000 requests, and to read figures and lengths off the result.

Run ``python benchmarks/simulate.py``. The target for each scenario is 10 s on two cores.
"""

from __future__ import annotations

from time import perf_counter

from workbench.workloads import simulate, synthetic_trace

NUM_REQUESTS = 100_000
#: The engine under ordinary load, short of cache so that it preempts, and with small batches and many steps.
SCENARIOS = {
    "default limits": {},
    "cache of 300,000 tokens, no watermark": {"kv_capacity": 300_000, "watermark": 0.0},
    "batch of at most 16": {"max_batch": 16},
    "prefill of 1,024 tokens a step": {"prefill_budget": 1024},
}


def main() -> None:
    """Time each scenario and print a line of it."""
    start = perf_counter()
    trace = synthetic_trace(NUM_REQUESTS, rate=20.0)
    print(f"{len(trace):,} requests made in {perf_counter() - start:.2f} s")
    for name, limits in SCENARIOS.items():
        start = perf_counter()
        steps = simulate(trace, **limits)
        simulated = perf_counter()
        table = steps.table()
        tabled = perf_counter()
        for step in range(0, len(steps), max(1, len(steps) // 1000)):
            steps.lengths(step)
        lengths = perf_counter()
        print(
            f"{name}: simulated in {simulated - start:.2f} s, {len(steps):,} decode steps, mean batch "
            f"{table.batch.mean():.0f}, {steps.timeline.preemptions:,} preemptions; figures of all steps in "
            f"{tabled - simulated:.2f} s; lengths of one step in {(lengths - tabled) * 1e3:.0f} us"
        )


if __name__ == "__main__":
    main()
