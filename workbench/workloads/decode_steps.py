"""The decode steps of a simulation, as a sequence of batches."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument, StepOutOfRange
from workbench.workloads.timeline import Int32, Int64, StepTable, Timeline

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class StepBatches:
    """The batches of many steps in CSR form: step i has the entries ``offsets[i]:offsets[i + 1]``.

    Attributes
    ----------
    offsets : numpy.ndarray
        int64 [steps + 1].
    request : numpy.ndarray
        int32 [entries], row of the request in its trace.
    length : numpy.ndarray
        int32 [entries], KV length in tokens.
    """

    offsets: Int64
    request: Int32
    length: Int32


class DecodeSteps:
    """Decode steps that a simulated engine made; never a recording, and `label` says so.

    A sequence: ``steps[i]`` and iteration give KV lengths, ``steps[a:b:c]`` gives the chosen steps, again as
    DecodeSteps, without copying. Steps are numbered from 0 within the choice; `step_numbers` are the engine's.

    Attributes
    ----------
    label : str
        What this is, for a title; contains the word "simulated".
    timeline : Timeline
        The compact record behind it.
    """

    def __init__(self, timeline: Timeline, *, label: str, chosen: range | None = None) -> None:
        """
        Parameters
        ----------
        timeline
            From the simulator.
        label
            As the attribute.
        chosen
            Engine steps to keep; None keeps all.

        Raises
        ------
        InvalidArgument
            The label does not say that the steps are simulated.
        """
        if "simulated" not in label:
            raise InvalidArgument(f'label={label!r}; a label of decode steps contains the word "simulated"')
        self.label = label
        self.timeline = timeline
        self._chosen = range(timeline.num_steps) if chosen is None else chosen

    def __len__(self) -> int:
        return len(self._chosen)

    def __repr__(self) -> str:
        return f"<{len(self):,} {self.label}>"

    @overload
    def __getitem__(self, index: int) -> Int32: ...
    @overload
    def __getitem__(self, index: slice) -> DecodeSteps: ...
    def __getitem__(self, index: int | slice) -> Int32 | DecodeSteps:
        if isinstance(index, slice):
            if index.step is not None and index.step < 1:
                raise InvalidArgument(f"step {index.step} of the slice; steps go forward in time, give 1 or more")
            return DecodeSteps(self.timeline, label=self.label, chosen=self._chosen[index])
        return self.lengths(index)

    def __iter__(self) -> Iterator[Int32]:
        return (self.lengths(index) for index in range(len(self)))

    def lengths(self, step: int) -> Int32:
        """KV lengths of one step, int32 [batch], tokens, in the order in which the requests began to decode.

        Raises
        ------
        StepOutOfRange
            There is no such step; negative numbers count from the end.
        """
        return self.timeline.running(self._engine_step(step))[1]

    def requests(self, step: int) -> Int32:
        """Rows of the trace that the entries of ``lengths(step)`` belong to, int32 [batch].

        Raises
        ------
        StepOutOfRange
            There is no such step.
        """
        return self.timeline.running(self._engine_step(step))[0]

    def batches(self) -> StepBatches:
        """The batches of all these steps in CSR form: 8 bytes an entry, so choose a slice of a long simulation."""
        return StepBatches(*self.timeline.csr(self._chosen))

    def table(self) -> StepTable:
        """Start, batch size, KV tokens, longest length and prefill of all these steps, in one vectorised pass."""
        return self.timeline.table(self._chosen)

    @property
    def step_numbers(self) -> Int64:
        """Numbers of these steps among all decode steps of the engine, int64 [steps]."""
        return np.arange(self._chosen.start, self._chosen.stop, self._chosen.step, dtype=np.int64)

    @property
    def start_s(self) -> npt.NDArray[np.float64]:
        """Start of each step by the modelled clock, float64 [steps], seconds after the first arrival."""
        return self.table().start_s

    @property
    def batch_sizes(self) -> Int64:
        """Requests that each step decodes, int64 [steps]."""
        return self.table().batch

    @property
    def kv_tokens(self) -> Int64:
        """Sum of the KV lengths of each step, int64 [steps], tokens."""
        return self.table().kv_tokens

    @property
    def max_lengths(self) -> Int64:
        """Longest KV length of each step, int64 [steps], tokens."""
        return self.table().max_length

    @property
    def prefill_tokens(self) -> Int64:
        """Prompt tokens prefilled beside each step, int64 [steps]."""
        return self.table().prefill_tokens

    def lifetimes(self) -> Int64:
        """When each request is in the batch.

        Returns
        -------
        numpy.ndarray
            int64 [stays, 4]: (request, first step, step after the last, KV length in the first), steps numbered as
            here; stays that fall between two chosen steps are left out.
        """
        request, first, stop, length = self.timeline.intervals.T
        start, stride = self._chosen.start, self._chosen.step
        low = np.clip(-((start - first) // stride), 0, len(self))
        high = np.clip(-((start - stop) // stride), 0, len(self))
        stays = np.stack([request, low, high, length + start + low * stride - first], axis=1)
        seen: Int64 = stays[high > low]
        return seen

    def to_frame(self) -> pd.DataFrame:
        """One row a step: step, start_s, batch, kv_tokens, max_length, prefill_tokens, and source = "simulated"."""
        import pandas as pd

        return pd.DataFrame({"step": self.step_numbers, **vars(self.table()), "source": "simulated"})

    def to_long_frame(self) -> pd.DataFrame:
        """One row for each request of each step: step, request, length, and source = "simulated"."""
        import pandas as pd

        batches = self.batches()
        step = np.repeat(self.step_numbers, np.diff(batches.offsets))
        columns = {"step": step, "request": batches.request, "length": batches.length}
        return pd.DataFrame({**columns, "source": "simulated"})

    def export(self, path: str | Path, *, lengths: bool = False) -> Path:
        """Write the steps to a file whose name ends in .csv, .jsonl or .parquet.

        Parameters
        ----------
        path
            Overwritten if it exists.
        lengths
            Write `to_long_frame` instead of `to_frame`.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        InvalidArgument
            The name ends otherwise, or the file cannot be written.
        """
        path = Path(path)
        if path.suffix not in (".csv", ".jsonl", ".parquet"):
            raise InvalidArgument(f"path={str(path)!r}; give a name that ends in .csv, .jsonl or .parquet")
        frame = self.to_long_frame() if lengths else self.to_frame()
        try:
            if path.suffix == ".csv":
                frame.to_csv(path, index=False)
            elif path.suffix == ".jsonl":
                frame.to_json(path, orient="records", lines=True, double_precision=12)
            else:
                frame.to_parquet(path, index=False)
        except OSError as error:
            raise InvalidArgument(f"{path} cannot be written: {error}. Name another file.") from None
        return path

    def _engine_step(self, step: int) -> int:
        try:
            return self._chosen[operator.index(step)]
        except TypeError:
            raise InvalidArgument(f"step={step!r}; give the whole number of a step") from None
        except IndexError:
            if not self._chosen:
                raise StepOutOfRange(f"step {step} was asked for, and no request decodes a token: no step") from None
            raise StepOutOfRange(
                f"step {step} was asked for, and there are {len(self):,} simulated steps; give 0 to {len(self) - 1:,}"
            ) from None
