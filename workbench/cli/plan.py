"""``workbench plan``: one decode step under several policies, as a table, as JSON, or as a file of the plan."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from workbench.cli import options
from workbench.cli.files import check_writable, write_whole
from workbench.cli.policy import load_policy
from workbench.cli.progress import stages
from workbench.errors import InvalidArgument, LengthsError, WorkloadError
from workbench.report.kernel import Kernel
from workbench.schedule import DecodePlan, Metrics, plan_decode
from workbench.schedule.search import search_static
from workbench.workloads import FAMILIES, parse_lengths, read_trace, simulate, workload

DYNAMIC = ("balanced", "hpc-ops", "lpt")
FAMILIES_STATIC = ("fixed_splits", "fixed_chunk")
EXPORTS = (".trace.json", ".json", ".npy")

Lengths = npt.NDArray[np.int64]


def plan(
    lengths: Annotated[
        str,
        typer.Argument(
            help="Lengths such as '64x4K + 2x32K', a family "
            f"({', '.join(FAMILIES)}), a file of lengths, '-' for standard input, or with --step a request trace.",
        ),
    ],
    step: Annotated[
        int | None, typer.Option(help="Decode step of a trace, simulated; negative numbers count from the end.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Repeat for several: balanced, hpc-ops, lpt, fixed_splits(n), fixed_chunk(tokens), or "
            "file.py:function. Default: the first three and the best static settings for these lengths.",
        ),
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
    export: Annotated[
        list[Path] | None,
        typer.Option(
            help="Write the plan of the one --policy given: *.json the plan, *.trace.json for Perfetto, *.npy HPC-Ops' "
            "dense buffer. Repeat for several.",
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Plan one decode step and compare policies.

    Times are the cost model's, in microseconds; the last line says where its constants come from.
    Exits with 0 when done and with 2 for input that cannot be used.
    """
    device = options.device(gpu, sms, bandwidth)
    kernel = options.kernel(device, ctas_per_sm, kv_heads, group, head_dim, tile, floor, q_len, cache)
    targets = export or []
    for target in targets:
        _check_export(target, policy or [], source=_file(lengths))
    if step is None:
        values, label = read_lengths(lengths), lengths
    else:
        trace = read_trace(lengths, skip_bad=skip_bad, rate=rate, seed=seed)
        with stages() as told:
            steps = simulate(
                trace,
                max_batch=max_batch,
                kv_capacity=kv_capacity,
                prefill_budget=prefill_budget,
                progress=lambda done, total: told("simulating requests", done, total),
            )
        values = steps.lengths(step).astype(np.int64)
        label = f"step {range(len(steps))[step]:,} of {len(steps):,} {steps.label}"
    plans, metrics = {}, {}
    with stages() as told:
        if not policy:
            told("trying static settings", 0, 0)
        chosen = policy or [*DYNAMIC, *_best_static(values, kernel)]
        for done, name in enumerate(chosen):
            told("planning", done, len(chosen))
            plans[name] = plan_decode(values, policy=load_policy(name, kernel.cost), **kernel.problem)
            metrics[name] = plans[name].metrics(kernel.cost)
    for target in targets:
        _export(target, next(iter(plans.values())), kernel)
    if as_json:
        typer.echo(json.dumps(_document(values, label, kernel, metrics), indent=2))
    else:
        _show(values, label, kernel, metrics)
        for target in targets:
            Console(stderr=True).print(f"Wrote {target}", markup=False, highlight=False, soft_wrap=True)


def read_lengths(spec: str) -> Lengths:
    """Lengths of a batch from an expression, a family's name, a file or standard input."""
    if spec == "-":
        try:
            return parse_lengths(sys.stdin.read() if sys.stdin else "")  # None where the shell closed it
        except UnicodeDecodeError:
            raise WorkloadError("standard input is not UTF-8 text. Pipe in lengths such as 64x4K + 2x32K.") from None
    path = _file(spec)
    if path is None:
        if Path(spec).suffix.lower() in (".csv", ".json", ".jsonl", ".parquet", ".txt"):
            raise InvalidArgument(f"there is no file {spec}. Give an existing one, or lengths such as 64x4K + 2x32K.")
        return workload(spec)
    try:
        return parse_lengths(path.read_text(encoding="utf-8"))
    except (LengthsError, UnicodeDecodeError) as error:
        reason = str(error) if isinstance(error, LengthsError) else "it is not UTF-8 text"
        hint = "If it is a request trace, add --step N."
        raise WorkloadError(f"{spec} is no list of lengths: {reason}\n{hint}") from None
    except OSError as error:
        raise WorkloadError(f"{spec} cannot be read: {error.strerror}. Give a readable file.") from None


