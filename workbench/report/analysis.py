"""Every number of the report: which policy loses where on a trace, and how much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, WorkloadError
from workbench.report.kernel import Kernel
from workbench.report.parallel import parallel_sweep
from workbench.schedule import DecodePlan, Policy, fixed_chunk, fixed_splits, plan_decode, resolve
from workbench.schedule.search import StaticSearch, search_static
from workbench.schedule.sweep import Sweep
from workbench.workloads import DecodeSteps, RequestTrace, StepTable

OTHER = ("fixed_splits(8)", "fixed_chunk(4096)")
"""Static settings that are not chosen for the trace, for comparison with those that are."""

LEVELS = (1.5, 2.0)
"""Ratios to the best policy that are counted."""

DRAWN = 3
"""Worst steps of the best static setting that are drawn."""

APART = 0.02
"""Share of the trace between two of them at least."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Row:
    """One policy over all steps. Times in microseconds, by the cost model.

    Attributes
    ----------
    policy, kind : str
        Kind is ``"dynamic"``, ``"best static"`` or ``"other static"``.
    median_us, p95_us, worst_us : float
        Of the call, launch and merge included.
    over : tuple of float
        Share of the steps whose call takes more than each of :data:`LEVELS` times the step's best.
    worst_ratio : float
        Largest call over the step's best.
    total_us, lost_us : float
        Sum of the calls, and of what they exceed the step's best by.
    lost_share : float
        ``lost_us`` over the sum of the best.
    """

    policy: str
    kind: str
    median_us: float
    p95_us: float
    worst_us: float
    over: tuple[float, ...]
    worst_ratio: float
    total_us: float
    lost_us: float
    lost_share: float


@dataclass(frozen=True)
class WorstStep:
    """A step that is drawn: A is the best dynamic policy of the trace, B the static one that loses.

    ``index`` counts the steps evaluated, ``number`` the engine's; ``start_s`` is the simulated clock.
    """

    index: int
    number: int
    start_s: float
    policy: str
    call_us: float
    best_us: float

    @property
    def ratio(self) -> float:
        """The call over the step's best."""
        return self.call_us / self.best_us


