"""``workbench fit``: the cost model's constants from measured calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from workbench.cli import options
from workbench.cli.files import check_writable, write_whole
from workbench.errors import InvalidArgument
from workbench.widgets import text

if TYPE_CHECKING:
    from workbench.measure.fit import Fit
    from workbench.measure.fit_data import LeftOut


def fit(
    store: Annotated[Path, typer.Argument(help="Folder of a store with timings and timelines of decode attention.")],
    gpu: options.Gpu = "H200",
    cache: Annotated[
        list[str] | None, typer.Option(help="fp8 or bf16; repeat for both. Default: those that were measured.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the constants as JSON; the package reads its own from schedule/fitted_constants."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Name every record that is left out.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit the cost model's constants to measured calls, and say how far they are from cases they did not see.

    The fit begins with the model's present constants. Exits with 0 when done and with 1 or 2 for records that cannot be
    used.
    """
    from workbench import devices
    from workbench.measure.fit import error_of
    from workbench.measure.fit import fit as fit_calls
    from workbench.measure.fit_data import observations
    from workbench.measure.fit_file import document, to_text
    from workbench.records import Store
    from workbench.schedule import cost_model

    if not store.is_dir():
        raise InvalidArgument(f"there is no folder {store}. Give the folder of a store of records.")
    if out is not None:
        check_writable(out)
    device, opened = devices.gpu(gpu), Store(store)
    console = Console(stderr=as_json)
    models = {kind: cost_model(device, cache=kind) for kind in cache or ("fp8", "bf16")}
    found = {kind: observations(opened, start) for kind, start in models.items()}
    _tell_left_out({kind: left_out for kind, (_, left_out) in found.items()}, verbose=verbose)
    fits, before = {}, {}
    for kind, (observed, _) in found.items():
        if not observed and cache is None:
            continue
        fits[kind] = (fit_calls(observed, models[kind]), observed)
        before[kind] = (models[kind].constants, error_of(observed, models[kind]))
    if not fits:
        raise InvalidArgument(f"{store} has no call of decode attention on {device.name} that a fit can use.")
    used = {call.path for _, observed in fits.values() for call in observed}
    records = opened.records(operator="attention_decode", gpu=device.name)
    date = max(record.environment.date for path, record in records if path.name in used)
    text = to_text(document(device.name, fits, date=date))
    if as_json:
        typer.echo(text, nl=False)
    else:
        for kind, (fitted, _) in fits.items():
            constants, error = before[kind]
            _show(console, f"{device.name}, {kind} cache", fitted, vars(constants), error)
    if out is not None:
        write_whole(out, text.encode())
        Console(stderr=True).print(f"Wrote {out}", markup=False, highlight=False, soft_wrap=True)


def _tell_left_out(left_out: Mapping[str, Sequence[LeftOut]], *, verbose: bool) -> None:
    """Say which records of each cache type are left out and why: how many for each reason, or one by one."""
    console = Console(stderr=True, soft_wrap=True)
    for cache, records in left_out.items():
        counts = Counter(record.reason for record in records)
        summary = [f"{text.plural(n, f'{cache} record')}: {reason}" for reason, n in counts.items()]
        for line in map(str, records) if verbose else summary:
            console.print(f"Left out {line}", markup=False, highlight=False)
    if any(left_out.values()) and not verbose:
        console.print("--verbose names each record.\n", markup=False, highlight=False, style="dim")


def _show(console: Console, title: str, found: Fit, before: dict[str, object], error: object) -> None:
    """One table of constants and the errors before and after."""
    from workbench.schedule.fitted import NAMES

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("constant", no_wrap=True)
    for heading in ("before", "fitted"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name in NAMES:
        note = "no call depends on it" if name in found.undetermined else ""
        table.add_row(name, f"{before[name]:,}", f"{getattr(found.constants, name):,}", note)
    console.print(table)
    console.print(f"before: {error}", markup=False, highlight=False)
    console.print(f"fitted: {found.error}", markup=False, highlight=False)
    console.print(f"on cases left out: {found.left_out}\n", markup=False, highlight=False)
