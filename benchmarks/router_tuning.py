"""Make the table of tuned configurations from measurements, and say how well the cost model would have picked.

    python benchmarks/router_tuning.py MEASURED.json [--study TUNING.json ...]
                                       [--write workbench/ops/router_gemm/tuned.json] [--fit]

`MEASURED.json` is what ``benchmarks/router.py --write`` wrote; the fastest configuration of each row is taken from it.
A study is what ``benchmarks/tuning.py`` wrote: where it found a default beaten by more than it allows, the row gets the
study's best. Each study must have competed with what the table has by then. ``--fit`` fits the constants of the cost
model to the measurement alone and prints them; each shape is also left out once, and the picks for it are made by
constants fitted to the others.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from workbench.ops.router_gemm import RouterConfig
from workbench.ops.router_gemm.cost import CONSTANTS, Constants, estimated_us
from workbench.ops.router_gemm.tuned import Row, TunedTable

Key = tuple[int, int, int]
"""K, N, M."""

Measured = dict[Key, list[tuple[RouterConfig, float]]]
CASE = re.compile(r"K(\d+)-N(\d+)-M(\d+)")
"""What a study calls a product; it tunes two terms."""

STEPS = (1.5, 1.2, 1.07, 1.02)
"""Factors by which the fit moves one constant after the other, up and down, until nothing improves."""


def read(document: dict[str, Any]) -> Measured:
    """Medians by product and configuration of our kernel, two terms."""
    found: Measured = defaultdict(list)
    for row in document["rows"]:
        if row["provider"] == "cuda" and row["terms"] == 2:
            found[row["k"], row["n"], row["m"]].append((RouterConfig(**row["config"]), row["median_us"]))
    return dict(found)


def table_of(document: dict[str, Any], *studies: dict[str, Any]) -> TunedTable:
    """The fastest configuration of each product in the run, then what studies found to beat it."""
    shapes: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for (k, n, m), timed in sorted(read(document).items()):
        config, median = min(timed, key=lambda entry: entry[1])
        shapes[k, n].append(Row(m, round(median, 3), config))
    said = document["environment"]
    fastest = {key: tuple(rows) for key, rows in shapes.items()}
    table = TunedTable(said["gpu"], said["date"], said["sms"], 2, said["source_digest"], fastest)
    for study in studies:
        table = improved(table, study)
    return table


def improved(table: TunedTable, study: dict[str, Any]) -> TunedTable:
    """The table with the best of a study in each row whose default it found beaten by more than it allows.

    Raises
    ------
    ValueError
        The study is of another GPU, or what it found beaten is not what the table has.
    InvalidArgument
        What it found cannot run.
    """
    said = study["environment"]
    if (said["gpu"], said["sms"]) != (table.gpu, table.sms):
        raise ValueError(f"the study is of {said['gpu']} with {said['sms']} SMs, the table of {table.gpu}, {table.sms}")
    shapes = dict(table.shapes)
    for found in study["rows"]:
        if found["operator"] != "router_gemm" or found["gain"] <= study["allowed"]:
            continue
        case = CASE.fullmatch(found["case"])
        if case is None:
            raise ValueError(f"{found['case']!r} is no product")
        k, n, m = map(int, case.groups())
        beaten = RouterConfig(**found["default"]["config"])
        rows = shapes.get((k, n), ())
        if (m, beaten) not in [(row.m, row.config) for row in rows]:
            raise ValueError(f"the study competed with {beaten} in {found['case']}, and the table does not have that")
        best = min(found["finalists"], key=lambda finalist: float(finalist["relative"]))
        better = Row(m, best["median_us"], RouterConfig(**best["config"]).check(table.terms), said["date"])
        shapes[k, n] = tuple(better if row.m == m else row for row in rows)
    return replace(table, shapes=shapes)


def loss(measured: Measured, constants: Constants) -> float:
    """Mean square of the logarithm of estimate over measurement; fast configurations count most."""
    total = weight = 0.0
    for (k, n, m), timed in measured.items():
        best = min(us for _, us in timed)
        for config, us in timed:
            share = (best / us) ** 2
            error = math.log(estimated_us(config, m, n, k, 2, 132, constants) / us)
            total, weight = total + share * error * error, weight + share
    return total / weight


def fit(measured: Measured, start: Constants = CONSTANTS) -> Constants:
    """Constants of least :func:`loss`, one moved at a time."""
    best, least = start, loss(measured, start)
    for step in STEPS:
        moved = True
        while moved:
            moved = False
            for field in fields(Constants):
                for factor in (step, 1 / step):
                    tried = replace(best, **{field.name: getattr(best, field.name) * factor})
                    found = loss(measured, tried)
                    if found < least * (1 - 1e-6):
                        best, least, moved = tried, found, True
    return best


def regret(timed: Sequence[tuple[RouterConfig, float]], cost: Callable[[RouterConfig], float]) -> float:
    """How much slower the pick of a cost is than the fastest measured, as a factor."""
    return min(timed, key=lambda entry: cost(entry[0]))[1] / min(us for _, us in timed)


def left_out(measured: Measured) -> dict[Key, float]:
    """The factor of :func:`regret` in every product, by constants fitted to the other shapes."""
    factors: dict[Key, float] = {}
    for shape in dict.fromkeys(key[:2] for key in measured):
        constants = fit({key: timed for key, timed in measured.items() if key[:2] != shape})
        for key in (key for key in measured if key[:2] == shape):
            k, n, m = key
            factors[key] = regret(measured[key], lambda config: estimated_us(config, m, n, k, 2, 132, constants))  # noqa: B023
    return factors


def main() -> None:
    """Write the table; fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path)
    parser.add_argument("--study", type=Path, nargs="+", default=[], metavar="FILE", help="in the order they were made")
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--fit", action="store_true")
    arguments = parser.parse_args()
    document = json.loads(arguments.measured.read_text())
    if arguments.write:
        studies = [json.loads(path.read_text()) for path in arguments.study]
        arguments.write.write_text(table_of(document, *studies).to_json())
    if arguments.fit:
        measured = read(document)
        print({name: float(f"{value:.4g}") for name, value in asdict(fit(measured)).items()})
        factors = left_out(measured)
        for (k, n, m), factor in factors.items():
            print(f"K{k} N{n} M{m}: {factor:.3f}")
        print(f"geometric mean {math.exp(sum(map(math.log, factors.values())) / len(factors)):.3f}")


if __name__ == "__main__":
    main()
