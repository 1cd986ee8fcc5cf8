"""``workbench capture``: profiles of Nsight Compute into a store; of one configuration, of a file, or imported."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from workbench.cli import options
from workbench.errors import InvalidArgument, WorkbenchError

if TYPE_CHECKING:
    from workbench.capture import Captured, Progress, Request


class _RunByDefault(TyperGroup):
    """``workbench capture attention_decode`` means ``workbench capture run attention_decode``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["run", *args])


app = typer.Typer(
    cls=_RunByDefault,
    no_args_is_help=True,
    help="Profile with Nsight Compute, a record a configuration. `workbench capture OPERATOR` runs one.",
)

StoreFolder = Annotated[
    Path | None, typer.Option("--store", help="Folder of a store. Default: your own (WORKBENCH_RECORDS_DIR).")
]
Python = Annotated[
    str | None, typer.Option(help="Interpreter that has nsight-python. Default: the one that runs this command.")
]
Timeout = Annotated[float, typer.Option(help="Limit of one capture process, seconds.", min=1)]
NoReport = Annotated[bool, typer.Option("--no-report", help="Do not keep the .ncu-rep beside the record.")]


@app.command()
def run(
    operator: Annotated[str, typer.Argument(help="attention_decode ..., or package.module:function of your own.")],
    workload: Annotated[
        str, typer.Option("-w", "--workload", help="Such as 64x4K; or name=value,... as the operator takes it.")
    ] = "",
    config: Annotated[
        list[str] | None, typer.Option("-c", "--config", help="name=value of the configuration; may be repeated.")
    ] = None,
    provider: Annotated[str | None, typer.Option(help="Whose implementation. Default: the operator's first.")] = None,
    policy: Annotated[str | None, typer.Option(help="Scheduling policy, where the operator has one.")] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option("-m", "--metrics", help="overview, memory, tensor, schedule, or a metric; may be repeated."),
    ] = None,
    runs: Annotated[int, typer.Option(help="How often the call is profiled.", min=1, max=100)] = 1,
    seed: options.Seed = 0,
    no_counters: Annotated[
        bool, typer.Option("--no-counters", help="Event timing and in-kernel timeline: needs no permission.")
    ] = False,
    store: StoreFolder = None,
    python: Python = None,
    timeout: Timeout = 180.0,
    no_report: NoReport = False,
    as_json: options.AsJson = False,
) -> None:
    """Capture one configuration.

    Exits with 0 when done, with 1 when the capture failed, and with 2 for input that cannot be used.
    """
    from workbench.capture import capture as start

    given = _pairs([workload] if "=" in workload else []) or workload or None
    with _progress() as told:
        captured = start(
            operator,
            _pairs(config or []),
            given,
            provider,
            policy=policy,
            metrics=metrics or ["overview"],
            runs=runs,
            seed=seed,
            counters=not no_counters,
            store=store,
            python=python,
            timeout_s=timeout,
            keep_report=not no_report,
            on_progress=told,
        ).result()
    if as_json:
        typer.echo(json.dumps(_plain(captured), indent=2))
        return
    _table(captured)


@app.command()
def batch(
    file: Annotated[
        Path,
        typer.Argument(help="JSON: a list of objects with operator, config, workload, policy, metrics ..."),
    ],
    again: Annotated[bool, typer.Option("--again", help="Capture also what the store has.")] = False,
    group: Annotated[
        int, typer.Option(help="Configurations in one process: faster, but a kill loses all of a group.", min=1)
    ] = 1,
    store: StoreFolder = None,
    python: Python = None,
    timeout: Timeout = 180.0,
    no_report: NoReport = False,
    as_json: options.AsJson = False,
) -> None:
    """Capture what a file lists; asked for again, it goes on where it stopped.

    Exits with 0 when all are captured, with 1 when some failed, and with 2 for input that cannot be used.
    """
    from workbench.capture import capture_batch

    asked = _requests(file)
    with _progress() as told:
        result = capture_batch(
            asked,
            again=again,
            group=group,
            store=store,
            python=python,
            timeout_s=timeout,
            keep_report=not no_report,
            on_progress=told,
        ).result()
    if as_json:
        captured = [None if one is None else _plain(one) for one in result.captured]
        failures = {str(at + 1): str(error) for at, error in result.failures.items()}
        typer.echo(json.dumps({"captured": captured, "failures": failures}, indent=2))
    else:
        done = sum(one is not None for one in result.captured) - result.skipped
        console = Console(soft_wrap=True)
        console.print(f"{done} captured, {result.skipped} were there, {len(result.failures)} failed.", highlight=False)
        for at, error in result.failures.items():
            console.print(f"{at + 1}. {error}", markup=False, highlight=False)
    if result.failures:
        raise typer.Exit(1)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="Report of Nsight Compute (.ncu-rep).")],
    operator: Annotated[str | None, typer.Option(help="Operator to keep it under. Default: the kernel's name.")] = None,
    provider: Annotated[str, typer.Option(help="Whose implementation it is.")] = "imported",
    case: Annotated[str | None, typer.Option(help="Name of the workload. Default: the file's name.")] = None,
    store: StoreFolder = None,
    no_report: NoReport = False,
    as_json: options.AsJson = False,
) -> None:
    """Make records of a report that was made anywhere; needs no GPU.

    Exits with 0 when done and with 2 for a file that cannot be used.
    """
    from workbench.capture import import_report

    paths = import_report(file, store=store, operator=operator, provider=provider, case=case, keep_report=not no_report)
    if as_json:
        typer.echo(json.dumps([str(path) for path in paths], indent=2))
        return
    for path in paths:
        typer.echo(path)


