"""Router GEMM beside upstream and cuBLAS: a Markdown table of a measurement and of reference figures.

    python benchmarks/router_targets.py MEASURED.json REFERENCE.jsonl [--ours fastest]

Of our kernel the table shows what was the default of that run, or the fastest configuration of each row, which
``router_tuning.py`` makes the default from then on; the last lines say what either gives.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Key = tuple[int, int, int]
"""K, N, M."""


def ours(document: dict[str, Any]) -> dict[Key, dict[str, float]]:
    """Microseconds by product: "default" and "fastest" of our kernel, and of each other provider."""
    found: dict[Key, dict[str, float]] = defaultdict(dict)
    for row in document["rows"]:
        times = found[row["k"], row["n"], row["m"]]
        if row["provider"] == "cuda":
            times["fastest"] = min(times.get("fastest", math.inf), row["median_us"])
        if row["provider"] != "cuda" or row["default"]:
            times["default" if row["provider"] == "cuda" else row["provider"]] = row["median_us"]
    return dict(found)


def upstream(lines: Sequence[str]) -> dict[Key, float]:
    """Microseconds of HPC-Ops by product."""
    rows = [json.loads(line) for line in lines]
    return {(r["k"], r["n"], r["m"]): r["us"] for r in rows if r["op"] == "router" and r["provider"] == "hpc"}


def mean(factors: Sequence[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, factors)) / len(factors))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--ours", choices=("default", "fastest"), default="default", help="which the table shows")
    arguments = parser.parse_args()
    times = ours(json.loads(arguments.measured.read_text()))
    theirs = upstream(arguments.reference.read_text().splitlines())
    names = ("cublas-fp32", "cublas-tf32", "cublas-bf16", "triton")
    shown = arguments.ours
    print("| K, N | M | ours | upstream | " + " | ".join(names) + " | upstream / ours | two bf16 / ours |")
    print("|---|" + "---:|" * (len(names) + 5))
    for (k, n, m), row in sorted(times.items()):
        other = theirs.get((k, n, m))
        cells = [f"{row[name]:.1f}" if name in row else "" for name in names]
        ratio = f"{other / row[shown]:.2f}" if other else ""
        two = f"{2 * row['cublas-bf16'] / row[shown]:.2f}" if "cublas-bf16" in row else ""
        print(
            f"| {k}, {n} | {m:,} | **{row[shown]:.2f}** | {f'{other:.1f}' if other else ''} | "
            + " | ".join(cells)
            + f" | {ratio} | {two} |"
        )
    for which in ("default", "fastest"):
        beside = {key: theirs[key] / row[which] for key, row in times.items() if key in theirs}
        if beside:
            least = min(beside, key=lambda key: beside[key])
            print(
                f"\n{which}: {mean(list(beside.values())):.3f} times as fast as upstream in geometric mean over "
                f"{len(beside)} rows, least {beside[least]:.2f} at K {least[0]}, N {least[1]}, M {least[2]}"
            )


if __name__ == "__main__":
    main()
