"""``workbench tune moe-lint`` and ``workbench tune moe-export``: fused-MoE files of SGLang and vLLM."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from workbench.cli import options


def moe_lint(
    folder: Annotated[Path, typer.Argument(help="SGLANG_MOE_CONFIG_DIR or VLLM_TUNED_CONFIG_FOLDER, or one file.")],
    engine: Annotated[str, typer.Option(help="sglang or vllm.")],
    gpu: Annotated[str | None, typer.Option(help="Name by its driver, such as 'NVIDIA H200'.")] = None,
    triton: Annotated[str | None, typer.Option(help="Version of Triton there; SGLang needs it.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Say which fused-MoE files an engine would never read, or not use as they look.

    Exits with 0 where nothing is found, with 1 where something is, and with 2 for input that cannot be used.
    """
    from workbench.tables.fused_moe import check_engine
    from workbench.tables.fused_moe_lint import lint_file, lint_folder

    known = check_engine(engine)
    found = (
        lint_file(folder, known, gpu=gpu) if folder.is_file() else lint_folder(folder, known, gpu=gpu, triton=triton)
    )
    if as_json:
        typer.echo(json.dumps([{"severity": f.severity, "path": str(f.path), "message": f.message} for f in found]))
    for finding in [] if as_json else found:
        Console(soft_wrap=True).print(str(finding), markup=False, highlight=False)
    if found:
        raise typer.Exit(1)


def moe_export(
    file: Annotated[Path, typer.Argument(help="A fused-MoE file of SGLang or vLLM.")],
    engine: Annotated[str, typer.Option(help="Whom it is for: sglang or vllm.")],
    folder: Annotated[Path, typer.Option(help="The folder that the engine is told.")],
    triton: Annotated[str | None, typer.Option(help="Version of Triton there; SGLang needs it.")] = None,
    gpu: Annotated[str | None, typer.Option(help="For another GPU than the file's, by its driver's name.")] = None,
) -> None:
    """Write a fused-MoE file, of either engine, as one of them reads it, and say which entry serves how many tokens."""
    from workbench.tables.fused_moe import MoeKey, check_engine, read_moe, write_moe

    table = read_moe(file)
    if gpu is not None:
        table = replace(table, key=replace(table.key, device=MoeKey.of(1, 1, gpu).device))
    typer.echo(f"Wrote {write_moe(table, folder, check_engine(engine), triton)}")
    for span in replace(table, tiles=dict(sorted(table.tiles.items()))).spans():
        until = "" if span.last is None else f" to {span.last}"
        typer.echo(f"  {span.first}{until}{' and more' if span.last is None else ''} tokens: entry {span.key}")
