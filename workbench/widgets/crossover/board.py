"""Every rule with its price, for one set of figures and one traffic."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import InvalidArgument
from workbench.tables import Choice, sglang_choice
from workbench.tables.sglang import ABOVE, BELOW, ThresholdTable
from workbench.tune import Regret, ThresholdFit, Traffic, best_choice, fit_threshold
from workbench.widgets.crossover.figures import Figures
from workbench.widgets.crossover.pricing import Pricing
from workbench.widgets.crossover.styles import title_of

OURS = "cuda"
BEST = "best"


@dataclass(frozen=True)
class Price:
    """One rule.

    Attributes
    ----------
    key : str
        "own", "best", "in use", "one", or "always ..." with a provider.
    rule : Choice
    regret : Regret or None
        Against the best choice; None where it cannot be given.
    problem : str
        Why not.
    """

    key: str
    rule: Choice
    regret: Regret | None
    problem: str = ""


class Board:
    """Prices of the rules that do not change while a threshold is dragged.

    Parameters
    ----------
    figures
        Their search has the providers that are compared, at the precision in force.
    k, n
        Shape of the weight, [n, k].
    traffic
        The distribution of M.
    in_use
        The engine's table, of SGLang's form.

    Raises
    ------
    InvalidArgument
        No M has figures of every provider compared, or no call of the traffic lies inside what was measured.
    """

    def __init__(self, figures: Figures, k: int, n: int, traffic: Traffic, in_use: ThresholdTable) -> None:
        search = figures.search
        if not search.verdicts():
            raise InvalidArgument(
                f"no M has figures of all of {', '.join(search.allowed)}. Compare fewer providers, or measure them."
            )
        self.figures, self.traffic = figures, traffic
        self.allowed = search.allowed
        self.intervals = search.intervals()
        self.pricing = Pricing(search.points, traffic, level=search.settings.level, seed=search.settings.seed)
        self.best = best_choice(search)
        self.in_use = sglang_choice(k, n, in_use)
        self.fp32 = Choice.always(BELOW, f"always {title_of(BELOW)}")
        own = self.price("best", self.best)
        if own.regret is None:
            raise InvalidArgument(own.problem)
        self.fit, fit = self._fit(traffic)
        others = [self.price("in use", self.in_use), fit]
        if self.in_use.merged().providers == (BELOW,):  # SGLang has no entry: then its table is "always FP32" itself
            always = [name for name in self.allowed if name != BELOW]
        else:
            always = list(dict.fromkeys([BELOW, *self.allowed]))
        others += [self.price(f"always {name}", Choice.always(name, f"always {title_of(name)}")) for name in always]
        self.others = (own, *others)

    def price(self, key: str, rule: Choice) -> Price:
        """One rule against the best choice."""
        try:
            return Price(key, rule, self.pricing.regret(rule, self.best))
        except InvalidArgument as error:
            return Price(key, rule, None, str(error))

    def against(self, rule: Choice) -> list[Regret]:
        """What a rule costs against the table in use and against always FP32, where that can be given."""
        found = []
        for other in (self.in_use, self.fp32):
            try:
                found.append(self.pricing.regret(rule, other))
            except InvalidArgument:  # a provider of the other rule has no figures; its own row says so
                continue
        return found

    def _fit(self, traffic: Traffic) -> tuple[ThresholdFit | None, Price]:
        above = ABOVE if ABOVE in self.allowed else OURS
        try:
            fit = fit_threshold(self.figures.search, traffic, above=above)
        except InvalidArgument as error:
            return None, Price("one", Choice.always(BELOW, "one threshold (SGLang's form)"), None, str(error))
        first = f"never {title_of(above)}" if fit.first is None else f"{title_of(above)} from {max(fit.first, 1):,}"
        rule = Choice(fit.choice.starts, fit.choice.providers, f"one threshold: {first}")
        return fit, self.price("one", rule)