def _requests(file: Path) -> list[Request]:
    """The requests that a file lists.

    Raises
    ------
    InvalidArgument
        It is no such file; the message names the entry.
    """
    from workbench.capture import request

    try:
        listed = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"{file} cannot be read: {error}. Give a JSON list of captures.") from None
    if not isinstance(listed, list) or not listed or not all(isinstance(entry, dict) for entry in listed):
        raise InvalidArgument(f"{file}: give a JSON list of objects, at least one.")
    found = []
    for at, entry in enumerate(listed, 1):
        try:
            found.append(request(**entry))
        except TypeError as error:
            raise InvalidArgument(f"{file}, entry {at}: {error}.") from None
        except WorkbenchError as error:
            raise InvalidArgument(f"{file}, entry {at}: {error}") from None
    return found


def _pairs(words: list[str]) -> dict[str, Any]:
    """``name=value`` and ``name=value,name=value``; a value is JSON where it can be, else text.

    A comma ends a value where another name follows, so that values such as ``[1,2]`` have commas of their own.
    """
    found: dict[str, Any] = {}
    for pair in (part for word in words for part in re.split(r",(?=\s*[^\W\d]\w*=)", word)):
        name, equals, value = pair.strip().partition("=")
        if not equals or not name.isidentifier():
            raise InvalidArgument(f"{pair!r} is no name=value.")
        if name in found:
            raise InvalidArgument(f"{name} is given twice, as {found[name]!r} and as {value!r}. Give it once.")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _plain(captured: Captured) -> dict[str, Any]:
    record = json.loads(captured.record.encode())
    return {"path": str(captured.path), "seconds": round(captured.seconds, 2), "record": record}


def _table(captured: Captured) -> None:
    console = Console(soft_wrap=True)
    table = Table("metric", "value", "unit", "deviation", box=None, pad_edge=False)
    for column in (table.columns[1], table.columns[3]):
        column.justify = "right"
    for row in captured.to_frame().to_dict(orient="records"):
        deviation = row["deviation"]
        shown = "" if deviation is None or math.isnan(deviation) else f"{deviation:,.6g}"
        table.add_row(row["metric"], f"{row['value']:,.6g}", str(row["unit"] or ""), shown)
    if table.row_count:
        console.print(table)
    else:
        console.print(f"{captured.record.model_dump()['median_us']:.2f} us a call", highlight=False)
    console.print(captured.record.method or "", style="dim", markup=False, highlight=False)
    if (agreement := captured.agreement) is not None:
        console.print(f"{agreement.verdict}\n{agreement}", markup=False, highlight=False)
    console.print(f"{captured.path} ({captured.seconds:.1f} s)", markup=False, highlight=False)
    if captured.report:
        console.print(f"Open it with: ncu-ui {captured.report}", markup=False, highlight=False)


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """One line on standard error that tells the stage; nothing where that is not a terminal."""
    console = Console(stderr=True)
    with console.status("starting") as status:
        if not sys.stderr.isatty():
            status.stop()

        def told(now: Progress) -> None:
            status.update(f"{now.done} of {now.total}  {now.label}: {now.stage}".replace("[", r"\["))

        yield told
