"""How far counters and stamps agree in the captures of a store, as a table for Markdown.

    python benchmarks/agreements.py [STORE]

Without a store those that ship. Each row is a capture with the set ``schedule``: busy time of the SMs by counters and
by the stamps of the same launch.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from workbench.measure.busy import BusyComparison  # noqa: E402
from workbench.paths import profiles_dir  # noqa: E402
from workbench.records import NsightRecord, Store  # noqa: E402
from workbench.workloads import MIXES  # noqa: E402

HEADER = (
    "KV lengths", "policy", "stages", "CTAs an SM", "least busy SM", "mean", "busiest", "differ by", "outside",
    "besides",
)  # fmt: skip


def cells(record: NsightRecord, found: BusyComparison) -> tuple[str, ...]:
    """A row; times are microseconds, counters / stamps."""
    pairs = zip(vars(found.counted).values(), vars(found.stamped).values(), strict=True)
    times = [f"{counted / 1e3:.1f} / {stamped / 1e3:.1f}" for counted, stamped in pairs]
    setting = record.configuration
    return (
        record.workload.case, str(record.policy), str(setting["stages"]), str(setting["ctas_per_sm"]), *times,
        f"{100 * found.worst:.1f} %", f"{found.outside_ns / 1e3:.2f}", f"{100 * found.worst_inside:.1f} %",
    )  # fmt: skip


def word(found: BusyComparison) -> str:
    """Whether they agree, in short."""
    return "as they stand" if found.agrees else "besides start and exit" if found.agrees_inside else "not"


def main() -> None:
    """Print the table, and how many agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, nargs="?", default=profiles_dir())
    captures = [
        (record, BusyComparison.from_dict(record.agreement))
        for _, record in Store(parser.parse_args().store).records(operator="attention_decode", kind="nsight")
        if isinstance(record, NsightRecord) and record.agreement
    ]
    rows = sorted((MIXES.index(record.workload.case), cells(record, found)) for record, found in captures)
    print("| " + " | ".join(HEADER) + " |\n" + "|---" * len(HEADER) + "|")
    for _, row in rows:
        print("| " + " | ".join(row) + " |")
    for agree, number in Counter(word(found) for _, found in captures).most_common():
        print(f"{number} of {len(captures)} agree {agree}" if agree != "not" else f"{number} do not agree")


if __name__ == "__main__":
    main()
