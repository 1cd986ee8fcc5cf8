"""What was measured of the workload on screen: figures of the record stores, ours and others', with their source."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench import devices, workloads
from workbench.errors import InvalidArgument, RecordWarning, WorkbenchError
from workbench.measure.timeline import Timeline
from workbench.records import Store, is_alone, is_of_study
from workbench.records.rows import Row

OPERATOR = "attention_decode"
OURS = {"cuda": "cuda", "workbench": "cuda", "triton": "triton"}
"""Our implementations by the provider that records name; the CUDA kernel had another name once."""

FLOOR = "read"
"""Provider of the kernel that only reads the same bytes."""

GROUP, HEAD_DIM = 8, 128
"""Query heads a KV head, and elements a head, that the explorer's cost model is for."""

MARKS = {"timing": "\u25d0", "timeline": "\u25d0", "reference": "\u25c7", "given": "\u25cf"}
"""Marks of figures by where they come from: recorded by this project, measured by somebody else, given in Python."""

OFFERED = 3
"""Cases named where nothing is recorded for the workload."""

Lengths = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Figure:
    """One recorded time.

    Attributes
    ----------
    provider, policy : str
        Names as in the record, ours as :data:`OURS` has them; the policy is "" where there is none.
    median_us : float
    low_us, high_us : float or None
        95 % interval of the median.
    rel_error : float or None
        Against float64.
    error_of : str
        What the error was taken from where it was another variant.
    config : mapping
        How the implementation was built.
    kind, origin, software : str
        Kind of the record, where the figure comes from in words, and what was measured with its version.
    date : str
        ISO day.
    of_study : bool
        Whether a tuning study measured it, as one of many configurations.
    """

    provider: str
    policy: str
    median_us: float
    low_us: float | None
    high_us: float | None
    rel_error: float | None
    error_of: str
    config: Mapping[str, Any]
    kind: str
    origin: str
    software: str
    date: str
    of_study: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether this project's code was measured."""
        return self.provider in OURS.values()


@dataclass(frozen=True)
class Shown:
    """What the screen asks records for."""

    lengths: Lengths
    gpu: str
    cache: str
    num_kv_heads: int
    q_len: int


