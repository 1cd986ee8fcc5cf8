"""What became of one configuration of a study."""

from __future__ import annotations

import dataclasses
import json
from statistics import median
from typing import Any, Literal, Self, get_args

import numpy as np
from pydantic import TypeAdapter

State = Literal["timed", "compile error", "launch error", "wrong result", "time-out", "crashed"]
"""Timed; or why not. "crashed": the process that ran it ended, or its GPU took no more work afterwards."""

STATES: tuple[str, ...] = get_args(State)


class TrialFailed(Exception):
    """A configuration could not be measured.

    Attributes
    ----------
    state : str
        One of :data:`STATES` but "timed".
    reason : str
        In words.
    """

    def __init__(self, state: State, reason: str) -> None:
        super().__init__(f"{state}: {reason}")
        self.state: State = state
        self.reason = reason


@dataclasses.dataclass(frozen=True)
class Trial:
    """One configuration, tried once. It is what the study's journal keeps.

    Attributes
    ----------
    config : dict
        The configuration as plain data.
    state : str
    reason : str
        Why it was not timed; "" where it was.
    samples_us : tuple of float
        Microseconds a call.
    beside_us : tuple of float
        Samples of the default configuration, taken in turns with these.
    rel_error : float or None
        Relative to float64; None where nothing was computed.
    dropped : bool
        It was clearly slower after the first samples, so no more were taken.
    gpu : str
        Name by the driver.
    throttled : tuple of str
        What held the clocks down meanwhile.
    seconds : float
        What the trial took.
    """

    config: dict[str, Any]
    state: State
    reason: str = ""
    samples_us: tuple[float, ...] = ()
    beside_us: tuple[float, ...] = ()
    rel_error: float | None = None
    dropped: bool = False
    gpu: str = ""
    throttled: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """The configuration as text; see `workbench.tune.space.key_of`."""
        return json.dumps(self.config, sort_keys=True)

    @property
    def median_us(self) -> float:
        """Median of the samples; NaN where it was not timed."""
        return median(self.samples_us) if self.samples_us else float("nan")

    @property
    def relative(self) -> float:
        """Median over that of the default taken in turns with it: drift of the clocks cancels. NaN if not timed."""
        return self.median_us / median(self.beside_us) if self.beside_us else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> Self:
        """Undo `to_dict`.

        Raises
        ------
        ValueError
            It is no trial.
        """
        trial: Self = TypeAdapter(cls).validate_python(said)
        if (trial.state == "timed") != bool(trial.samples_us and trial.beside_us):
            raise ValueError(f"{trial.state!r} with {len(trial.samples_us)} and {len(trial.beside_us)} samples")
        if not all(0 < us < float("inf") for us in (*trial.samples_us, *trial.beside_us)):
            raise ValueError("samples that are no times")
        return trial


@dataclasses.dataclass(frozen=True)
class Finalist:
    """A configuration that was measured against the others of the last round, all taking turns.

    Attributes
    ----------
    config : dict
    samples_us : tuple of float
    beside_us : tuple of float
        Samples of the default in the same turns.
    rel_error : float or None
    """

    config: dict[str, Any]
    samples_us: tuple[float, ...]
    beside_us: tuple[float, ...]
    rel_error: float | None = None

    @property
    def median_us(self) -> float:
        """Median of the samples."""
        return median(self.samples_us)

    @property
    def relative(self) -> float:
        """Median over the default's."""
        return self.median_us / median(self.beside_us)

    def interval_us(self, level: float = 0.95) -> tuple[float, float]:
        """Bootstrap interval of the median, microseconds."""
        low, high = _bootstrap(np.median(_draws(self.samples_us), axis=1), level)
        return low, high

    def relative_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Bootstrap interval of `relative`; sample and default of one turn are drawn together."""
        picks = _picks(min(len(self.samples_us), len(self.beside_us)))
        own, beside = np.asarray(self.samples_us)[picks], np.asarray(self.beside_us)[picks]
        return _bootstrap(np.median(own, axis=1) / np.median(beside, axis=1), level)


_DRAWS = 2000


def _picks(samples: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.random.default_rng(0).integers(0, samples, (_DRAWS, samples))


def _draws(samples: tuple[float, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    drawn: np.ndarray[Any, np.dtype[np.float64]] = np.asarray(samples, np.float64)[_picks(len(samples))]
    return drawn


def _bootstrap(values: np.ndarray[Any, np.dtype[np.float64]], level: float) -> tuple[float, float]:
    """Ends of the percentile interval (Efron 1979)."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
