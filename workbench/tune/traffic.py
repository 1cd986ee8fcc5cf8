"""How often the router product is called with M rows: the distribution that a regret is an average over.

Each forward pass calls the product once a layer with M = its tokens. A decode step brings one token a running request;
a prefill brings a chunk of prompt.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument
from workbench.workloads import DecodeSteps, RequestTrace

Int64 = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Traffic:
    """A distribution of M.

    Attributes
    ----------
    label : str
        What it is, for a title.
    m : numpy.ndarray
        int64 [G], rows, ascending and distinct, from 1.
    calls : numpy.ndarray
        float64 [G], calls with that many rows, above 0. Only their proportions matter to an average.
    """

    label: str
    m: Int64
    calls: Floats

    def __post_init__(self) -> None:
        m, calls = np.asarray(self.m), np.asarray(self.calls)
        numbers = np.issubdtype(m.dtype, np.integer) and np.issubdtype(calls.dtype, np.number)
        ascending = numbers and m.ndim == 1 and m.size > 0 and m[0] >= 1 and (np.diff(m) > 0).all()
        with np.errstate(over="ignore"):
            finite = numbers and math.isfinite(calls.sum())
        if not ascending or not finite or calls.shape != m.shape or not (calls > 0).all():
            raise InvalidArgument(
                f"traffic {self.label!r}: give distinct M, whole numbers from 1, ascending, and calls above 0 of each"
            )
        object.__setattr__(self, "m", m.astype(np.int64, copy=False))
        object.__setattr__(self, "calls", calls.astype(np.float64, copy=False))

    @property
    def weights(self) -> Floats:
        """Share of the calls, float64 [G], sum 1."""
        shares: Floats = self.calls / self.calls.sum()
        return shares

    @classmethod
    def of(cls, calls: Mapping[int, float], label: str = "given") -> Self:
        """From a number of calls by M; M without calls are left out.

        Raises
        ------
        InvalidArgument
            No M has calls, an M is no whole number from 1, or a number is negative or not finite.
        """
        try:
            kept = sorted((operator.index(m), float(count)) for m, count in calls.items() if count != 0)
            m, counts = np.array([m for m, _ in kept], np.int64), np.array([count for _, count in kept], np.float64)
        except (AttributeError, TypeError, ValueError, OverflowError):
            raise InvalidArgument(
                f"traffic {label!r} is {str(calls)[:80]}; give a number of calls by M, such as {{1: 5, 64: 1}}"
            ) from None
        return cls(label, m, counts)

    @classmethod
    def from_steps(cls, steps: DecodeSteps, *, mixed: bool = False) -> Self:
        """From the forward passes of a simulated engine.

        Parameters
        ----------
        steps
            Of `workbench.workloads.simulate`, all of them. Steps that only prefill are counted by the simulator but not
            listed; the prompt tokens that the listed steps did not prefill are spread evenly over them.
        mixed
            Whether one pass holds the decoded tokens and the chunk of a step (vLLM, and SGLang with mixed chunks), or
            each has a pass of its own.
        """
        table = steps.table()
        prefill = table.prefill_tokens
        rows = table.batch + prefill if mixed else np.concatenate([table.batch, prefill[prefill > 0]])
        m, calls = np.unique(rows, return_counts=True)
        return cls(
            f"{steps.label}, {'prefill and decode in one pass' if mixed else 'prefill apart'}",
            m,
            calls.astype(np.float64),
        )

    @classmethod
    def from_trace(
        cls,
        trace: RequestTrace,
        *,
        mixed: bool = False,
        max_batch: int = 256,
        kv_capacity: int = 2_000_000,
        prefill_budget: int = 8192,
    ) -> Self:
        """From a request trace, by way of the simulator; its limits are those of `workbench.workloads.simulate`.

        Passes that only prefill are not listed by the simulator. Their number is known, and what they prefilled in all
        where no request was preempted; that is spread evenly over them.
        """
        from workbench.workloads import simulate

        steps = simulate(trace, max_batch=max_batch, kv_capacity=kv_capacity, prefill_budget=prefill_budget)
        listed = cls.from_steps(steps, mixed=mixed)
        apart = steps.timeline.prefill_only
        left = int(trace.input_tokens.sum()) - int(steps.prefill_tokens.sum())
        if apart == 0 or left <= 0:
            return listed
        chunk = min(max(math.ceil(left / apart), 1), prefill_budget)
        calls = dict(zip(listed.m.tolist(), listed.calls.tolist(), strict=True))
        calls[chunk] = calls.get(chunk, 0.0) + apart
        return cls.of(calls, listed.label)

    @classmethod
    def even(cls, low: int = 1, high: int = 8192) -> Self:
        """As many calls in each octave of M, spread evenly inside it: what to assume where nothing is known.

        Raises
        ------
        InvalidArgument
            Not whole numbers ``1 <= low <= high <= 1,048,576``.
        """
        if not isinstance(low, int) or not isinstance(high, int) or not 1 <= low <= high <= 1 << 20:
            raise InvalidArgument(f"low={low}, high={high}; give whole numbers 1 <= low <= high <= 1,048,576")
        m = np.arange(low, high + 1, dtype=np.int64)
        return cls(f"as many calls in each octave from {low} to {high:,}", m, np.log2((m + 1) / m))