@dataclass(frozen=True, eq=False)
class Analysis:
    """What the report says, and what it was made from.

    Attributes
    ----------
    trace : RequestTrace
    steps : DecodeSteps
        The steps evaluated: every ``every``-th of ``engine_steps``.
    table : StepTable
        Start, batch, KV tokens and longest length of each.
    kernel : Kernel
    search : StaticSearch
    sweep : Sweep
    rows : tuple of Row
        In the order of ``sweep.policies``.
    a, b : str
        Policy of least total among the dynamic ones, and among the best static settings.
    worst : tuple of WorstStep
        Of ``b``, and last the worst step of the other static setting that loses most.
    """

    trace: RequestTrace
    steps: DecodeSteps = field(repr=False)
    engine_steps: int
    every: int
    table: StepTable = field(repr=False)
    kernel: Kernel
    search: StaticSearch = field(repr=False)
    sweep: Sweep = field(repr=False)
    policies: dict[str, Policy] = field(repr=False)
    rows: tuple[Row, ...]
    a: str
    b: str
    worst: tuple[WorstStep, ...]

    def row(self, policy: str) -> Row:
        """The row of a policy."""
        return self.rows[self.sweep.index(policy)]

    def plan(self, policy: str, index: int) -> DecodePlan:
        """The plan of one evaluated step under a policy of the report."""
        lengths = self.steps.lengths(index).astype(np.int64)
        return plan_decode(lengths, policy=self.policies[policy], **self.kernel.problem)

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the report as plain data."""
        trace = self.trace
        return {
            "trace": {
                "name": trace.name,
                "format": trace.format,
                "requests": len(trace),
                "duration_s": trace.duration_s,
                "arrivals": trace.arrivals,
                "skipped": dict(trace.skipped),
                "notes": list(trace.notes),
            },
            "steps": {
                "label": self.steps.label,
                "simulated": True,
                "of_engine": self.engine_steps,
                "every": self.every,
                "evaluated": self.sweep.num_steps,
            },
            "kernel": self.kernel.to_dict(),
            "source": self.sweep.source,
            "levels": list(LEVELS),
            "policies": [asdict(row) for row in self.rows],
            "best_dynamic": self.a,
            "best_static": self.b,
            "worst_steps": [{**asdict(step), "ratio": step.ratio} for step in self.worst],
            "static_search": {
                "steps": int(self.search.steps.size),
                "mean_call_us": dict(zip(self.search.settings, self.search.mean_call_us.tolist(), strict=True)),
                "retuned_call_us": self.search.retuned_call_us,
            },
        }


def analyse(
    trace: RequestTrace,
    steps: DecodeSteps,
    kernel: Kernel,
    *,
    given: Sequence[Policy],
    every: int,
    jobs: int = 1,
    progress: Progress = lambda stage, done, total: None,
) -> Analysis:
    """Search the best static settings, sweep all policies, and pick the steps to draw.

    Parameters
    ----------
    trace
        Where the steps come from.
    steps
        All simulated steps of the engine.
    kernel
        Kernel and GPU.
    given
        Policies to compare; at least one that is not a static split. The best static settings and :data:`OTHER` ones
        are added.
    every
        Evaluate each so many-th step.
    jobs
        Processes for the sweep.
    progress
        Called with (stage, done, total).

    Raises
    ------
    WorkloadError
        The trace makes no decode step.
    InvalidArgument
        All given policies are static.
    """
    if not len(steps):
        needed = "Give a trace with outputs of 2 tokens or more."
        raise WorkloadError(f"{trace.name}: no request decodes a token, so there is nothing to plan. {needed}")
    static = (fixed_splits, fixed_chunk)
    kinds = {policy.name: "other static" if isinstance(policy, static) else "dynamic" for policy in given}
    if "dynamic" not in kinds.values():
        names = ", ".join(kinds)
        raise InvalidArgument(f"policies {names} are all static. Give one to compare with, such as balanced.")
    chosen = steps[::every]
    search = search_static(
        chosen,  # type: ignore[arg-type] # a sequence of batches without being a typing.Sequence
        num_kv_heads=kernel.num_kv_heads,
        num_ctas=kernel.num_ctas,
        tile=kernel.tile,
        q_len=kernel.q_len,
        cost=kernel.cost,
        progress=lambda done, total: progress("trying static settings", done, total),
    )
    best = (search.best("fixed_splits"), search.best("fixed_chunk"))
    kinds |= dict.fromkeys((name for name in OTHER if name not in kinds), "other static")
    kinds |= dict.fromkeys(best, "best static")
    order = sorted(kinds, key=lambda name: ("dynamic", "best static", "other static").index(kinds[name]))
    policies = {policy.name: policy for policy in given}
    policies = {name: policies.get(name) or resolve(name, kernel.cost) for name in order}
    found = parallel_sweep(
        chosen,
        policies=list(policies.values()),
        cost=kernel.cost,
        jobs=jobs,
        progress=lambda done, total: progress("evaluating steps", done, total),
        **kernel.problem,
    )
    rows = tuple(_row(found, i, kinds[name]) for i, name in enumerate(found.policies))
    a, b = (
        min((row for row in rows if row.kind == kind), key=lambda row: row.total_us).policy
        for kind in ("dynamic", "best static")
    )
    table = chosen.table()
    apart = max(round(APART * found.num_steps), 1)
    losers = [(b, int(step)) for step in found.worst(b, DRAWN, apart=apart)]
    others = [row for row in rows if row.kind == "other static"]
    if others:
        slowest = max(others, key=lambda row: row.total_us).policy
        losers.append((slowest, int(found.worst(slowest, 1)[0])))
    worst = tuple(
        WorstStep(
            index=step,
            number=int(chosen.step_numbers[step]),
            start_s=float(table.start_s[step]),
            policy=policy,
            call_us=float(found.call_us[found.index(policy), step]),
            best_us=float(found.best_call_us[step]),
        )
        for policy, step in losers
    )
    return Analysis(trace, chosen, len(steps), every, table, kernel, search, found, policies, rows, a, b, worst)


def _row(found: Sweep, index: int, kind: str) -> Row:
    call, best, ratio = found.call_us[index], found.best_call_us, found.over_best[index]
    median, p95 = np.quantile(call, (0.5, 0.95)).tolist()
    lost = float((call - best).sum())
    return Row(
        policy=found.policies[index],
        kind=kind,
        median_us=median,
        p95_us=p95,
        worst_us=float(call.max()),
        over=tuple(float((ratio > level).mean()) for level in LEVELS),
        worst_ratio=float(ratio.max()),
        total_us=float(call.sum()),
        lost_us=lost,
        lost_share=lost / float(best.sum()),
    )
