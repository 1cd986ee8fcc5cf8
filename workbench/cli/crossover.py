"""``workbench crossover``: which router product is fastest for how many rows, how surely, and what a rule costs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import options
from workbench.cli.files import check_writable, write_whole
from workbench.errors import InvalidArgument
from workbench.tables import CLASSES, MODELS, SGLANG, check_class, parse_shape, read_sglang, save_table

if TYPE_CHECKING:
    from rich.progress import Progress

    from workbench.records import Store
    from workbench.tune.analysis import Analysis
    from workbench.tune.traffic import Traffic

EXPORTS = ("table", "sglang", "module")

_FIGURES, _TRAFFIC, _OUTPUT = "Figures", "Traffic", "Output"


def crossover(
    routers: Annotated[
        list[str], typer.Argument(help=f"{', '.join(MODELS)}, or K,N such as 4096,192.", metavar="MODEL|K,N...")
    ],
    precision: Annotated[
        str, typer.Option(help=f"Least accurate class allowed: {', '.join(CLASSES)}.", metavar="CLASS")
    ] = "split",
    traffic: Annotated[
        str,
        typer.Option(
            help="Request trace, simulated; 'sample': the trace that is shipped; 'even': as many calls in each octave.",
            rich_help_panel=_TRAFFIC,
            metavar="TRACE",
        ),
    ] = "sample",
    mixed: Annotated[
        bool,
        typer.Option("--mixed", help="Prefill chunks share a pass with decoded tokens.", rich_help_panel=_TRAFFIC),
    ] = False,
    max_batch: options.MaxBatch = 256,
    kv_capacity: options.KvCapacity = 2_000_000,
    prefill_budget: options.PrefillBudget = 8192,
    from_records: Annotated[
        bool, typer.Option("--from-records", help="Use records, measure nothing.", rich_help_panel=_FIGURES)
    ] = False,
    provider: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare only these; repeat. Default: all in the records, or all that run here.",
            rich_help_panel=_FIGURES,
        ),
    ] = None,
    gpu: Annotated[str, typer.Option(help="GPU of the records.", rich_help_panel=_FIGURES)] = "H200",
    store: Annotated[
        Path | None,
        typer.Option(help="Folder of a store. Default: shipped records and your own.", rich_help_panel=_FIGURES),
    ] = None,
    deviation: Annotated[
        float,
        typer.Option(help="Relative deviation assumed of figures without samples.", rich_help_panel=_FIGURES),
    ] = 0.02,
    width: Annotated[
        float, typer.Option(help="Narrow brackets down to this share of M.", rich_help_panel=_FIGURES)
    ] = 0.05,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds of a measurement.", rich_help_panel=_FIGURES)] = 15,
    state: Annotated[
        Path | None,
        typer.Option(help="Keep the measured state here and go on from it.", rich_help_panel=_FIGURES, metavar="FILE"),
    ] = None,
    sglang: Annotated[
        Path | None,
        typer.Option(
            help="Price this table instead of the one in SGLang: a dict {(K, N): M}.", rich_help_panel=_OUTPUT
        ),
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Keep the table where router_gemm finds it.", rich_help_panel=_OUTPUT)
    ] = False,
    export: Annotated[
        list[str] | None,
        typer.Option(
            help="table=FILE (JSON), sglang=FILE (its dict) or module=FILE (Python that needs nothing else). Repeat.",
            rich_help_panel=_OUTPUT,
            metavar="KIND=FILE",
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Say from how many rows on which router product is fastest, and what other rules cost under a traffic.

    Exits with 0 when done, with 1 where there is no GPU to measure on, and with 2 for input that cannot be used.
    """
    from workbench.tune.crossover import Settings

    check_class(precision)
    parsed = [parse_shape(router) for router in routers]
    shapes = list({shape[:2]: shape for shape in reversed(parsed)}.values())[::-1]
    targets = _targets(export or [], len(shapes))
    in_use = SGLANG if sglang is None else read_sglang(sglang)
    if state is not None and (from_records or len(shapes) > 1):
        raise InvalidArgument("--state keeps the measurement of one shape. Give one router, and no --from-records.")
    try:
        settings = Settings(width=width, rounds=rounds)
    except InvalidArgument as error:
        raise InvalidArgument(f"--{error}") from None
    weighted = _traffic(traffic, mixed, max_batch, kv_capacity, prefill_budget)
    from workbench.cli import crossover_run as runs

    sources = []
    for k, n, _ in shapes:
        if from_records:
            opened = _store(store)
            sources.append(
                runs.recorded(
                    opened,
                    k,
                    n,
                    gpu=gpu,
                    precision=precision,
                    providers=provider,
                    deviation=deviation,
                    settings=settings,
                )
            )
        else:
            with _progress() as bars:
                sources.append(
                    runs.measured(
                        k,
                        n,
                        precision=precision,
                        providers=provider,
                        settings=settings,
                        state=state,
                        bars=bars,
                    )
                )
    analyses = [
        runs.analysed(source, k, n, weighted, in_use) for source, (k, n, _) in zip(sources, shapes, strict=True)
    ]
    written = _write(targets, analyses)
    written += [save_table(analysis.table) for analysis in analyses] if save else []
    if as_json:
        documents = [runs.document(a, s, model) for a, s, (_, _, model) in zip(analyses, sources, shapes, strict=True)]
        typer.echo(json.dumps(documents, indent=2))
    else:
        for analysis, source, (_, _, model) in zip(analyses, sources, shapes, strict=True):
            runs.show(analysis, source, model)
    for path in written:
        typer.echo(f"Wrote {path}", err=True)


def _targets(export: list[str], shapes: int) -> list[tuple[str, Path]]:
    targets: list[tuple[str, Path]] = []
    for word in export:
        kind, _, name = word.partition("=")
        if kind not in EXPORTS or not name:
            raise InvalidArgument(f"--export {word}: give {', '.join(f'{kind}=FILE' for kind in EXPORTS)}.")
        if kind == "table" and shapes > 1:
            raise InvalidArgument(f"--export {word}: a table is of one shape. Give one router, or --save.")
        path = Path(name)
        check_writable(path)
        if any(os.path.realpath(path) == os.path.realpath(other) for _, other in targets):
            raise InvalidArgument(f"--export {word}: another export goes to that file. Give each a file of its own.")
        targets.append((kind, path))
    return targets


def _traffic(spec: str, mixed: bool, max_batch: int, kv_capacity: int, prefill_budget: int) -> Traffic:
    from workbench.tune.traffic import Traffic
    from workbench.workloads import read_trace, sample_trace

    if spec == "even":
        return Traffic.even()
    trace = sample_trace() if spec == "sample" else read_trace(spec)
    return Traffic.from_trace(
        trace, mixed=mixed, max_batch=max_batch, kv_capacity=kv_capacity, prefill_budget=prefill_budget
    )


def _store(folder: Path | None) -> Store:
    from workbench.records import Store

    if folder is not None and not folder.is_dir():
        raise InvalidArgument(f"there is no folder {folder}. Give the folder of a store of records.")
    return Store(folder)


def _write(targets: list[tuple[str, Path]], analyses: list[Analysis]) -> list[Path]:
    from workbench.cli.crossover_run import sglang_text
    from workbench.tables import module_source

    for kind, path in targets:
        if kind == "table":
            content = analyses[0].table.encode()
        elif kind == "module":
            content = module_source([analysis.table for analysis in analyses]).encode()
        else:
            content = sglang_text(analyses).encode()
        write_whole(path, content)
    return [path for _, path in targets]


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on standard error; nothing where that is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bars:
        yield bars