def _file(spec: str) -> Path | None:
    """The file, or the pipe of a shell's ``<(command)``, that a word names, if it names one."""
    path = Path(spec)
    try:
        return path if path.is_file() or path.is_fifo() else None
    except (OSError, ValueError):  # pasted numbers can be longer than any file name
        return None


def _best_static(values: Lengths, kernel: Kernel) -> list[str]:
    found = search_static(
        [values],
        num_kv_heads=kernel.num_kv_heads,
        num_ctas=kernel.num_ctas,
        tile=kernel.tile,
        q_len=kernel.q_len,
        cost=kernel.cost,
    )
    return [found.best(family) for family in FAMILIES_STATIC]


def _check_export(target: Path, policies: list[str], *, source: Path | None) -> None:
    if not target.name.lower().endswith(EXPORTS):
        raise InvalidArgument(f"--export {target}: the name ends in {', '.join(EXPORTS)}; that says what is written.")
    if len(policies) != 1:
        raise InvalidArgument(f"--export {target}: a file holds one plan. Give exactly one --policy.")
    check_writable(target, source=source)


def _export(target: Path, made: DecodePlan, kernel: Kernel) -> None:
    name = target.name.lower()
    if name.endswith(".npy"):
        buffer = io.BytesIO()
        np.save(buffer, made.encode(), allow_pickle=False)
        write_whole(target, buffer.getvalue())
    elif name.endswith(".trace.json"):
        from workbench.widgets.schedule.export import trace_json
        from workbench.widgets.schedule.side import evaluate, policy_title

        side = evaluate("A", policy_title(made.policy), made, kernel.cost)
        write_whole(target, trace_json([side], sms=kernel.sms).encode())
    else:
        write_whole(target, made.to_json().encode())


def _document(values: Lengths, label: str, kernel: Kernel, metrics: dict[str, Metrics]) -> dict[str, Any]:
    return {
        "workload": label,
        "lengths": values.tolist(),
        "kernel": kernel.to_dict(),
        "source": kernel.cost.source,
        "policies": {name: m.to_dict() for name, m in metrics.items()},
    }


def _show(values: Lengths, label: str, kernel: Kernel, metrics: dict[str, Metrics]) -> None:
    from workbench.widgets import text

    console = Console()
    total = int(values.sum())
    longest = int(values.max(initial=0))
    facts = f"{text.plural(values.size, 'request')}, {total:,} KV tokens, longest {longest:,}"
    shown = " ".join(label.split())
    shown = shown if len(shown) <= 400 else f"{shown[:400]} ..."
    console.print(shown, style="bold", markup=False, highlight=False)
    console.print(f"{facts}\n{kernel.words()}\n", markup=False, highlight=False, soft_wrap=True)
    best = min(m.call_us for m in metrics.values())
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("policy", no_wrap=True)
    for heading in ("call us", "x best", "x bound", "max/mean", "idle", "merge", "chunks", "bins", "empty"):
        table.add_column(heading, justify="right", no_wrap=True)
    for m in metrics.values():
        table.add_row(
            m.policy.replace("[", r"\["),
            f"{m.call_us:,.1f}",
            f"{m.call_us / best:.2f}",
            f"{1 / m.efficiency:.2f}" if m.tiles else "-",
            f"{m.max_over_mean:.2f}",
            f"{100 * m.idle_fraction:.0f} %",
            f"{m.merge_us:.1f}",
            f"{m.max_chunks:,}",
            f"{m.num_bins:,}",
            f"{m.empty_ctas:,}",
            style="bold" if m.call_us == best else None,
        )
    # A number is never cut: where the terminal is narrow, lines break.
    width = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    Console(width=max(width, console.width)).print(table)
    decides = "; balanced decides by them" if "balanced" in metrics else ""
    console.print(f"\nTimes: {kernel.cost.source}{decides}", markup=False, highlight=False, style="dim", soft_wrap=True)
