"""How long a store of 2,000 records takes to list, with its index and without.

Run ``python benchmarks/records.py [NUMBER]``. The target is 0.5 s for 2,000 records with the index; the first listing
reads every document and writes it.
"""

from __future__ import annotations

import datetime
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import pandas as pd  # noqa: F401  (its import is not what is timed)

from workbench.records import Environment, Store, TimingRecord, Workload

ENVIRONMENT = Environment(gpu="Made up", date=datetime.date(2026, 1, 1), sms=132)
TARGET_S = 0.5
ROUNDS = 5


def fill(store: Store, number: int) -> None:
    """Add records of the size that a real one has, each with a configuration of its own."""
    for i in range(number):
        samples = tuple(10 + (7 * i + 13 * j) % 100 / 1000 for j in range(15))
        middle = median(samples)
        store.add(
            TimingRecord(
                operator="attention_decode",
                provider="workbench",
                policy="balanced",
                configuration={"warps": 8, "stages": 3, "ctas_per_sm": 1, "tile": 64, "number": i},
                environment=ENVIRONMENT,
                workload=Workload(case=f"case{i % 40}", dtype="fp8"),
                samples_us=samples,
                median_us=middle,
                low_us=min(samples),
                high_us=max(samples),
            )
        )


def seconds(store: Store) -> float:
    """Time of one query."""
    start = perf_counter()
    store.query()
    return perf_counter() - start


def main() -> None:
    """Measure in folders that are removed again."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WORKBENCH_CACHE_DIR"] = str(Path(folder) / "cache")
        start = perf_counter()
        fill(Store(Path(folder) / "store"), number)
        written = perf_counter() - start
        first = seconds(Store(Path(folder) / "store"))
        later = median(seconds(Store(Path(folder) / "store")) for _ in range(ROUNDS))
    print(f"{number:,} records: written in {written:.2f} s, listed in {first:.3f} s without an index")
    print(f"with it {later:.3f} s (target for 2,000: {TARGET_S} s)")


if __name__ == "__main__":
    main()
