"""``workbench timeline``: when each piece of one attention call ran and where, measured beside modelled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from workbench.cli.files import check_writable, write_whole
from workbench.cli.plan import read_lengths
from workbench.cli.policy import load_policy
from workbench.errors import InvalidArgument, NoGpu
from workbench.gpu import driver
from workbench.schedule import CostModel, Policy, cost_model

if TYPE_CHECKING:
    from workbench.measure.attention_case import AttentionCase
    from workbench.measure.timeline import Timeline
    from workbench.records import Store

DEFAULT_POLICIES = ("balanced", "hpc-ops")


@dataclass(frozen=True, eq=False)
class Shown:
    """One timeline, the median time of the plain kernel's calls beside it, and where both come from."""

    timeline: Timeline
    call_us: float | None
    origin: str


def timeline(
    lengths: Annotated[
        str, typer.Argument(help="Lengths such as '2x32K+30x4K', a file of lengths, or '-' for standard input.")
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Repeat for several: any policy of `workbench plan`. Default: balanced and hpc-ops."),
    ] = None,
    cache: Annotated[str, typer.Option(help="KV cache: fp8 or bf16.")] = "fp8",
    runs: Annotated[int, typer.Option(help="Calls to stamp; the one of median length is kept.", min=1)] = 48,
    perfetto: Annotated[
        Path | None, typer.Option(help="Write a trace for Perfetto and Chrome: measured and modelled.", metavar="FILE")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Keep a record of each timeline in this store.", metavar="STORE")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Where recorded timelines are looked for without a GPU. Default: as `records`.")
    ] = None,
) -> None:
    """Run the instrumented attention kernel on this GPU, or show what was recorded, and set it beside the model.

    Times are microseconds from the call's first stamp. Without a GPU the newest recorded timelines of the same lengths
    and policies are shown and labelled as such. Exits with 0 when done, with 1 where there is neither GPU nor record,
    and with 2 for input that cannot be used.
    """
    from workbench.measure.attention_case import AttentionCase, case_name
    from workbench.records import Store

    if store is not None and not store.is_dir():
        raise InvalidArgument(f"there is no folder {store}. Give the folder of a store of records.")
    if perfetto is not None:
        check_writable(perfetto, source=Path(lengths) if Path(lengths).is_file() else None)
    tokens = read_lengths(lengths)
    cost = cost_model(cache=cache)
    schemes = {name: load_policy(name, cost) for name in policy or DEFAULT_POLICIES}
    case = AttentionCase(case_name(lengths, tokens), tokens, cache)
    if problem := driver.probe().problem:
        if record is not None:
            raise NoGpu(f"--record {record}: {problem} Only what is measured here is kept.")
        shown = _recorded(Store(store), case, [scheme.name for scheme in schemes.values()], cost)
        if not shown:
            raise NoGpu(
                f"{problem} There is no recorded timeline of {case.name} ({cache}) under {', '.join(schemes)} either; "
                "`workbench records --kind timeline` lists those there are."
            )
    else:
        keep = Store(record) if record is not None else None
        if keep is not None:
            keep.check_writable()
        shown = _measured(case, list(schemes.values()), runs, keep)
    _show(case, shown, cost)
    has = {one.timeline.plan.policy for one in shown}
    if lacking := [scheme.name for scheme in schemes.values() if scheme.name not in has]:
        Console().print(f"No timeline of it is recorded under {', '.join(lacking)}.", markup=False, highlight=False)
    if perfetto is not None:
        from workbench.measure.timeline_export import perfetto_json

        write_whole(perfetto, perfetto_json([one.timeline for one in shown], cost).encode())
        Console(stderr=True).print(f"Wrote {perfetto}", markup=False, highlight=False, soft_wrap=True)


