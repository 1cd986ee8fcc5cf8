"""``workbench bench``: measure operators on the GPU at hand, beside others and beside what the memory allows."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from workbench.cli.bench_router import router
from workbench.cli.files import check_writable, write_whole
from workbench.cli.policy import load_policy
from workbench.errors import InvalidArgument, LaunchError, RecordError
from workbench.gpu import driver
from workbench.schedule import Policy, cost_model, resolve
from workbench.workloads import MIXES, read_trace, simulate

if TYPE_CHECKING:
    from workbench.cli.bench_router_run import RouterSession
    from workbench.cli.bench_run import Session
    from workbench.measure.attention_case import AttentionCase
    from workbench.measure.figures import Figure
    from workbench.measure.router_case import RouterCase

CACHES = {"fp8": ("fp8",), "bf16": ("bf16",), "both": ("fp8", "bf16")}
WHAT = ("attention", "map")
QUICK_ROUNDS, ROUNDS = 5, 15
SHOWN_GPU = "H200"
"""GPU whose recorded figures are shown where nothing can be measured."""

app = typer.Typer(help="Measure operators on the GPU at hand.", no_args_is_help=True)
app.command()(router)


@app.callback()
def _bench() -> None:
    """Measure operators on the GPU at hand, beside others and beside what the memory allows."""


@app.command()
def attention(
    cases: Annotated[
        str,
        typer.Option(
            help="'article' (the six of its Table 1), lengths such as 64x4K,2x32K+30x4K, a file of lengths, or with "
            "--step a request trace.",
        ),
    ] = "article",
    step: Annotated[
        list[int] | None, typer.Option(help="Decode step of a trace, simulated. Repeat for several.")
    ] = None,
    cache: Annotated[str, typer.Option(help="KV cache: fp8, bf16 or both.")] = "both",
    providers: Annotated[
        str | None, typer.Option(help="Some of cuda,triton,torch,flashinfer,fa3,hpc. Default: all.")
    ] = None,
    policies: Annotated[
        str, typer.Option(help="Policies of our kernel; file.py:function is one of yours.")
    ] = "balanced,hpc-ops,lpt",
    variants: Annotated[
        str,
        typer.Option(
            help="Launches of our kernel: early (reads map and cache before the kernel ahead has ended), default "
            "(waits), alone (no programmatic dependence)."
        ),
    ] = "early,default,alone",
    splits: Annotated[
        bool,
        typer.Option("--splits", help="Try fixed splits 2 to 32 and fixed chunks 1K to 8K, not only the model's best."),
    ] = False,
    what: Annotated[str, typer.Option(help="attention, map, or both: attention,map.")] = "attention",
    records: Annotated[
        str, typer.Option(help="Folder of a store to add records to, 'own' for yours, or 'none'.", metavar="STORE")
    ] = "own",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every figure as JSON.", metavar="FILE")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the random inputs. Default: a new one.", min=0)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer replays: wider intervals.")] = False,
) -> None:
    """Time decode attention on this GPU, beside other implementations and a bare read of the same bytes.

    Every result is compared with float64 before its time counts. Figures of others are labelled as such. Exits with 0
    when done, with 1 without a GPU or where one of our own results was wrong or failed, with 2 for input that cannot be
    used, and with 130 after Ctrl-C, which keeps what was finished.
    """
    wanted = tuple(words(what, "--what"))
    if unknown := [name for name in wanted if name not in WHAT]:
        raise InvalidArgument(f"--what {unknown[0]}: give {' or '.join(WHAT)}, or both with a comma.")
    if cache not in CACHES:
        raise InvalidArgument(f"--cache {cache}: give {', '.join(CACHES)}.")
    if json_file is not None:
        check_writable(json_file)
    batches = _cases(cases, step, CACHES[cache])
    from workbench.measure.attention_case import PROVIDERS, check_choices

    names = PROVIDERS if providers is None else tuple(words(providers, "--providers"))
    launches = tuple(words(variants, "--variants"))
    check_choices(names, launches)
    schemes = tuple(_policy(word) for word in words(policies, "--policies"))
    for scheme in schemes:
        resolve(scheme)
    if problem := driver.probe().problem:
        _show_recorded(batches, wanted, names, launches, problem)
        raise typer.Exit(1)
    require_torch()

    from workbench.cli.bench_run import Session
    from workbench.measure import attention as measured

    settings = measured.Settings(
        providers=names,
        policies=schemes,
        variants=launches,
        splits=splits,
        rounds=QUICK_ROUNDS if quick else ROUNDS,
        seed=secrets.randbelow(1 << 31) if seed is None else seed,
    )
    session = Session.here(settings, records)
    run(session, batches, wanted, json_file)


def run(
    session: Session | RouterSession,
    batches: Sequence[AttentionCase] | Sequence[RouterCase],
    what: Sequence[str],
    json_file: Path | None,
) -> None:
    """Measure, show each case as it is finished, and end with the table over all.

    Raises
    ------
    typer.Exit
        With 1 where one of ours was wrong or failed, with 130 after Ctrl-C.
    """
    console = Console()
    interrupted = False
    lost: LaunchError | RecordError | None = None
    try:
        for step in session.steps(batches, what):  # type: ignore[arg-type]  # each takes cases of its own
            shown = step()
            if shown is not None:
                console.print(f"\n{shown.title}", style="bold", markup=False, highlight=False)
                _print_wide(shown.table)
    except KeyboardInterrupt:
        interrupted = True
    except (LaunchError, RecordError) as error:  # the GPU or the store is lost
        lost = error
    print_summary(session.figures, session.floors)
    for line in session.remarks():
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if json_file is not None:
        write_whole(json_file, json.dumps(session.document(), indent=1, allow_nan=False).encode())
    if interrupted:
        console.print("Interrupted: what was finished is shown and kept.", style="yellow")
        raise typer.Exit(130)
    if lost is not None:
        raise lost
    if session.own_faults():
        raise typer.Exit(1)


def require_torch() -> None:
    """Pass where torch is installed and can use the GPU that the driver shows."""
    import workbench.ops  # noqa: F401  (says how to get torch where it is missing)
    from workbench.measure.environment import check_torch

    check_torch()


def _policy(word: str) -> str | Policy:
    """A policy's name as it is, or the policy in a user's file; names are resolved case by case, for their costs."""
    return load_policy(word, cost_model()) if ":" in word else word


def words(text: str, option: str) -> list[str]:
    """The words between commas.

    Raises
    ------
    InvalidArgument
        There is none.
    """
    found = [word.strip() for word in text.split(",") if word.strip()]
    if not found:
        raise InvalidArgument(f"{option} is empty. Leave it out, or name some, with commas between them.")
    return found


def _cases(spec: str, steps: list[int] | None, caches: Sequence[str]) -> list[AttentionCase]:
    """Batches that an option names, for each type of cache."""
    from workbench.cli.plan import read_lengths
    from workbench.measure.attention_case import AttentionCase, case_name

    if steps:
        if spec == "article":
            raise InvalidArgument(f"--step {steps[0]} is of a trace. Name its file by --cases, or leave --step out.")
        simulated = simulate(read_trace(spec))
        stem = case_name(Path(spec).stem, [1])
        named = {f"{stem}-step{range(len(simulated))[at]}": simulated.lengths(at).astype(np.int64) for at in steps}
    elif spec == "article":
        named = {name: read_lengths(name) for name in MIXES}
    elif Path(spec).is_file() or spec == "-":
        lengths = read_lengths(spec)
        named = {case_name(" ", lengths): lengths}
    else:
        batches = {word: read_lengths(word) for word in words(spec, "--cases")}
        named = {case_name(word, lengths): lengths for word, lengths in batches.items()}
    return [AttentionCase(name, lengths, cache) for cache in caches for name, lengths in named.items()]


def _show_recorded(
    batches: Sequence[AttentionCase],
    what: Sequence[str],
    providers: Sequence[str],
    launches: Sequence[str],
    problem: str,
) -> None:
    """Say what cannot be done here, and show what was measured elsewhere of the providers and launches asked for."""
    from workbench import devices
    from workbench.measure.figures import ATTENTION, LARGE_MAP, TASK_MAP, floor_us, sources, stored_figures, table_order
    from workbench.records import Store

    console = Console()
    console.print(f"{problem} Nothing was measured.", markup=False, highlight=False, soft_wrap=True)
    names, caches = list(dict.fromkeys(b.name for b in batches)), list(dict.fromkeys(b.cache for b in batches))
    names += [LARGE_MAP] if "map" in what and LARGE_MAP not in names else []
    found: list[Figure] = []
    for part in what:
        operator = {"attention": ATTENTION, "map": TASK_MAP}[part]
        found += stored_figures(
            Store(), operator=operator, gpu=SHOWN_GPU, cases=names, dtypes=caches, kinds=("timing", "reference")
        )
    # A provider may have been measured in several forms, such as hpc-dynamic; the bare read belongs to all.
    found = [f for f in found if f.is_read or f.provider.split("-")[0] in providers]
    found = [f for f in found if f.provider != "cuda" or f.operator != ATTENTION or f.variant in launches]
    if all(f.is_read for f in found):
        console.print(
            f"No recorded figure matches either; `workbench records --gpu {SHOWN_GPU}` lists what there is.",
            soft_wrap=True,
        )
        return
    console.print(
        f"Recorded on an {SHOWN_GPU} instead; `workbench records` has intervals and samples:", highlight=False
    )
    gpu = devices.gpu(SHOWN_GPU)
    floors = {(b.cache, b.name): floor_us(b.kv_bytes, b.operations, gpu) for b in batches}
    order = {name: at for at, name in enumerate(names)}
    print_summary(sorted(found, key=lambda f: (order[f.case], table_order(f))), floors)
    console.print("\n" + "\n".join(sources(found)), style="dim", markup=False, highlight=False, soft_wrap=True)


def print_summary(figures: Sequence[Figure], floors: dict[tuple[str, str], float]) -> None:
    """Print one table over the cases for each operator and type."""
    from workbench.measure.figures import ATTENTION, ROUTER, TASK_MAP
    from workbench.measure.tables import summary_table

    headings = {ATTENTION: "Decode attention", TASK_MAP: "Building the task map", ROUTER: "Router GEMM"}
    for operator, dtype in dict.fromkeys((f.operator, f.dtype) for f in figures):
        group = [f for f in figures if (f.operator, f.dtype) == (operator, dtype)]
        title = f"{headings[operator]}{f', {dtype} cache' if dtype and operator == ATTENTION else ''}, median us a call"
        Console().print(f"\n{title}", style="bold", highlight=False)
        _print_wide(summary_table(group, {case: us for (cache, case), us in floors.items() if cache == dtype}))


def _print_wide(table: Table) -> None:
    """Print without cutting a number: where the terminal is narrow, lines break."""
    console = Console()
    width = Measurement.get(console, console.options.update(max_width=10_000), table).minimum
    Console(width=max(width, console.width)).print(table)
