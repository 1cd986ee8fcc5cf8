"""One run of ``workbench tune run``: a study on the GPUs at hand, its progress, its table, its records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from workbench.errors import InvalidArgument, NoGpu, StudyError
from workbench.gpu import driver
from workbench.records import Store
from workbench.tune.space import Space
from workbench.tune.spaces import space_from
from workbench.tune.study import Progress, Result, Study
from workbench.tune.study_files import default_journal
from workbench.tune.study_journal import about_of
from workbench.tune.study_records import records_of
from workbench.tune.study_trials import Finalist, Trial

if TYPE_CHECKING:
    from workbench.tune.measure_gpu import GpuFactory


MOST = 500
"""Configurations that are all tried unless something else is said."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a study is run; the options of the command."""

    promising: int | None = None
    method: str = "grid"
    trials: int | None = None
    journal: Path | None = None
    gpus: tuple[int, ...] = (0,)
    cluster: str | None = None
    seconds: float = 60
    seed: int = 0
    store: Store | None = None


def ordinals(text: str) -> tuple[int, ...]:
    """``0,1`` as numbers.

    Raises
    ------
    InvalidArgument
        It is no list of numbers.
    """
    try:
        found = tuple(int(word) for word in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 0 or len(set(found)) < len(found):
        raise InvalidArgument(f"--gpus {text}: give different numbers from 0, such as 0,1.")
    return found


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error; called with how much is done and how much there is."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(
        *columns, console=Console(stderr=True), transient=True, disable=not Console(stderr=True).is_terminal
    ) as at:
        task = at.add_task(what, total=None)
        yield lambda done, total: at.update(task, completed=done, total=total)


def measure(space: Space, plan: Plan) -> None:
    """Run a study to its end, print what it found, keep the records.

    Raises
    ------
    NoGpu
        Nothing can be measured here.
    typer.Exit
        With 130 after Ctrl-C; what was finished is kept.
    """
    if plan.cluster is None and (problem := driver.probe().problem):
        raise NoGpu(f"{problem} `workbench tune list` and `workbench tune resources` need none.")
    from workbench.cli.bench import require_torch

    if plan.cluster is None:
        require_torch()
    from workbench.gpu.ahead import compile_ahead
    from workbench.tune.measure_gpu import GpuFactory

    configs = configurations(space, plan)
    if plan.trials is None or plan.trials >= len(configs):  # else a trial compiles its own
        jobs = {tuple(sorted(space.job(config).defines.items())): space.job(config) for config in configs}
        with bar("compiling") as step:
            done = iter(range(1, len(jobs) + 1))
            compile_ahead(list(jobs.values()), progress=lambda _: step(next(done), len(jobs)))
    factory = GpuFactory(space.to_dict(), plan.seed, plan.gpus[0])
    if plan.cluster is not None or len(plan.gpus) > 1:
        _on_a_cluster(space, plan, factory)
    else:
        _here(space, plan, factory)


def configurations(space: Space, plan: Plan) -> list[Any]:
    """What is to be tried.

    Raises
    ------
    InvalidArgument
        More than can be compiled in reasonable time, and nothing said which.
    """
    if plan.promising is not None:
        return space.promising(plan.promising)
    if len(space) > MOST and plan.trials is None:
        raise InvalidArgument(
            f"the space has {len(space):,} configurations, each to be compiled and measured. Give --promising 60, "
            "--method tpe --trials 100, or fewer values with --set."
        )
    return list(space)


def _here(space: Space, plan: Plan, factory: GpuFactory) -> None:
    from workbench.tune.workers_local import LocalPool

    with LocalPool(factory, call_s=plan.seconds) as pool:
        about = pool.about()
        _study(space, plan, str(about["gpu"]), about, pool)


def _on_a_cluster(space: Space, plan: Plan, factory: GpuFactory) -> None:
    from dataclasses import replace

    from workbench.tune.cluster import Cluster

    # A worker sees the one GPU that is its own.
    factory = replace(factory, device=0)
    with Cluster(plan.cluster, gpus=plan.gpus) as cluster:
        for where in cluster.models(factory, call_s=plan.seconds):
            pool = cluster.pool(factory, where, call_s=plan.seconds)
            _study(space, plan, where.gpu, pool.surroundings(), pool)


