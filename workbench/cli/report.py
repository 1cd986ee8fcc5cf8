"""``workbench report``: the main job without a notebook, a trace to one HTML page."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from workbench.cli import options
from workbench.cli.files import check_writable, write_whole
from workbench.cli.policy import load_policy
from workbench.cli.progress import stages
from workbench.errors import InvalidArgument

DYNAMIC = ("balanced", "hpc-ops", "lpt")

MOST_STEPS = 32_768
"""Steps evaluated unless --every says otherwise: neighbouring steps differ by one token a request."""


def report(
    context: typer.Context,
    trace: Annotated[
        Path | None,
        typer.Argument(help="Request trace: CSV, JSON Lines or Parquet. Default: the sample that is shipped."),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="HTML file to write.")] = Path("report.html"),
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Repeat for several: balanced, hpc-ops, lpt, a static setting, or file.py:function. Default: the "
            "first three. The best static settings for the trace are always added."
        ),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(help=f"Evaluate each so many-th decode step; default: so that at most {MOST_STEPS:,} are.", min=1),
    ] = None,
    gpu: options.PlannedGpu = "H200",
    sms: options.Sms = None,
    bandwidth: options.Bandwidth = None,
    ctas_per_sm: options.CtasPerSm = None,
    kv_heads: options.KvHeads = 1,
    group: options.Group = 8,
    head_dim: options.HeadDim = 128,
    tile: options.Tile = 64,
    floor: options.Floor = 512,
    q_len: options.QLen = 1,
    cache: options.Cache = "fp8",
    max_batch: options.MaxBatch = 256,
    kv_capacity: options.KvCapacity = 2_000_000,
    prefill_budget: options.PrefillBudget = 8192,
    rate: options.Rate = None,
    seed: options.Seed = 0,
    skip_bad: options.SkipBad = False,
    jobs: Annotated[int | None, typer.Option(help="Processes; default: one a CPU, at most 8.", min=1, max=256)] = None,
    as_json: options.AsJson = False,
) -> None:
    """Say at which decode steps of a trace static splitting loses, and by how much.

    Simulates the decode steps of a serving engine, evaluates every policy at each, tries all static settings, and
    writes one HTML page that needs neither network nor kernel. Times are the cost model's; the page says so.
    Exits with 0 when done and with 2 for input that cannot be used.
    """
    from workbench.report.analysis import analyse
    from workbench.report.page import render
    from workbench.report.parallel import available_cpus
    from workbench.workloads import read_trace, sample_trace, simulate

    device = options.device(gpu, sms, bandwidth)
    kernel = options.kernel(device, ctas_per_sm, kv_heads, group, head_dim, tile, floor, q_len, cache)
    check_writable(output, source=trace)
    if trace is None and rate is not None:
        raise InvalidArgument("--rate replaces the arrivals of a trace. Give the trace.")
    given = [load_policy(name, kernel.cost) for name in dict.fromkeys(policy or DYNAMIC)]
    requests = sample_trace() if trace is None else read_trace(trace, skip_bad=skip_bad, rate=rate, seed=seed)
    with stages() as told:
        steps = simulate(
            requests,
            max_batch=max_batch,
            kv_capacity=kv_capacity,
            prefill_budget=prefill_budget,
            progress=lambda done, total: told("simulating requests", done, total),
        )
        analysis = analyse(
            requests,
            steps,
            kernel,
            given=given,
            every=every or max(-(-len(steps) // MOST_STEPS), 1),
            jobs=jobs or min(available_cpus(), 8),
            progress=told,
        )
        page = render(analysis, command=command_line(context))
        write_whole(output, page.encode(errors="backslashreplace"))  # a file's name need not be text
    if as_json:
        typer.echo(json.dumps({**analysis.to_dict(), "output": str(output)}, indent=2))
    else:
        from workbench.report.page import answer

        console = Console()
        console.print("".join(words for words, _ in answer(analysis)), markup=False, highlight=False)
        console.print(f"Wrote {output} ({len(page) / 1e6:.1f} MB)", markup=False, highlight=False, soft_wrap=True)


def command_line(context: typer.Context) -> str:
    """The command with every option that was given, as a shell reads it."""
    words = ["workbench", context.info_name or ""]
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is None or source.name != "COMMANDLINE":
            continue
        value: Any = context.params[parameter.name or ""]
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif isinstance(value, bool):
            words.append(parameter.opts[0])
        else:
            for each in value if isinstance(value, (list, tuple)) else [value]:
                words += [max(parameter.opts, key=len), str(each)]
    return shlex.join(words)
