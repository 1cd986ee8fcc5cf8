"""What a serving engine was asked to do: when each request came, how long its prompt was, how much it generated."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument, WorkloadError
from workbench.workloads.arguments import real, whole
from workbench.workloads.lengths import MAX_TOKENS

if TYPE_CHECKING:
    import pandas as pd

#: Latest arrival accepted, seconds after the first: ten years.
MAX_SECONDS = 10 * 366 * 86_400.0


@dataclass(frozen=True, eq=False)
class RequestTrace:
    """Requests in order of arrival. Lengths are of requests; KV lengths of decode steps come from `simulate`.

    Rows are sorted by arrival (equal arrivals keep their order) and time is shifted to begin at 0; the arrays are
    read-only copies.

    Attributes
    ----------
    arrival_s : numpy.ndarray
        float64 [N], seconds after the first request.
    input_tokens : numpy.ndarray
        int64 [N], prompt length, at least 1.
    output_tokens : numpy.ndarray
        int64 [N], tokens generated, at least 0; the first one comes out of prefill.
    name : str
        Where the trace is from, such as the file's name.
    format : str
        How it was read, such as "azure"; "made" if the workbench or the caller made it.
    arrivals : str
        Where the arrival times are from, in words: "recorded", "all at zero", "Poisson, 5 requests/s, seed 0".
    skipped : Mapping[str, int]
        Records left out, counted by reason.
    notes : tuple of str
        What reading changed, such as sorting.

    Raises
    ------
    WorkloadError
        The columns differ in size, are empty, or hold a value out of range.
    """

    arrival_s: npt.NDArray[np.float64]
    input_tokens: npt.NDArray[np.int64]
    output_tokens: npt.NDArray[np.int64]
    name: str = "trace"
    format: str = "made"
    arrivals: str = "recorded"
    skipped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the columns, sort them by arrival and freeze them."""
        try:
            arrival = np.array(self.arrival_s, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise WorkloadError(f"arrival_s holds no numbers ({error}); give seconds") from None
        lengths = [_whole(self.input_tokens, "input_tokens", 1), _whole(self.output_tokens, "output_tokens", 0)]
        if arrival.ndim != 1 or not arrival.size or any(column.shape != arrival.shape for column in lengths):
            shapes = ", ".join(str(list(column.shape)) for column in (arrival, *lengths))
            raise WorkloadError(
                f"arrival, input and output have shapes {shapes}; give three equal columns, 1 row or more"
            )
        if not np.isfinite(arrival).all():
            raise WorkloadError(f"arrival {int(np.argmin(np.isfinite(arrival)))} is not a finite number of seconds")
        late = int(np.count_nonzero(np.diff(arrival) < 0))
        notes = self.notes
        if late:
            notes += (f"{late:,} of {arrival.size:,} requests came before the one above them; sorted by arrival",)
            order = np.argsort(arrival, kind="stable")
            arrival, lengths = arrival[order], [column[order] for column in lengths]
        arrival -= arrival[0]
        if arrival[-1] > MAX_SECONDS:
            raise WorkloadError(
                f"the last request comes {arrival[-1]:.3g} s after the first, over ten years; is the unit seconds?"
            )
        for name, column in zip(("arrival_s", "input_tokens", "output_tokens"), (arrival, *lengths), strict=True):
            column.flags.writeable = False
            object.__setattr__(self, name, column)
        object.__setattr__(self, "skipped", MappingProxyType(dict(self.skipped)))
        object.__setattr__(self, "notes", tuple(notes))

    def __len__(self) -> int:
        return self.arrival_s.size

    def __repr__(self) -> str:
        left_out = f", {self.num_skipped:,} skipped" if self.skipped else ""
        return (
            f"RequestTrace({self.name!r}, {len(self):,} requests over {self.duration_s:,.0f} s, format {self.format}, "
            f"arrivals {self.arrivals}{left_out})"
        )

    @property
    def duration_s(self) -> float:
        """Seconds from the first arrival to the last."""
        return float(self.arrival_s[-1])

    @property
    def num_skipped(self) -> int:
        """Records left out when the trace was read."""
        return sum(self.skipped.values())

    def head(self, num_requests: int) -> RequestTrace:
        """The first requests of the trace; all of it if it has no more.

        Raises
        ------
        InvalidArgument
            ``num_requests`` is below 1.
        """
        num_requests = whole("num_requests", num_requests, 1)
        if num_requests >= len(self):
            return self
        columns = {name: getattr(self, name)[:num_requests] for name in ("arrival_s", "input_tokens", "output_tokens")}
        return replace(self, **columns, notes=(*self.notes, f"the first {num_requests:,} of {len(self):,} requests"))

    def with_poisson_arrivals(self, rate: float, *, seed: int = 0) -> RequestTrace:
        """The same requests in the same order, arriving as a Poisson process.

        Parameters
        ----------
        rate
            Mean requests a second.
        seed
            Of ``numpy.random.default_rng``.

        Raises
        ------
        InvalidArgument
            The rate is not a positive number, the seed not a whole one from 0, or the rate so low that the trace
            would last over ten years.
        """
        check_poisson(rate, seed)
        gaps = np.random.default_rng(seed).exponential(1.0, len(self)) / rate
        arrival = np.cumsum(gaps)
        if arrival[-1] > MAX_SECONDS:
            raise InvalidArgument(f"rate={rate!r} makes the trace last over ten years; give more requests a second")
        words = f"Poisson, {rate:g} requests/s, seed {seed}"
        if self.arrivals == "recorded":
            words += ", in place of the recorded ones"
        return replace(self, arrival_s=arrival, arrivals=words)

    def with_speed(self, factor: float) -> RequestTrace:
        """The same requests arriving ``factor`` times as fast.

        Raises
        ------
        InvalidArgument
            The factor is not between 1e-6 and 1e6.
        """
        factor = real("factor", factor, "a number between 1e-6 and 1e6", 1e-6, 1e6)
        return replace(self, arrival_s=self.arrival_s / factor, arrivals=f"{self.arrivals}, {factor:g} times as fast")

    def to_frame(self) -> pd.DataFrame:
        """The three columns as a pandas DataFrame, one row a request."""
        import pandas as pd

        columns = ("arrival_s", "input_tokens", "output_tokens")
        return pd.DataFrame({column: getattr(self, column) for column in columns})


def check_poisson(rate: float, seed: int) -> None:
    """Raise `InvalidArgument` unless these describe arrivals: a positive finite rate, and a seed from 0."""
    real("rate", rate, "a positive number of requests a second", sys.float_info.min, sys.float_info.max)
    whole("seed", seed, 0)


def _whole(values: npt.ArrayLike, name: str, least: int) -> npt.NDArray[np.int64]:
    """An int64 copy of a column of whole numbers between `least` and `MAX_TOKENS`."""
    try:
        column = np.array(values)
    except ValueError:  # rows of several sizes
        column = np.array([None])
    if column.size and column.dtype.kind not in "iu":
        raise WorkloadError(f"{name} holds {column.dtype} values; give whole numbers of tokens")
    outside = np.flatnonzero((column < least) | (column > MAX_TOKENS))
    if outside.size:
        bad = int(outside[0])
        raise WorkloadError(f"{name}[{bad}] is {column.flat[bad]}; give between {least} and {MAX_TOKENS:,} tokens")
    return column.astype(np.int64)