class Library:
    """Figures of decode attention in the record stores. Rows are listed once; documents are read when asked for.

    Parameters
    ----------
    store
        Where to look; None opens the shipped records and the user's own.

    Attributes
    ----------
    problem : str
        Why something could not be read; "" if nothing is known to be wrong.
    version : int
        How often the stores were looked through again.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self.problem = ""
        self.version = 0
        self._found: dict[tuple[object, ...], tuple[Figure, ...]] = {}
        self._timelines: dict[str, tuple[str, Timeline, str, str, bool] | None] = {}

    @cached_property
    def store(self) -> Store:
        """The store."""
        return Store() if self._store is None else self._store

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """All rows of decode attention, whatever their kind."""
        return tuple(self._watched(lambda: self.store.rows(operator=OPERATOR)) or ())

    @cached_property
    def cases(self) -> dict[str, Lengths]:
        """KV lengths of each case that has a figure, by its name."""
        found = {}
        for case, path in {str(row["case"]): str(row["path"]) for row in self.rows}.items():
            try:
                found[case] = workloads.parse_lengths(case)
            except WorkbenchError:  # named by something else than its lengths, which then are in the document
                if (lengths := self._lengths_in(path)) is not None:
                    found[case] = lengths
        return found

    def _lengths_in(self, path: str) -> Lengths | None:
        """The lengths that a document holds beside its name, if they can be used."""
        record = self._watched(partial(self.store.read, path))
        if record is None or "lengths" not in record.workload.parameters:
            return None
        try:
            return workloads.as_lengths(record.workload.parameters["lengths"])
        except WorkbenchError as error:
            self.problem = f"{path}: {error}"
            return None

    def reload(self) -> None:
        """Forget everything, so that what was recorded since is found."""
        self.problem = ""
        self.version += 1
        self._found.clear()
        self._timelines.clear()
        for name in ("rows", "cases"):
            self.__dict__.pop(name, None)

    def case_of(self, lengths: Lengths) -> str:
        """The case that has exactly these lengths in this order, or ""."""
        return next((name for name, known in self.cases.items() if np.array_equal(known, lengths)), "")

    def nearest(self, lengths: Lengths) -> tuple[str, ...]:
        """Cases most like a batch, by the ratios of total, longest and number of requests."""
        order = sorted(self.cases, key=lambda name: _unlike(self.cases[name], lengths))
        return tuple(order[:OFFERED])

    def figures(self, shown: Shown) -> tuple[Figure, ...]:
        """Every time recorded for just this work, fastest first."""
        case = self.case_of(shown.lengths)
        key = (case, shown.gpu, shown.cache, shown.num_kv_heads, shown.q_len)
        if case and key not in self._found:
            shape = (shown.num_kv_heads, shown.q_len)
            origins = {str(row["path"]): str(row["origin"]) for row in self.rows}
            wanted = {"case": case, "dtype": shown.cache, "gpu": shown.gpu}
            matching = [
                _figure(record, origins.get(str(path), ""))
                for path, record in self._documents(**wanted)
                if _shape(record) == shape
            ]
            self._found[key] = tuple(sorted(matching, key=lambda figure: figure.median_us))
        return self._found.get(key, ())

    def timelines(self, shown: Shown) -> tuple[tuple[str, Timeline, str, str, bool], ...]:
        """Name, timeline, source, ISO day and `is_alone` of each recorded for just this work, whatever its policy."""
        found = []
        for row in self.rows:
            wanted = row["kind"] == "timeline" and row["dtype"] == shown.cache and _same_gpu(row["gpu"], shown.gpu)
            known = self.cases.get(str(row["case"]))
            if not wanted or (known is not None and not np.array_equal(known, shown.lengths)):
                continue
            alone = is_alone(row["method"])
            source = f"{MARKS['timeline']} {row['origin']}{', one launch alone' if alone else ''}"
            entry = self._timeline(str(row["path"]), source, str(row["date"]), alone)
            if entry is None:
                continue
            plan = entry[1].plan
            same = (plan.num_kv_heads, plan.q_len) == (shown.num_kv_heads, shown.q_len)
            if same and np.array_equal(plan.lengths, shown.lengths):
                found.append(entry)
        return tuple(found)

    def _timeline(self, path: str, source: str, date: str, alone: bool) -> tuple[str, Timeline, str, str, bool] | None:
        if path not in self._timelines:
            record = self._watched(lambda: self.store.read(path))
            fits = record is not None and _shape(record) is not None
            read = self._watched(lambda: Timeline.from_arrays(self.store.arrays(path))) if fits else None
            self._timelines[path] = None if read is None else (Path(path).stem, read, source, date, alone)
        return self._timelines[path]

    def others(self, shown: Shown) -> tuple[Shown, ...]:
        """GPU, cache type and heads for which the same lengths are recorded."""
        case = self.case_of(shown.lengths)
        if not case:
            return ()
        settings = (
            (record.environment.gpu, record.workload.dtype, *shape)
            for _, record in self._documents(case=case)
            if (shape := _shape(record)) is not None and record.workload.dtype
        )
        return tuple(Shown(shown.lengths, *setting) for setting in dict.fromkeys(settings))

    def _documents(self, **wanted: Any) -> list[tuple[Path, Any]]:
        """Timings and references that match."""
        kinds = ("timing", "reference")
        return self._watched(lambda: list(self.store.records(operator=OPERATOR, kind=kinds, **wanted))) or []

    def _watched(self, read: Callable[[], Any]) -> Any:
        """What ``read`` gives; what the store warns of or fails with is kept in words for the screen."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RecordWarning)
            try:
                result = read()
            except WorkbenchError as error:
                self.problem = str(error)
                return None
        told = [str(warning.message) for warning in caught if issubclass(warning.category, RecordWarning)]
        self.problem = told[0] if told else self.problem
        return result


def _same_gpu(recorded: object, shown: str) -> bool:
    try:
        return devices.gpu(str(recorded)).name == shown
    except InvalidArgument:  # a GPU that the catalogue does not have
        return str(recorded) == shown


def _unlike(known: Lengths, lengths: Lengths) -> float:
    def size(values: Lengths) -> npt.NDArray[np.float64]:
        return np.log1p(np.array([values.sum(), values.max(initial=0), values.size], np.float64))

    return float(np.abs(size(known) - size(lengths)).sum())


def _shape(record: Any) -> tuple[int, int] | None:
    """KV heads and query tokens, if the rest of the shape is the one that the cost model is for."""
    given = record.workload.parameters
    heads, q_len = given.get("num_kv_heads"), given.get("q_len")
    rest = {"head_dim": HEAD_DIM, "num_q_heads": GROUP * heads} if isinstance(heads, int) else {"head_dim": 0}
    fits = isinstance(q_len, int) and all(given.get(name) == value for name, value in rest.items())
    return (heads, q_len) if fits else None


def _figure(record: Any, origin: str) -> Figure:
    """The parts of a timing or a reference that the screen shows."""
    reference = record.kind == "reference"
    return Figure(
        provider=OURS.get(record.provider, record.provider),
        policy=record.policy or "",
        median_us=record.median_us,
        low_us=None if reference else record.low_us,
        high_us=None if reference else record.high_us,
        rel_error=record.rel_error,
        error_of="" if reference else record.error_of or "",
        config=record.configuration,
        kind=record.kind,
        origin=origin,
        software=(record.provenance.software or "") if reference else "",
        date=record.environment.date.isoformat(),
        of_study=is_of_study(record.method),
    )
