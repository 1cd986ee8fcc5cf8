"""Records of the measurement in ``docs/performance/attention.json``, made before ``workbench bench`` kept its own.

Run it as ``python benchmarks/attention_records.py docs/performance/attention.json profiles``.
"""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

from workbench.records import Clocks, Environment, Store, TimingRecord, Workload

CLOCKS_AND_DRIVER = "driver_version,clocks.sm,clocks.mem,clocks.max.sm"
SHAPE = {"num_q_heads": 8, "num_kv_heads": 1, "head_dim": 128, "page_size": 64, "q_len": 1}
METHOD = (
    "Median of replays of a CUDA graph of at least 24 calls that rotate over input sets, its variants taking turns; "
    "KV caches together exceed the L2 cache"
)
MAP_METHOD = "Median of replays of a CUDA graph of at least 24 builds that rotate over eight batches"
MEASURED_FOR_ERROR = {"early_map": False, "pdl": True}
"""The variant of the balanced map whose result is compared with float64; the error stands for all of its case."""


def environment_of(said: dict[str, Any]) -> Environment:
    """The surroundings as a record keeps them."""
    driver, *clocks = (field.strip() for field in said[CLOCKS_AND_DRIVER].split(","))
    sm, memory, max_sm = (int(clock.removesuffix(" MHz")) for clock in clocks)
    return Environment(
        gpu=said["gpu"],
        date=datetime.date.fromisoformat(said["date"]),
        sms=said["sms"],
        driver=driver,
        cuda=said["cuda"],
        torch=said["torch"],
        clocks=Clocks(sm_mhz=sm, memory_mhz=memory, max_sm_mhz=max_sm),
    )


def record_of(row: dict[str, Any], environment: Environment, sources: dict[str, str]) -> TimingRecord:
    """One row of the measurement as a record.

    Parameters
    ----------
    row
        As the file has it; a task map has no cache type.
    environment
        What the figure holds for.
    sources
        SHA-256 of the kernel's sources by operator, where they are known.
    """
    policy, config = row["policy"], row["config"]
    is_map, is_read = row["cache"] == "", row["policy"] == "read"
    operator = "task_map" if is_map else "attention_decode"
    own_error = policy == "balanced" and MEASURED_FOR_ERROR.items() <= config.items()
    return TimingRecord(
        operator=operator,
        provider="read" if is_read else "cuda",
        policy=None if is_read else policy,
        configuration=config,
        environment=environment,
        workload=Workload(
            case=row["case"],
            dtype=row["cache"] or None,
            parameters={"num_kv_heads": 1, "q_len": 1} if is_map else SHAPE,
        ),
        source_digest=None if is_read else sources.get(operator),
        method=MAP_METHOD if is_map else METHOD,
        samples_us=tuple(row["samples_us"]),
        median_us=row["median_us"],
        low_us=row["low_us"],
        high_us=row["high_us"],
        rel_error=row["rel_error"],
        error_of=None if row["rel_error"] is None or own_error else "policy balanced, default configuration",
    )


def keep(document: dict[str, Any], store: Store, sources: dict[str, str]) -> int:
    """Add all rows to a store and return their number."""
    environment = environment_of(document["environment"])
    for row in document["rows"]:
        store.add(record_of(row, environment, sources))
    return len(document["rows"])


def main() -> None:
    """Keep the rows of a file. Which sources they were measured with is not in the file, so that stays open."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path, help="the measurement")
    parser.add_argument("store", type=Path, help="folder of the store")
    arguments = parser.parse_args()
    number = keep(json.loads(arguments.measured.read_text()), Store(arguments.store), sources={})
    print(f"{number} records in {arguments.store}")


if __name__ == "__main__":
    main()
