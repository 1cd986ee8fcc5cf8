"""The tuner's settings: plain data, checked once."""

from __future__ import annotations

from dataclasses import dataclass, fields

from workbench.errors import InvalidArgument
from workbench.tables import check_class, parse_shape
from workbench.widgets.crossover.figures import MODES, RECORDED
from workbench.widgets.crossover.rule import Pieces
from workbench.widgets.crossover.traffic import MAX_BATCH, SAMPLE


@dataclass(frozen=True, kw_only=True)
class State:
    """Every setting of the tuner.

    Attributes
    ----------
    router : str
        A model's name or "K,N".
    precision : str
        Least accurate class allowed.
    figures : str
        "recorded" or "live".
    gpu : str
        GPU of the records.
    traffic : str
        "sample", "even" or "given".
    mixed : bool
        Whether prefill and decode share a pass.
    max_batch : int
        Most requests that the simulated engine runs at once.
    providers : tuple of str or None
        Who is compared; None: everybody with figures.
    thresholds : tuple of (int, str) or None
        First M and provider of each piece of the rule; None: the best choice of the figures.
    """

    router: str = "longcat-chat"
    precision: str = "split"
    figures: str = RECORDED
    gpu: str = "H200"
    traffic: str = SAMPLE
    mixed: bool = False
    max_batch: int = 256
    providers: tuple[str, ...] | None = None
    thresholds: Pieces | None = None

    def __post_init__(self) -> None:
        for name in ("router", "precision", "figures", "gpu"):
            if not isinstance(value := getattr(self, name), str) or not value:
                raise InvalidArgument(f"{name} is {str(value)[:80]!r}; give a text.")
        parse_shape(self.router)
        check_class(self.precision)
        if self.figures not in MODES:
            raise InvalidArgument(f"figures is {self.figures!r}; give one of {', '.join(MODES)}.")
        low, high = MAX_BATCH
        if isinstance(self.max_batch, bool) or not isinstance(self.max_batch, int) or not low <= self.max_batch <= high:
            raise InvalidArgument(f"max_batch is {self.max_batch!r}; give a whole number from {low} to {high:,}.")
        if not isinstance(self.mixed, bool):
            raise InvalidArgument(f"mixed is {self.mixed!r}; give True or False.")


SETTINGS = tuple(field.name for field in fields(State))
