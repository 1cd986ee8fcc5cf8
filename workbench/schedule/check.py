"""Is a scheduler right, on which batch is it not, and how good is it?"""

from __future__ import annotations

import html
import math
import os
import reprlib
import traceback
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workbench.errors import InvalidArgument, InvalidPlan
from workbench.schedule.bins import plan_from_bins
from workbench.schedule.costs import CostModel, given_or_default
from workbench.schedule.plan import DecodePlan
from workbench.schedule.policies import UserFunction, resolve
from workbench.schedule.problem import DecodeProblem, check_count
from workbench.schedule.trials import Batch, edges, random_batches, scored, shrink

if TYPE_CHECKING:
    import pandas as pd

RIVALS = ("hpc-ops", "lpt", "balanced")
WORDS = 4
"""Problems of one plan that a report repeats."""

PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep


@dataclass(frozen=True)
class Failure:
    """What a scheduler does wrong on one batch.

    Attributes
    ----------
    kind : str
        ``"raises ..."`` with the exception's name, ``"not a map"``, ``"changes its argument"``, ``"not repeatable"``,
        or the kind of the validator's first problem (``"missing"``, ``"twice"``, ...).
    words : tuple of str
        What is wrong.
    batch : Batch
        The batch, as small as it was found.
    found_on : Batch
        The batch on which it was met first.
    """

    kind: str
    words: tuple[str, ...]
    batch: Batch
    found_on: Batch


@dataclass(frozen=True)
class Score:
    """Predicted makespans on one batch, microseconds.

    Attributes
    ----------
    batch : str
        Its name.
    yours_us : float
    rivals_us : dict of str to float
        By policy.
    bound_us : float
        No plan is faster under the cost model.
    """

    batch: str
    yours_us: float
    rivals_us: dict[str, float]
    bound_us: float

    @property
    def efficiency(self) -> float:
        """``bound_us / yours_us``."""
        return self.bound_us / self.yours_us


@dataclass(frozen=True)
class SchedulerReport:
    """What :func:`check_scheduler` found.

    Attributes
    ----------
    name : str
        Of the function.
    tried : int
        Batches on which it was called.
    failure : Failure or None
        The counterexample; None when no batch made it fail.
    scores : tuple of Score
        Empty unless it is right.
    source : str
        Where the microseconds come from.
    """

    name: str
    tried: int
    failure: Failure | None
    scores: tuple[Score, ...] = field(default=(), repr=False)
    source: str = ""

    @property
    def ok(self) -> bool:
        """True when no batch made the scheduler fail."""
        return self.failure is None

    def __bool__(self) -> bool:
        return self.ok

    def speedup(self, rival: str) -> float:
        """``rival``'s makespan over yours, geometric mean over the scored batches; above 1 is faster than ``rival``.

        Raises
        ------
        InvalidArgument
            When the scheduler is wrong and has no score, or ``rival`` is not among :data:`RIVALS`.
        """
        if not self.scores:
            raise InvalidArgument(f"{self.name} has no score: it is wrong on a batch. Mend that first.")
        if rival not in RIVALS:
            raise InvalidArgument(f"rival is {rival!r}. Known: {', '.join(RIVALS)}.")
        return math.exp(sum(math.log(s.rivals_us[rival] / s.yours_us) for s in self.scores) / len(self.scores))

    def table(self) -> pd.DataFrame:
        """Makespans by batch in microseconds, and the efficiency; empty when the scheduler is wrong."""
        import pandas as pd

        columns = ["yours", *RIVALS, "bound", "efficiency"]
        rows = [[s.yours_us, *(s.rivals_us[r] for r in RIVALS), s.bound_us, s.efficiency] for s in self.scores]
        return pd.DataFrame(rows, [s.batch for s in self.scores], columns).rename_axis("makespan, us")

    def verdict(self) -> str:
        """One sentence."""
        if self.failure:
            return f"{self.name} is wrong on {self.failure.batch}:"
        against = ", ".join(f"{self.speedup(rival):.2f} of {rival}'s" for rival in RIVALS)
        return f"{self.name} is right on all {self.tried} batches. Its speed in geometric mean: {against}."

    def __str__(self) -> str:
        if self.failure is None:
            table = self.table().to_string(float_format=lambda v: f"{v:.2f}")
            return f"{self.verdict()}\n\n{table}\n\nTimes: {self.source}"
        return "\n".join([self.verdict(), *(f"  - {w}" for w in self.failure.words), f"  To see it: {self._call()}"])

    def _call(self) -> str:
        return self.failure.batch.call(self.name) if self.failure else ""

    def _repr_html_(self) -> str:
        head = f"<p><b>{html.escape(self.verdict())}</b></p>"
        if self.failure:
            items = "".join(f"<li>{html.escape(w)}</li>" for w in self.failure.words)
            shrunk = f"Met on batch {self.tried}, then made as small as it stays wrong. To see it:"
            return f"{head}<ul>{items}</ul><p>{shrunk}</p><pre>{html.escape(self._call())}</pre>"
        style = self.table().style.format("{:.2f}").format("{:.0%}", subset=["efficiency"])
        style = style.highlight_min(axis=1, subset=["yours", *RIVALS], props="font-weight: bold")
        note = f"Microseconds, shortest in bold; efficiency is bound over yours. {self.source}"
        return f"{head}{style.to_html()}<p><small>{html.escape(note)}</small></p>"


