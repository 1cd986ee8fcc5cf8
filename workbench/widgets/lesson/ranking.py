"""Schedulers ranked over several batches: by measured times where the kernel can run, else by modelled ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, TypeAlias

from workbench import devices
from workbench.errors import InvalidArgument, InvalidPlan
from workbench.measure.attention_case import AttentionCase
from workbench.measure.figures import ATTENTION, READ, Figure, stored_figures
from workbench.measure.schedulers import kernel_problem, measure_schedulers
from workbench.records import Store, origin_label
from workbench.schedule import Policy, cost_model, plan_decode, resolve
from workbench.schedule.policies import UserFunction
from workbench.widgets import text
from workbench.widgets.lesson.dots import Dot, dots
from workbench.workloads import MIXES, parse_lengths

if TYPE_CHECKING:
    import pandas as pd

Scheduler: TypeAlias = str | Policy | UserFunction

LAUNCH = "early"
"""Launch of the kernel whose records stand beside modelled times, and the one that is measured here."""


@dataclass(frozen=True)
class Ranking:
    """What :func:`rank` found.

    Attributes
    ----------
    dots : tuple of Dot
        Every time, recorded ones beside modelled ones.
    basis : str
        "measured" or "modelled": the times that decide.
    faults : dict of str to str
        Schedulers that are wrong on a batch, and how; they have no rank.
    read_us : dict of str to float
        By batch the time of a kernel that only reads the same bytes; empty where nobody measured it.
    source : str
        Where the deciding times come from.
    why : str
        Why they are modelled; "" where they are measured.
    """

    dots: tuple[Dot, ...] = field(repr=False)
    basis: str
    faults: dict[str, str]
    read_us: dict[str, float] = field(repr=False)
    source: str
    why: str = ""

    @property
    def scores(self) -> dict[str, float]:
        """Geometric mean of each scheduler's calls over the batches, microseconds, best first."""
        times: dict[str, list[float]] = {}
        for dot in self.dots:
            if dot.kind == self.basis and dot.row not in self.faults:
                times.setdefault(dot.row, []).append(dot.us)
        found = {name: math.exp(sum(map(math.log, us)) / len(us)) for name, us in times.items()}
        return dict(sorted(found.items(), key=lambda item: item[1]))

    def table(self) -> pd.DataFrame:
        """The deciding times, microseconds: a row a scheduler, best first, a column a batch, and the mean."""
        import pandas as pd

        columns: dict[str, dict[str, float]] = {}
        for dot in self.dots:
            if dot.kind == self.basis:
                columns.setdefault(dot.panel, {})[dot.row] = dot.us
        frame = pd.DataFrame(columns | {"geometric mean": self.scores})
        return frame.loc[list(self.scores)].rename_axis(f"{self.basis} call, us")

    def verdict(self) -> str:
        """The ranking in one sentence."""
        scores = self.scores
        best = next(iter(scores.values()), 1.0)
        places = [
            f"{place}. {name} {text.fine_us(us)} us" + ("" if us == best else f" ({us / best:.2f} x)")
            for place, (name, us) in enumerate(scores.items(), 1)
        ]
        return f"By {self.basis} time, geometric mean of the batches: {'; '.join(places)}."

    def __str__(self) -> str:
        wrong = [f"{name} has no rank: {words}" for name, words in self.faults.items()]
        table = self.table().to_string(float_format=lambda v: f"{v:.2f}") if self.scores else ""
        return "\n".join(filter(None, [self.verdict(), *wrong, table, self.source, self.why]))

    def _repr_html_(self) -> str:
        wrong = "".join(f"<li><b>{escape(name)}</b> has no rank: {escape(w)}</li>" for name, w in self.faults.items())
        if not self.scores:
            return f"<p>No scheduler has a rank.</p><ul>{wrong}</ul>"
        drawn = dots(
            self.dots,
            title="One call under each scheduler, us, logarithmic axis",
            rows=[*self.scores],
            strong=[next(iter(self.scores))],
            floors=self.read_us,
            floor_name="only reading the bytes",
        )
        note = " ".join(filter(None, (f"Deciding times: {self.source}.", self.why)))
        return (
            f"<p><b>{escape(self.verdict())}</b></p>{f'<ul>{wrong}</ul>' if wrong else ''}{drawn.svg}"
            f"<p><small>{escape(note)}</small></p>"
        )