def _measured(case: AttentionCase, schemes: list[Policy], runs: int, keep: Store | None) -> list[Shown]:
    """Stamp the calls on this GPU."""
    from workbench.gpu.ahead import compile_ahead
    from workbench.measure.environment import environment_here, source_digests
    from workbench.measure.timeline_run import input_sets, jobs, run_timeline
    from workbench.records import origin_label

    environment = environment_here()
    digest = source_digests()["attention_decode", "cuda"]
    compile_ahead(jobs(case))
    sets, found = input_sets(case), []
    for scheme in schemes:
        run = run_timeline(case, scheme, sets, runs=runs)
        if keep is not None:
            keep.add(*run.record(environment, digest))
        found.append(Shown(run.timeline, run.call_us, origin_label("measured", gpu=environment.gpu)))
    return found


def _recorded(store: Store, case: AttentionCase, policies: list[str], cost: CostModel) -> list[Shown]:
    """The newest recorded timeline of each policy; policies without one are left out."""
    from workbench.measure.timeline_records import OPERATOR, read_timeline
    from workbench.records import is_alone

    found = []
    for name in policies:
        rows = store.rows(
            operator=OPERATOR, kind="timeline", case=case.name, dtype=case.cache, policy=name, gpu=cost.gpu
        )
        newest = max(rows, key=lambda row: (not is_alone(row["method"]), str(row["date"])), default=None)
        if newest is not None:
            record, made = read_timeline(store, str(newest["path"]))
            if not np.array_equal(made.plan.lengths, case.lengths):
                raise InvalidArgument(f"{newest['path']} has other lengths than {case.name}. Take it out of the store.")
            alone = ", one launch alone" if is_alone(record.method) else ""
            found.append(Shown(made, record.call_us, f"{newest['origin']}{alone}"))
    return found


def _show(case: AttentionCase, shown: list[Shown], cost: CostModel) -> None:
    """One row a policy; the model's figure in brackets behind each measured one."""
    console = Console()
    console.print(f"{case.name}, {case.cache} cache", style="bold", markup=False, highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("policy", no_wrap=True)
    cells = [_cells(one, cost) for one in shown]
    for heading in cells[0]:
        table.add_column(heading, justify="right", no_wrap=True)
    for one, row in zip(shown, cells, strict=True):
        table.add_row(one.timeline.plan.policy.replace("[", r"\["), *row.values())
    # A number is never cut: where the terminal is narrow, lines break.
    Console(width=max(console.width, 160)).print(table)
    for origin in dict.fromkeys(one.origin for one in shown):
        console.print(f"\nTimes in us: {origin}", markup=False, highlight=False, style="dim", soft_wrap=True)
    console.print(f"In brackets: {cost.source}", markup=False, highlight=False, style="dim", soft_wrap=True)


def _cells(one: Shown, cost: CostModel) -> dict[str, str]:
    t, model = one.timeline, one.timeline.plan.spans(cost)
    busy = t.by_sm()["busy_ns"].to_numpy()
    residual = t.residuals(cost).bin_end_ns[t.bin_sm >= 0].astype(float)

    def us(ns: float) -> str:
        return f"{ns / 1e3:,.2f}"

    model_call = model.makespan_ns + cost.constants.launch_ns
    return {
        "call": f"{'-' if one.call_us is None else us(one.call_us * 1e3)} ({us(model_call)})",
        "makespan": f"{us(t.makespan_ns)} ({us(model.makespan_ns)})",
        "last bin": f"{us(t.bins_ns)} ({us(model.bins_ns)})",
        "merge": f"{us(t.makespan_ns - t.bins_ns)} ({us(model.merge_ns)})",
        "first bytes": us(float(np.median(t.arrived_ns - t.start_ns))) if busy.size else "-",
        "SM busy": f"{us(busy.min())} to {us(busy.max())}" if busy.size else "-",
        "imbalance": f"{1 - busy.sum() / cost.sms / busy.max():.0%}" if busy.size else "-",
        "rms of bins": us(float(np.sqrt(np.mean(residual**2)))) if residual.size else "-",
    }