def _study(space: Space, plan: Plan, gpu: str, about: dict[str, Any], pool: Any) -> None:
    """One model of GPU: try, let the best compete, tell, keep."""
    path = plan.journal or default_journal(space, gpu)
    stop = threading.Event()
    configs = space.promising(plan.promising) if plan.promising is not None else None
    with Study(space, path, gpu=gpu, method=plan.method, seed=plan.seed, configs=configs) as study:
        known = len(study.trials)
        if known:
            typer.echo(f"{path}: {known} trials are finished already.", err=True)
        try:
            with bar("measuring") as step:
                study.run(pool, most=plan.trials, progress=lambda at: _step(at, step), stop=stop)
            result = study.finals(pool)
        except KeyboardInterrupt:
            typer.echo(f"Interrupted: {len(study.trials)} trials are kept. workbench tune resume {path}", err=True)
            raise typer.Exit(130) from None
        for record in records_of(study, about, result, seed=plan.seed) if plan.store else ():
            assert plan.store is not None
            plan.store.add(record)
        show(_document(study, result), most=10)
        typer.echo(f"Journal: {path}. workbench tune apply makes the best the default of this GPU.", err=True)


def _step(at: Progress, step: Callable[[int, int], None]) -> None:
    step(at.done, at.total)


def _opened(journal: Path) -> Study:
    """The study in a file, to look at; another process may go on with it meanwhile."""
    about = about_of(journal)
    return Study(space_from(about["space"]), journal, gpu=str(about["gpu"]), writable=False)


def document(journal: Path) -> dict[str, Any]:
    """What a study found so far, as plain data."""
    with _opened(journal) as study:
        return _document(study, study.result())


def apply(journal: Path, *, force: bool, withdraw: bool) -> str:
    """Make the best of a study the default, or take it back; says what was done."""
    from workbench import devices
    from workbench.tune import tuned

    with _opened(journal) as study:
        if withdraw:
            gone = tuned.withdraw(study.space, study.gpu)
            return "Your own default is withdrawn." if gone else "There was no default of your own."
        result = study.result()
        if result is None:
            raise StudyError(f"{journal} has no finals yet. Finish it: workbench tune resume {journal}")
        path = tuned.apply(study, result, sms=devices.gpu(study.gpu).sms, force=force)
        return f"Wrote {path}; processes that start from now on use it."


def _document(study: Study, result: Result | None) -> dict[str, Any]:
    return {
        "operator": study.space.operator,
        "case": study.space.workload.case,
        "dtype": study.space.workload.dtype,
        "gpu": study.gpu,
        "default": study.default.to_dict(),
        "of": len(study.search.configs),
        "timed": [_trial(trial) for trial in study.timed],
        "failed": [{"config": t.config, "state": t.state, "reason": t.reason} for t in study.failed],
        "finals": [] if result is None else [_finalist(each) for each in result.finalists],
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "config": trial.config,
        "median_us": trial.median_us,
        "relative": trial.relative,
        "rel_error": trial.rel_error,
        "dropped": trial.dropped,
    }


def _finalist(finalist: Finalist) -> dict[str, Any]:
    low, high = finalist.relative_interval()
    return {
        "config": finalist.config,
        "median_us": finalist.median_us,
        "interval_us": finalist.interval_us(),
        "relative": finalist.relative,
        "relative_low": low,
        "relative_high": high,
        "rel_error": finalist.rel_error,
    }


def show(found: dict[str, Any], most: int) -> None:
    """Print the finals, or the best trials where there are none yet, and the failures."""
    from workbench.cli.tune_table import show_rows

    console = Console(soft_wrap=True)
    tried = len(found["timed"]) + len(found["failed"])
    console.print(
        f"{found['operator']} {found['case']} on {found['gpu']}: {tried} of {found['of']} tried, "
        f"{len(found['failed'])} failed",
        style="bold",
        highlight=False,
    )
    rows = []
    for each in (found["finals"] or found["timed"])[:most]:
        row = dict(each["config"])
        row["us"] = f"{each['median_us']:.2f}"
        row["of default"] = f"{each['relative']:.3f}"
        if "interval_us" in each:
            row["95 %"] = f"{each['relative_low']:.3f} to {each['relative_high']:.3f}"
        row["rel. error"] = "" if each["rel_error"] is None else f"{each['rel_error']:.1e}"
        row[""] = "default" if each["config"] == found["default"] else ""
        rows.append(row)
    show_rows(rows)
    if not found["finals"]:
        console.print("No finals yet: these are first samples, not results.", highlight=False)
    for each in found["failed"][:most]:
        words = " ".join(f"{name}={value}" for name, value in each["config"].items())
        console.print(f"{each['state']}: {words}: {each['reason']}", markup=False, highlight=False)
