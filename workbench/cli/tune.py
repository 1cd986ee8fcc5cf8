"""``workbench tune``: configurations of a kernel, what each needs, how fast each is here, which becomes the default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from workbench.cli import options
from workbench.cli.tune_moe import moe_export, moe_lint
from workbench.cli.tune_space import described, show_rows

app = typer.Typer(help="Tune tile sizes: list, compile, measure, apply.", no_args_is_help=True)

_WORK, _SPACE = "Workload", "Space"

Operator = Annotated[str, typer.Argument(help="attention or router.", metavar="OPERATOR")]
Work = Annotated[
    str, typer.Argument(help="Attention: KV lengths such as 64x4K. Router: a model, or K,N such as 4096,192.")
]
Tokens = Annotated[int, typer.Option(help="Router: tokens M.", rich_help_panel=_WORK, min=1)]
Terms = Annotated[int, typer.Option(help="Router: terms of the weight, 2 or 3.", rich_help_panel=_WORK)]
Whole = Annotated[bool, typer.Option("--whole", help="Every value that the kernel declares.", rich_help_panel=_SPACE)]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Values of a parameter, such as stages=4,6. Repeat.", rich_help_panel=_SPACE, metavar="NAME=V,..."
    ),
]
Default = Annotated[
    bool,
    typer.Option("--applicable", help="Only what could become the default: see `apply`.", rich_help_panel=_SPACE),
]


@app.callback()
def _tune() -> None:
    """Tune tile sizes: list, compile, measure, apply."""


@app.command("list")
def list_(
    operator: Operator,
    work: Work,
    tokens: Tokens = 64,
    terms: Terms = 2,
    cache: options.Cache = "fp8",
    group: options.Group = 8,
    kv_heads: options.KvHeads = 1,
    head_dim: options.HeadDim = 128,
    q_len: options.QLen = 1,
    whole: Whole = False,
    values: Set = None,
    applicable: Default = False,
    refused: Annotated[bool, typer.Option("--refused", help="List what cannot run, with the reason.")] = False,
    most: Annotated[int, typer.Option(help="Rows printed; the counts are of all.", min=1)] = 40,
    as_json: options.AsJson = False,
) -> None:
    """List the configurations of a kernel for a workload; needs no GPU, and compiles nothing."""
    space = described(operator, work, tokens, terms, cache, group, kv_heads, head_dim, q_len, whole, values, applicable)
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
def resources(
    operator: Operator,
    work: Work,
    tokens: Tokens = 64,
    terms: Terms = 2,
    cache: options.Cache = "fp8",
    group: options.Group = 8,
    kv_heads: options.KvHeads = 1,
    head_dim: options.HeadDim = 128,
    q_len: options.QLen = 1,
    whole: Whole = False,
    values: Set = None,
    applicable: Default = False,
    most: Annotated[int, typer.Option(help="Compile the default and what the cost model ranks first.", min=1)] = 50,
    gpu: options.Gpu = "H200",
    code: Annotated[bool, typer.Option("--code", help="Count tensor-core, copy and spill instructions.")] = False,
    records: Annotated[
        str, typer.Option(help="Folder of a store to add records to, 'own', or 'none'.", metavar="STORE")
    ] = "none",
    as_json: options.AsJson = False,
) -> None:
    """Compile configurations and say what each needs of an SM; needs no GPU.

    Exits with 0 when done, and with 1 where one does not compile or fits no SM.
    """
    from workbench.tune.resources import record_of
    from workbench.tune.resources import resources as compiled
    from workbench.tune.resources_sass import machine_code

    space = described(operator, work, tokens, terms, cache, group, kv_heads, head_dim, q_len, whole, values, applicable)
    with _bar("compiling") as step:
        found = compiled(space, space.promising(most, gpu), gpu=gpu, progress=step)
    rows = [each.to_row() for each in found]
    if code:
        for row, each in zip(rows, found, strict=True):
            row.update(machine_code(each.kernel).summary() if each.kernel else {})
    store = _store(records)
    if store is not None:
        for record in (record_of(each, space, gpu) for each in found):
            if record is not None:
                store.add(record)
    if as_json:
        typer.echo(json.dumps([{k: None if v != v else v for k, v in row.items()} for row in rows]))
    else:
        title = f"{space.operator} {space.workload.case} on {gpu}: compiled, not run; times are modelled"
        Console().print(title, style="bold", highlight=False)
        show_rows([_shown(row) for row in rows])
    if any(each.problem for each in found):
        raise typer.Exit(1)


@app.command()
def code(
    operator: Operator,
    work: Work,
    tokens: Tokens = 64,
    terms: Terms = 2,
    cache: options.Cache = "fp8",
    group: options.Group = 8,
    kv_heads: options.KvHeads = 1,
    head_dim: options.HeadDim = 128,
    q_len: options.QLen = 1,
    values: Set = None,
    gpu: options.Gpu = "H200",
) -> None:
    """Print the machine code of one configuration: the default, with what --set changes.

    Lines that multiply on tensor cores, start the copy engine or spill registers are marked; their numbers go to
    standard error. Needs no GPU.
    """
    from workbench.tune.resources_sass import listing, machine_code

    space = described(operator, work, tokens, terms, cache, group, kv_heads, head_dim, q_len, False, values, False)
    changed = {name: known[0] for name, known in space.parameters.items() if f"{name}=" in " ".join(values or [])}
    config = space.config(**{**space.default(gpu).to_dict(), **changed})
    kernel = space.job(config).compile()
    typer.echo(listing(kernel))
    counts = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in machine_code(kernel).summary().items())
    typer.echo(f"{config}: {counts}", err=True)


@app.command()
def run(
    operator: Operator,
    work: Work,
    tokens: Tokens = 64,
    terms: Terms = 2,
    cache: options.Cache = "fp8",
    group: options.Group = 8,
    kv_heads: options.KvHeads = 1,
    head_dim: options.HeadDim = 128,
    q_len: options.QLen = 1,
    whole: Whole = False,
    values: Set = None,
    applicable: Default = False,
    promising: Annotated[
        int | None,
        typer.Option(help="Only so many that the cost model ranks first.", rich_help_panel=_SPACE, min=2),
    ] = None,
    method: Annotated[str, typer.Option(help="grid, random or tpe.")] = "grid",
    trials: Annotated[int | None, typer.Option(help="Stop after so many trials in all.", min=1)] = None,
    journal: Annotated[
        Path | None, typer.Option(help="Default: in the folder of your studies.", metavar="FILE")
    ] = None,
    gpus: Annotated[str, typer.Option(help="GPUs of this machine, such as 0,1; several need `distributed`.")] = "0",
    cluster: Annotated[str | None, typer.Option(help="Address of a Dask scheduler instead.", metavar="ADDRESS")] = None,
    seconds: Annotated[float, typer.Option(help="Longest a configuration may take.", min=1)] = 60,
    seed: Annotated[int, typer.Option(help="Of the inputs and of the search.", min=0)] = 0,
    records: Annotated[
        str, typer.Option(help="Folder of a store to add records to, 'own' for yours, or 'none'.", metavar="STORE")
    ] = "own",
) -> None:
    """Measure configurations on this GPU: each is checked first, failures are kept, the best compete in turns.

    What is finished is in the journal, so an interrupted or killed study goes on with the same command. Exits with 0
    when done, with 1 without a GPU, and with 130 after Ctrl-C.
    """
    from workbench.cli import tune_run

    space = described(operator, work, tokens, terms, cache, group, kv_heads, head_dim, q_len, whole, values, applicable)
    tune_run.measure(
        space,
        tune_run.Plan(
            promising=promising,
            method=method,
            trials=trials,
            journal=journal,
            gpus=tune_run.ordinals(gpus),
            cluster=cluster,
            seconds=seconds,
            seed=seed,
            store=_store(records),
        ),
    )


@app.command()
def resume(
    journal: Annotated[Path, typer.Argument(help="Of the study to go on with.", metavar="JOURNAL")],
    method: Annotated[str, typer.Option(help="grid, random or tpe.")] = "grid",
    trials: Annotated[int | None, typer.Option(help="Stop after so many trials in all.", min=1)] = None,
    gpus: Annotated[str, typer.Option(help="GPUs of this machine, such as 0,1.")] = "0",
    seconds: Annotated[float, typer.Option(help="Longest a configuration may take.", min=1)] = 60,
    seed: Annotated[int, typer.Option(help="Of the inputs and of the search.", min=0)] = 0,
    records: Annotated[str, typer.Option(help="As of `run`.", metavar="STORE")] = "own",
) -> None:
    """Go on with a study by its journal alone; what is finished is not measured again."""
    from workbench.cli import tune_run
    from workbench.tune.spaces import space_from
    from workbench.tune.study_journal import about_of

    space = space_from(about_of(journal)["space"])
    chosen = tune_run.ordinals(gpus)
    plan = tune_run.Plan(
        method=method, trials=trials, journal=journal, gpus=chosen, seconds=seconds, seed=seed, store=_store(records)
    )
    tune_run.measure(space, plan)


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

    A default cannot change what another call or the caller decides: attention's tile, CTAs an SM and early_map.
    """
    from workbench.cli import tune_run

    typer.echo(tune_run.apply(journal, force=force, withdraw=withdraw))


def _store(where: str) -> Any:
    from workbench.records import Store

    return None if where == "none" else Store() if where == "own" else Store(Path(where))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row of resources with numbers as a reader wants them."""
    kept = {name: value for name, value in row.items() if name not in ("stack_bytes", "code_bytes", "problem")}
    for name in ("waves", "modelled_us", "occupancy"):
        if kept.get(name) is not None:
            kept[name] = f"{kept[name]:.2f}"
    return kept | ({"problem": " ".join(str(row["problem"]).split())[:80]} if row["problem"] else {})


def _bar(what: str) -> Any:
    from workbench.cli.tune_run import bar

    return bar(what)


app.command()(moe_lint)
app.command()(moe_export)
