"""``workbench bench router``: measure the router GEMM on the GPU at hand, beside cuBLAS in three precisions."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from workbench.cli.files import check_writable
from workbench.errors import InvalidArgument
from workbench.gpu import driver
from workbench.tables import MODELS, parse_shape

if TYPE_CHECKING:
    from workbench.measure.router_case import RouterCase

SHOWN_GPU = "H200"
"""GPU whose recorded figures are shown where nothing can be measured."""


def router(
    routers: Annotated[
        list[str] | None,
        typer.Argument(help=f"{', '.join(MODELS)}, or K,N such as 4096,192. Default: all models.", metavar="MODEL|K,N"),
    ] = None,
    tokens: Annotated[str | None, typer.Option(help="Numbers of tokens, M. Default: 1 to 8192 in 13 steps.")] = None,
    providers: Annotated[
        str | None,
        typer.Option(help="Some of cuda,triton,cublas-fp32,cublas-tf32,cublas-bf16. Default: all."),
    ] = None,
    records: Annotated[
        str, typer.Option(help="Folder of a store to add records to, 'own' for yours, or 'none'.", metavar="STORE")
    ] = "own",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every figure as JSON.", metavar="FILE")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the random inputs. Default: a new one.", min=0)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer replays: wider intervals.")] = False,
) -> None:
    """Time the router GEMM on this GPU: the split weight, by CUDA and Triton, beside cuBLAS.

    Every result is compared with float64 before its time counts. Exits with 0 when done, with 1 without a GPU or where
    one of our own results was wrong or failed, with 2 for input that cannot be used, and with 130 after Ctrl-C, which
    keeps what was finished.
    """
    from workbench.cli import bench
    from workbench.measure.router_case import PROVIDERS, check_providers

    cases = cases_of(routers or list(MODELS), tokens)
    names = PROVIDERS if providers is None else tuple(bench.words(providers, "--providers"))
    check_providers(names)
    if json_file is not None:
        check_writable(json_file)
    if problem := driver.probe().problem:
        show_recorded(cases, names, problem)
        raise typer.Exit(1)
    bench.require_torch()
    from workbench.cli.bench_router_run import RouterSession

    session = RouterSession.here(
        names,
        bench.QUICK_ROUNDS if quick else bench.ROUNDS,
        secrets.randbelow(1 << 31) if seed is None else seed,
        records,
    )
    bench.run(session, cases, (), json_file)


def cases_of(routers: Sequence[str], tokens: str | None) -> list[RouterCase]:
    """The products that the arguments name.

    Raises
    ------
    InvalidArgument
        For a router or a number of tokens that cannot be used.
    """
    from workbench.measure.router_case import MOST_TOKENS, TOKENS, RouterCase

    numbers: list[int] = list(TOKENS)
    if tokens is not None:
        words = [word.strip() for word in tokens.split(",") if word.strip()]
        wrong = [word for word in words if not word.isdecimal() or not 1 <= int(word) <= MOST_TOKENS]
        if wrong or not words:
            raise InvalidArgument(
                f"--tokens {wrong[0] if wrong else tokens!r}: give whole numbers from 1 to {MOST_TOKENS:,}, with "
                "commas between them."
            )
        numbers = [int(word) for word in words]
    shapes = dict.fromkeys(parse_shape(text)[:2] for text in routers)
    return [RouterCase(m, n, k) for k, n in shapes for m in dict.fromkeys(numbers)]


def show_recorded(cases: Sequence[RouterCase], providers: Sequence[str], problem: str) -> None:
    """Say what cannot be done here, and show what was measured elsewhere."""
    from workbench.cli import bench
    from workbench.measure.figures import ROUTER, sources, stored_figures, table_order
    from workbench.measure.tables import LEAST_EXACT
    from workbench.records import Store

    console = Console()
    console.print(f"{problem} Nothing was measured.", markup=False, highlight=False, soft_wrap=True)
    names = [case.name for case in cases]
    found = stored_figures(
        Store(), operator=ROUTER, gpu=SHOWN_GPU, cases=names, dtypes=["bf16"], kinds=("timing", "reference")
    )
    found = [figure for figure in found if figure.is_reference or figure.provider in providers]
    if not found:
        console.print(
            f"No recorded figure matches either; `workbench records --gpu {SHOWN_GPU}` lists what there is.",
            soft_wrap=True,
        )
        return
    console.print(
        f"Recorded on an {SHOWN_GPU} instead; `workbench records` has intervals and samples:", highlight=False
    )
    order = {name: at for at, name in enumerate(names)}
    bench.print_summary(sorted(found, key=lambda f: (order[f.case], table_order(f))), {})
    marks = [f"* fastest recorded of those within {LEAST_EXACT:g} of float64, with its error at the end of the row."]
    marks += ["! clocks were held down while it was measured."] if any(f.throttled for f in found) else []
    console.print("\n" + "\n".join(marks), markup=False, highlight=False)
    console.print("\n" + "\n".join(sources(found)), style="dim", markup=False, highlight=False, soft_wrap=True)
