"""``workbench records``: what was measured, here or elsewhere, and where each figure comes from."""

from __future__ import annotations

import json
import math
import warnings
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from workbench.cli import options
from workbench.errors import InvalidArgument, RecordWarning

if TYPE_CHECKING:
    from workbench.records.rows import Row

NUMERIC = ("us", "low", "high", "rel. error")

Several = list[str] | None


def records(
    operator: Annotated[Several, typer.Option(help="Such as attention_decode or router_gemm.")] = None,
    provider: Annotated[Several, typer.Option(help="Such as cuda, hpc-dynamic or fa3.")] = None,
    case: Annotated[Several, typer.Option(help="Such as 64x4K.")] = None,
    dtype: Annotated[Several, typer.Option(help="Such as fp8 or bf16.")] = None,
    policy: Annotated[Several, typer.Option(help="Such as balanced.")] = None,
    kind: Annotated[Several, typer.Option(help="timing, reference, resources, timeline or nsight.")] = None,
    gpu: Annotated[Several, typer.Option(help="Such as H200.")] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Folder of a store. Default: the records that come with the workbench, and your own."),
    ] = None,
    studies: Annotated[
        bool, typer.Option("--studies", help="Also list each configuration that a tuning study timed.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """List records, fastest first within a case. Each filter may be repeated.

    Configurations that a tuning study timed are counted and listed only with --studies; --json always has them.
    Times are microseconds a call; low and high are the ends of the median's bootstrap interval. Exits with 0 when
    done, with 1 when files of the store had to be skipped, and with 2 for input that cannot be used.
    """
    from workbench.records import Store, is_of_study

    if store is not None and not store.is_dir():
        raise InvalidArgument(f"there is no folder {store}. Give the folder of a store of records.")
    opened = Store(store)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)  # its content is printed below
        rows = opened.rows(
            operator=operator, provider=provider, case=case, dtype=dtype, policy=policy, kind=kind, gpu=gpu
        )
    rows.sort(key=lambda row: [str(row[name]) for name in ("gpu", "operator", "case", "dtype")] + [_time(row)])
    if as_json:
        problems = [{"path": str(problem.path), "reason": problem.reason} for problem in opened.problems]
        typer.echo(json.dumps({"records": rows, "problems": problems}, indent=2))
    else:
        shown = rows if studies else [row for row in rows if not is_of_study(row["method"])]
        if shown or not rows:
            _show(shown)
        if left := len(rows) - len(shown):
            words = "configuration" if left == 1 else "configurations"
            Console().print(f"{left:,} {words} timed by tuning studies: --studies lists them.", highlight=False)
    for problem in opened.problems:
        Console(stderr=True, soft_wrap=True).print(f"Skipped {problem}", markup=False, highlight=False)
    if opened.problems:
        raise typer.Exit(1)


def _time(row: Row) -> float:
    value = row["median_us"]
    return float(value) if value is not None else math.inf


def _show(rows: list[Row]) -> None:
    """One table for each operator and GPU, columns that hold nothing left out."""
    if not rows:
        Console().print("No record matches.")
    for (gpu, operator), group in groupby(rows, key=lambda row: (row["gpu"], row["operator"])):
        Console().print(f"{operator} on {gpu}", style="bold", markup=False, highlight=False)
        _table(list(group))


def _table(rows: list[Row]) -> None:
    columns: dict[str, list[str]] = {
        name: [str(row[name] or "") for row in rows] for name in ("case", "dtype", "provider", "policy", "kind")
    }
    columns["configuration"] = [_words(json.loads(str(row["config"]))) for row in rows]
    for heading, name in (("us", "median_us"), ("low", "low_us"), ("high", "high_us")):
        columns[heading] = ["" if row[name] is None else f"{row[name]:,.2f}" for row in rows]
    columns["rel. error"] = ["" if row["rel_error"] is None else f"{row['rel_error']:.1e}" for row in rows]
    columns["origin"] = [str(row["origin"]) for row in rows]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    used = {heading: values for heading, values in columns.items() if any(values)}
    for heading in used:
        table.add_column(heading, justify="right" if heading in NUMERIC else "left", no_wrap=True)
    for values in zip(*used.values(), strict=True):
        table.add_row(*(value.replace("[", r"\[") for value in values))
    # A number is never cut: where the terminal is narrow, lines break.
    console = Console()
    width = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    Console(width=max(width, console.width)).print(table)
    console.print()


def _words(setting: dict[str, Any]) -> str:
    """A configuration in short: ``early_map``, ``no pdl``, ``stages=3``."""
    switches = {True: "{}", False: "no {}"}
    return " ".join(
        switches[value].format(name) if isinstance(value, bool) else f"{name}={value}"
        for name, value in setting.items()
    )
