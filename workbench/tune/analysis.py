"""A search, seen under a traffic: the table it comes to, and what that and other rules cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.errors import InvalidArgument
from workbench.records.parts import Environment
from workbench.tables import SGLANG, Choice, DispatchTable, check_sglang, sglang_choice
from workbench.tables.sglang import ABOVE, BELOW, ThresholdTable
from workbench.tune.crossover import CrossoverSearch
from workbench.tune.regret import Regret, regret
from workbench.tune.results import ThresholdFit, best_choice, fit_threshold, make_table
from workbench.tune.traffic import Traffic

OURS = "cuda"


@dataclass(frozen=True)
class Analysis:
    """What a search comes to for one shape.

    Attributes
    ----------
    search : CrossoverSearch
    table : DispatchTable
        With the regret of its choice against SGLang's table and against always FP32, where they can be given.
    traffic : Traffic
    rules : tuple of Regret
        Other rules against the choice of the table, dearest last: SGLang's table, each provider always, one threshold.
    threshold : ThresholdFit or None
        The best rule of SGLang's form; None where a provider it names has no figures or is not allowed.
    notes : tuple of str
        What could not be given, and why.
    """

    search: CrossoverSearch
    table: DispatchTable
    traffic: Traffic
    rules: tuple[Regret, ...]
    threshold: ThresholdFit | None
    notes: tuple[str, ...]


def analyse(
    search: CrossoverSearch,
    *,
    k: int,
    n: int,
    environment: Environment,
    origins: Sequence[str],
    traffic: Traffic,
    sglang: ThresholdTable = SGLANG,
) -> Analysis:
    """Make the table of a search and price it.

    Parameters
    ----------
    search
        With at least one M measured; it need not be finished.
    k, n
        Shape of the weight, [n, k].
    environment, origins
        What the figures hold for, and where they come from.
    traffic
        The distribution of M.
    sglang
        Table in use, of SGLang's form.

    Raises
    ------
    InvalidArgument
        No M was measured for all allowed providers, no call lies inside those that were, or `sglang` is no such table.
    """
    settings = search.settings
    if not search.verdicts():
        raise InvalidArgument(
            f"no M has figures of all of {', '.join(search.allowed)}; measure them together, or leave one out"
        )
    best = best_choice(search)
    in_use = sglang_choice(k, n, check_sglang(sglang))
    fp32 = Choice.always(BELOW, "always FP32")
    notes: list[str] = []
    if lacking := len(search.points) - len(search.verdicts()):
        notes.append(f"{lacking} of {len(search.points)} M: an allowed provider has no figure there")

    def price(rule: Choice, against: Choice) -> Regret | None:
        try:
            return regret(search.points, rule, against, traffic, level=settings.level, seed=settings.seed)
        except InvalidArgument as error:
            notes.append(f"{rule.label} against {against.label}: {error}")
            return None

    try:
        above = ABOVE if ABOVE in search.allowed else OURS
        threshold = fit_threshold(search, traffic, above=above)
    except InvalidArgument as error:
        threshold = None
        notes.append(f"one threshold: {error}")
    others = [in_use, fp32, *(Choice.always(name) for name in search.allowed if name != BELOW)]
    priced = [found for rule in others if (found := price(rule, best)) is not None]
    priced += [threshold.regret] if threshold else []
    ours = [found for rule in (in_use, fp32) if (found := price(best, rule)) is not None]
    table = make_table(search, k=k, n=n, environment=environment, origins=origins, traffic=traffic, regrets=ours)
    return Analysis(
        search, table, traffic, tuple(sorted(priced, key=lambda r: r.us)), threshold, tuple(dict.fromkeys(notes))
    )
