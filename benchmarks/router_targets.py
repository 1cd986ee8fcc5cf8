"""Router GEMM beside upstream and cuBLAS: a Markdown table of measurements and of reference figures.

    python -m benchmarks.router_targets MEASURED.json REFERENCE.jsonl [--study TUNING.json ...] [--records FOLDER]
                                        [--ours tuned]

Of our kernel the table shows what was the default of that run, or what ``router_tuning.py`` makes the default from the
run and the studies; the last lines say what either gives. What the run has no figure of is taken from the records.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.router_tuning import Key, table_of
from workbench.records import Store

Times = dict[Key, dict[str, float]]
"""Microseconds by product, and by name."""

OTHERS = ("cublas-fp32", "cublas-tf32", "cublas-bf16", "triton")


def measured(document: dict[str, Any], *studies: dict[str, Any]) -> Times:
    """Of our kernel "default", as it was in the run, and "tuned", as it is made of run and studies; of each other."""
    found: Times = defaultdict(dict)
    for row in document["rows"]:
        if row["provider"] != "cuda" or row["default"]:
            name = "default" if row["provider"] == "cuda" else row["provider"]
            found[row["k"], row["n"], row["m"]][name] = row["median_us"]
    for (k, n), rows in table_of(document, *studies).shapes.items():
        for tuned in rows:
            found[k, n, tuned.m]["tuned"] = tuned.median_us
    return dict(found)


def with_records(times: Times, store: Store, gpu: str) -> Times:
    """The times, and of other providers what records have and the times lack."""
    table = store.query(operator="router_gemm", kind="timing", provider=OTHERS, gpu=gpu)
    filled = {key: dict(row) for key, row in times.items()}
    for row in table.to_dict("records"):
        key = (int(row["k"]), int(row["n"]), int(row["m"]))
        if key in filled:
            filled[key].setdefault(row["provider"], float(row["median_us"]))
    return filled


def upstream(lines: Sequence[str]) -> dict[Key, float]:
    """Microseconds of HPC-Ops by product."""
    rows = [json.loads(line) for line in lines]
    return {(r["k"], r["n"], r["m"]): r["us"] for r in rows if r["op"] == "router" and r["provider"] == "hpc"}


def mean(factors: Sequence[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, factors)) / len(factors))


def table(times: Times, theirs: Mapping[Key, float], shown: str) -> Iterator[str]:
    """Lines of the table, one a product."""
    yield "| K, N | M | ours | upstream | " + " | ".join(OTHERS) + " | upstream / ours | two bf16 / ours |"
    yield "|---|" + "---:|" * (len(OTHERS) + 5)
    for (k, n, m), row in sorted(times.items()):
        other = theirs.get((k, n, m))
        cells = [f"{row[name]:.1f}" if name in row else "" for name in OTHERS]
        ratio = f"{other / row[shown]:.2f}" if other else ""
        two = f"{2 * row['cublas-bf16'] / row[shown]:.2f}" if "cublas-bf16" in row else ""
        yield (
            f"| {k}, {n} | {m:,} | **{row[shown]:.2f}** | {f'{other:.1f}' if other else ''} | "
            + " | ".join(cells)
            + f" | {ratio} | {two} |"
        )


def summary(times: Times, theirs: Mapping[Key, float], which: str) -> str:
    """What the default of the run, or the tuned one, gives beside upstream; "" where nothing is there of upstream."""
    beside = {key: theirs[key] / row[which] for key, row in times.items() if key in theirs and which in row}
    if not beside:
        return ""
    least = min(beside, key=lambda key: beside[key])
    return (
        f"{which}: {mean(list(beside.values())):.3f} times as fast as upstream in geometric mean over "
        f"{len(beside)} rows, least {beside[least]:.2f} at K {least[0]}, N {least[1]}, M {least[2]}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument(
        "--study", type=Path, nargs="+", default=[], metavar="FILE", help="as router_tuning.py has them"
    )
    parser.add_argument("--records", type=Path, metavar="FOLDER")
    parser.add_argument("--ours", choices=("default", "tuned"), default="default", help="which the table shows")
    arguments = parser.parse_args()
    document = json.loads(arguments.measured.read_text())
    times = measured(document, *(json.loads(path.read_text()) for path in arguments.study))
    if arguments.records:
        times = with_records(times, Store(arguments.records), document["environment"]["gpu"])
    theirs = upstream(arguments.reference.read_text().splitlines())
    print(*table(times, theirs, arguments.ours), sep="\n")
    for which in ("default", "tuned"):
        print("", summary(times, theirs, which), sep="\n")


if __name__ == "__main__":
    main()