def check_scheduler(
    f: UserFunction, *, seed: int = 0, trials: int = 200, cost: CostModel | None = None
) -> SchedulerReport:
    """Look for a batch on which a scheduler is wrong; if there is none, score it.

    The scheduler is called on batches with one unusual thing each (an empty request, one token, lengths at tile
    edges, one long request among short ones, more requests than CTAs, several KV heads), on random ones, and on those
    that it would be scored on. The first failure is made smaller in small steps as long as it stays of its kind.

    Parameters
    ----------
    f : callable
        ``f(lengths, num_kv_heads, num_ctas, tile)`` that returns for each CTA a list of
        ``(kv_head, request, first_tile, num_tiles)``; ``lengths`` is an int64 array [batch].
    seed : int
        Of the random batches.
    trials : int
        How many of them.
    cost : CostModel, optional
        That scores; default: decode attention with an FP8 cache on an H200.

    Returns
    -------
    SchedulerReport

    Raises
    ------
    InvalidArgument
        When ``f`` cannot be called, or ``seed`` or ``trials`` is not a whole number.
    """
    if not callable(f) or isinstance(f, type):
        shown = reprlib.repr(f)
        raise InvalidArgument(f"the scheduler is {shown}. Give a function f(lengths, num_kv_heads, num_ctas, tile).")
    check_count("seed", seed, 0, 2**63 - 1)
    check_count("trials", trials, 0, 1_000_000)
    cost = given_or_default(cost)
    name = getattr(f, "__name__", type(f).__name__)
    cases = scored()
    plans: list[DecodePlan] = []
    for batch in chain(edges(), random_batches(seed, trials), cases.values()):
        found = _probe(f, name, batch)
        if not isinstance(found, DecodePlan):
            return SchedulerReport(name, len(plans) + 1, _smallest(f, name, batch, found), source=cost.source)
        plans.append(found)
    scores = tuple(_score(case, plan, cost) for case, plan in zip(cases, plans[-len(cases) :], strict=True))
    return SchedulerReport(name, len(plans), None, scores, cost.source)


def _smallest(f: UserFunction, name: str, batch: Batch, found: tuple[str, list[str]]) -> Failure:
    last = found

    def fails(candidate: Batch) -> bool:
        nonlocal last
        outcome = _probe(f, name, candidate)
        if isinstance(outcome, DecodePlan) or outcome[0] != found[0]:
            return False
        last = outcome
        return True

    small = shrink(batch, fails)
    kind, words = last
    if len(words) > WORDS:
        words = [*words[:WORDS], f"and {len(words) - WORDS} more"]
    return Failure(kind, tuple(words), small, batch)


def _score(case: str, plan: DecodePlan, cost: CostModel) -> Score:
    mine = plan.metrics(cost)
    rivals = {rival: resolve(rival, cost).plan(plan.problem).metrics(cost).makespan_us for rival in RIVALS}
    return Score(case, mine.makespan_us, rivals, mine.bound_us)


def _probe(f: UserFunction, name: str, batch: Batch) -> DecodePlan | tuple[str, list[str]]:
    """The plan of ``f`` for ``batch``, or the kind of failure and what is wrong."""
    problem = DecodeProblem(np.array(batch.lengths, np.int64), batch.num_kv_heads, batch.num_ctas, batch.tile)
    lengths = problem.lengths.copy()
    try:
        plan = plan_from_bins(problem, name, f(lengths, batch.num_kv_heads, batch.num_ctas, batch.tile))
        second = f(problem.lengths.copy(), batch.num_kv_heads, batch.num_ctas, batch.tile)
        again = plan_from_bins(problem, name, second)
    except InvalidPlan as error:
        return "not a map", [str(problem) for problem in error.problems]
    except (Exception, SystemExit) as error:  # exit() would end the learner's session
        return f"raises {type(error).__name__}", [_explain(error)]
    changed = np.flatnonzero(lengths != plan.lengths) if lengths.shape == plan.lengths.shape else [0]
    if len(changed):
        b = int(changed[0])
        words = f"it changes the array it is given: request {b} had {plan.lengths[b]} tokens and has {lengths[b]} after"
        return "changes its argument", [f"{words} the call; work on lengths.copy()"]
    if problems := plan.problems():
        return problems[0].kind, [str(problem) for problem in problems]
    if plan.as_lists() != again.as_lists():
        where = next(c for c, (a, b) in enumerate(zip(plan.as_lists(), again.as_lists(), strict=True)) if a != b)
        return "not repeatable", [f"two calls with the same arguments give CTA {where} different work"]
    return plan


def _explain(error: BaseException) -> str:
    """The exception, with the line of the learner's own code that led to it."""
    said = "".join(traceback.format_exception_only(error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    own = next((frame.filename for frame in frames if not frame.filename.startswith(PACKAGE)), None)
    if own is None:
        return f"the call itself fails: {said}"
    at = [frame for frame in frames if frame.filename == own][-1]
    return f"line {at.lineno} of {at.name}, `{at.line}`, raises {said}"
