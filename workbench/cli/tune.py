"""``workbench tune``: configurations of a kernel, what each needs, how fast each is here, which becomes the default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from workbench.cli import options
from workbench.cli.groups import takes
from workbench.cli.tune_moe import moe_export, moe_lint
from workbench.cli.tune_options import Records, SpaceOptions, StudyOptions, store_of
from workbench.cli.tune_table import in_words, show_rows

app = typer.Typer(help="Tune tile sizes: list, compile, measure, apply.", no_args_is_help=True)


@app.callback()
def _tune() -> None:
    """Tune tile sizes: list, compile, measure, apply."""


@app.command("list")
@takes(SpaceOptions)
def list_(
    wanted: SpaceOptions,
    refused: Annotated[bool, typer.Option("--refused", help="List what cannot run, with the reason.")] = False,
    most: Annotated[int, typer.Option(help="Rows printed; the counts are of all.", min=1)] = 40,
    as_json: options.AsJson = False,
) -> None:
    """List the configurations of a kernel for a workload; needs no GPU, and compiles nothing."""
    space = wanted.space()
    if as_json:
        document: dict[str, Any] = {
            "space": space.to_dict(),
            "default": space.default().to_dict(),
            "valid": [config.to_dict() for config in space],
            "refused": [{"values": each.values, "reason": each.reason} for each in space.refused],
        }
        typer.echo(json.dumps(document))
        return
    console = Console()
    counts = f"{len(space):,} configurations can run, {len(space.refused):,} cannot."
    console.print(f"{space.operator} {space.workload.case}: {counts}", highlight=False)
    for name, known in space.parameters.items():
        console.print(
            f"  {name}: {', '.join(map(str, known))}  ({space.meanings[name]})", highlight=False, soft_wrap=True
        )
    rows = [{**each.values, "reason": each.reason} for each in space.refused] if refused else []
    rows = rows or [] if refused else [{**c.to_dict(), "modelled us": f"{space.modelled_us(c):.2f}"} for c in space]
    show_rows(rows[:most])
    if len(rows) > most:
        console.print(f"... and {len(rows) - most:,} more; --most or --json has them.", highlight=False)


@app.command()
@takes(SpaceOptions)
def resources(
    wanted: SpaceOptions,
    most: Annotated[int, typer.Option(help="Compile the default and what the cost model ranks first.", min=1)] = 50,
    gpu: options.Gpu = "H200",
    code: Annotated[bool, typer.Option("--code", help="Count tensor-core, copy and spill instructions.")] = False,
    records: Records = "none",
    as_json: options.AsJson = False,
) -> None:
    """Compile configurations and say what each needs of an SM; needs no GPU.

    Exits with 0 when done, and with 1 where one does not compile or fits no SM.
    """
    from workbench.cli.tune_run import bar
    from workbench.tune.resources import record_of
    from workbench.tune.resources import resources as compiled
    from workbench.tune.resources_sass import machine_code

    space = wanted.space()
    with bar("compiling") as step:
        found = compiled(space, space.promising(most, gpu), gpu=gpu, progress=step)
    rows = [each.to_row() for each in found]
    if code:
        for row, each in zip(rows, found, strict=True):
            row.update(machine_code(each.kernel).summary() if each.kernel else {})
    store = store_of(records)
    if store is not None:
        for record in (record_of(each, space, gpu) for each in found):
            if record is not None:
                store.add(record)
    if as_json:
        typer.echo(json.dumps([{k: None if v != v else v for k, v in row.items()} for row in rows]))
    else:
        title = f"{space.operator} {space.workload.case} on {gpu}: compiled, not run; times are modelled"
        Console().print(title, style="bold", highlight=False)
        show_rows([in_words(row) for row in rows])
    if any(each.problem for each in found):
        raise typer.Exit(1)


@app.command()
@takes(SpaceOptions, but=("whole", "applicable"))
def code(wanted: SpaceOptions, gpu: options.Gpu = "H200") -> None:
    """Print the machine code of one configuration: the default, with what --set changes.

    Lines that multiply on tensor cores, start the copy engine or spill registers are marked; their numbers go to
    standard error. Needs no GPU.
    """
    from workbench.tune.resources_sass import listing, machine_code

    space = wanted.space()
    named = {word.partition("=")[0] for word in wanted.values or []}
    changed = {name: known[0] for name, known in space.parameters.items() if name in named}
    config = space.config(**{**space.default(gpu).to_dict(), **changed})
    kernel = space.job(config).compile()
    typer.echo(listing(kernel))
    counts = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in machine_code(kernel).summary().items())
    typer.echo(f"{config}: {counts}", err=True)


@app.command()
@takes(SpaceOptions, StudyOptions)
def run(
    wanted: SpaceOptions,
    how: StudyOptions,
    promising: Annotated[
        int | None,
        typer.Option(help="Only so many that the cost model ranks first.", rich_help_panel="Space", min=2),
    ] = None,
) -> None:
    """Measure configurations on this GPU: each is checked first, failures are kept, the best compete in turns.

    What is finished is in the journal, so an interrupted or killed study goes on with the same command. Exits with 0
    when done, with 1 without a GPU, and with 130 after Ctrl-C.
    """
    from workbench.cli import tune_run

    tune_run.measure(wanted.space(), how.plan(promising=promising))


@app.command()
@takes(StudyOptions, but=("journal", "cluster"))
def resume(
    how: StudyOptions,
    journal: Annotated[Path, typer.Argument(help="Of the study to go on with.", metavar="JOURNAL")],
) -> None:
    """Go on with a study by its journal alone; what is finished is not measured again."""
    from workbench.cli import tune_run
    from workbench.tune.spaces import space_from
    from workbench.tune.study_journal import about_of

    space = space_from(about_of(journal)["space"])
    tune_run.measure(space, how.plan(journal=journal))


@app.command()
def show(
    journal: Annotated[Path, typer.Argument(help="Of a study.", metavar="JOURNAL")],
    most: Annotated[int, typer.Option(help="Rows printed.", min=1)] = 20,
    as_json: options.AsJson = False,
) -> None:
    """Show what a study found so far; needs no GPU."""
    from workbench.cli import tune_run

    document = tune_run.document(journal)
    if as_json:
        typer.echo(json.dumps(document))
    else:
        tune_run.show(document, most)


@app.command()
def apply(
    journal: Annotated[Path, typer.Argument(help="Of a finished study.", metavar="JOURNAL")],
    force: Annotated[bool, typer.Option("--force", help="Also where it is not surely faster.")] = False,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take your own default back instead.")] = False,
) -> None:
    """Make the best of a study the default of its GPU and shape: `config=None` uses it from the next process on.

    A default cannot change what another call or the caller decides: attention's tile, CTAs an SM and what may
    be read early.
    """
    from workbench.cli import tune_run

    typer.echo(tune_run.apply(journal, force=force, withdraw=withdraw))


app.command()(moe_lint)
app.command()(moe_export)