def rank(
    schedulers: Mapping[str, Scheduler],
    *,
    batches: Sequence[str] = MIXES,
    cache: str = "fp8",
    gpu: str = "H200",
    store: Store | None = None,
) -> Ranking:
    """Run the kernel under each scheduler, or where it cannot run predict its calls and show recorded ones beside.

    Parameters
    ----------
    schedulers : mapping of str to str, Policy or callable
        As :func:`workbench.schedule.plan_decode` takes them, by the name that the ranking shows.
    batches : sequence of str
        Expressions of KV lengths.
    cache : str
        "fp8" or "bf16".
    gpu : str
        GPU that is modelled where the kernel cannot run.
    store : Store, optional
        Where recorded times are looked for; default: the shipped records and the user's own.

    Raises
    ------
    InvalidArgument
        There is no scheduler or no batch, or a batch without any token.
    """
    if not schedulers or not batches:
        raise InvalidArgument("give at least one scheduler and one batch.")
    cases = [AttentionCase("".join(name.split()), parse_lengths(name), cache) for name in batches]
    why = kernel_problem()
    if not why:
        return _measured(schedulers, cases)
    return _modelled(schedulers, cases, devices.gpu(gpu), Store() if store is None else store, why)


def _measured(schedulers: Mapping[str, Scheduler], cases: Sequence[AttentionCase]) -> Ranking:
    found: list[Dot] = []
    faults: dict[str, str] = {}
    read: dict[str, float] = {}
    source = ""
    for case in cases:
        # The figures are in the order of what was asked for: a policy may share its name with another's key.
        bare, *figures = measure_schedulers(case, schedulers)
        source = bare.origin
        if bare.median_us:
            read[case.name] = bare.median_us
        for name, figure in zip(schedulers, figures, strict=True):
            if figure.median_us is None:
                faults.setdefault(name, f"on {case.name}: {figure.reason}")
            else:
                found.append(_dot(figure, name))
    return Ranking(tuple(found), "measured", faults, read, source)


def _modelled(
    schedulers: Mapping[str, Scheduler], cases: Sequence[AttentionCase], gpu: devices.Gpu, store: Store, why: str
) -> Ranking:
    found: list[Dot] = []
    faults: dict[str, str] = {}
    # The kernel as it is measured runs one CTA an SM.
    cost = cost_model(gpu, cache=cases[0].cache, group=cases[0].group, head_dim=cases[0].head_dim)
    source = origin_label("modelled", by=cost.source.removeprefix("modelled: "))
    for case in cases:
        for name, given in schedulers.items():
            try:
                plan = plan_decode(
                    case.lengths, num_kv_heads=case.kv_heads, num_ctas=gpu.sms, policy=resolve(given, cost)
                )
                plan.validate()
            except (
                Exception
            ) as error:  # whatever a reader's own scheduler raises: it is told, and the others are ranked
                faults.setdefault(name, f"on {case.name}: {_short(error)}")
                continue
            found.append(Dot(case.name, name, plan.metrics(cost).call_us, source))
    kept = stored_figures(
        store, operator=ATTENTION, gpu=gpu.name, cases=[c.name for c in cases], dtypes=[cases[0].cache],
        kinds=["timing"],
    )  # fmt: skip
    names = {resolve(given).name: name for name, given in schedulers.items() if not callable(given)}
    found += [
        _dot(figure, names[figure.policy])
        for figure in kept
        if figure.provider == "cuda" and figure.variant == LAUNCH and figure.policy in names
    ]
    read = {figure.case: figure.median_us for figure in kept if figure.provider == READ and figure.median_us}
    return Ranking(tuple(found), "modelled", faults, read, source, why)


def _short(error: Exception) -> str:
    """What is wrong, without the fifty lines that a plan without any tile has."""
    if isinstance(error, InvalidPlan) and error.problems:
        first, *more = error.problems
        return f"{first}{f', and {len(more)} more' if more else ''}"
    return f"{type(error).__name__}: {error}"


def _dot(figure: Figure, row: str) -> Dot:
    error = "" if figure.rel_error is None else f"relative error {figure.rel_error:.2g}"
    return Dot(figure.case, row, figure.median_us or 0.0, figure.origin, figure.low_us, figure.high_us, error)
