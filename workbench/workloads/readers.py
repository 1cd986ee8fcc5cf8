"""Read a request trace from a file of any known format."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument, TraceFileError, TraceFormatError, TraceRecordError
from workbench.workloads.formats import FAILED, FORMATS, OWN_COLUMNS, Row, TraceFormat, named_columns, recognise
from workbench.workloads.records import Numbered, Records, open_records
from workbench.workloads.request_trace import MAX_SECONDS, RequestTrace, check_poisson
from workbench.workloads.values import TIME_UNITS, BadValue


def read_trace(
    path: str | Path,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    *,
    arrival_unit: str = "s",
    rate: float | None = None,
    seed: int = 0,
    run: int | None = None,
) -> RequestTrace:
    """Read a request trace; the format is recognised by the names in the file.

    Parameters
    ----------
    path
        The file: CSV with a header, JSON Lines, or Parquet.
    format
        "azure", "mooncake", "bench-serving", "sglang-metrics" or "columns" (see `formats`); None finds out.
    columns
        For any other file: names of its columns, ``{"arrival": ..., "input": ..., "output": ...}``; "arrival" may
        be left out. Implies format "columns".
    skip_bad
        Count broken records in `RequestTrace.skipped` instead of raising at the first.
    arrival_unit
        Unit of a numeric arrival in format "columns": "s", "ms", "us" or "ns". Dates need none.
    rate, seed
        Replace the arrivals by a Poisson process of so many requests a second. Without a rate, a file that records
        no arrivals gives all at zero; `RequestTrace.arrivals` says which.
    run
        In format "bench-serving", the one run (line) to read, from 0. None joins all runs of the file, each
        after the one above it if start times are recorded.

    Returns
    -------
    RequestTrace
        Sorted by arrival; `notes` say what was changed.

    Raises
    ------
    TraceFileError
        The file is missing, a directory, empty, compressed, damaged, or holds no request.
    TraceFormatError
        The format is not recognised, or a column is missing; lists the names found.
    TraceRecordError
        A record is broken (and not `skip_bad`): file, line, what was found, what was expected.
    InvalidArgument
        An argument is not one of the above.
    """
    wanted = _wanted(format, columns, arrival_unit)
    if run is not None and (not isinstance(run, (int, np.integer)) or isinstance(run, bool) or run < 0):
        raise InvalidArgument(f"run={run!r}; give the number of a run, from 0")
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidArgument(f"path={path!r}; give the path of a trace file")
    if rate is not None:
        check_poisson(rate, seed)
    file = Path(path)
    records = open_records(file)
    rows, found = _recognised(file, records, wanted, skip_bad)
    if run is not None and found.name != "bench-serving":
        raise InvalidArgument(f"run={run} given, but {file} is of format {found.name}, which has no runs")
    table = _Table(str(file), records.unit, skip_bad)
    num_records = 0
    for number, (line, record) in enumerate(rows):
        num_records += 1
        if run is None or run == number:
            table.add(line, record, found, group=number if found.name == "bench-serving" else 0)
    if run is not None and run >= num_records:
        raise InvalidArgument(f"run={run}, but {file} holds {num_records} of them, counted from 0")
    trace = table.trace(file.name, found.name)
    return trace if rate is None else trace.with_poisson_arrivals(rate, seed=seed)


def _wanted(name: str | None, columns: Mapping[str, str] | None, unit: str) -> TraceFormat | None:
    """The format that the caller asks for, or None."""
    if not isinstance(unit, str) or unit not in TIME_UNITS:
        raise InvalidArgument(f"arrival_unit={unit!r}; give one of {', '.join(TIME_UNITS)}")
    if name is not None and (not isinstance(name, str) or name not in FORMATS):
        raise InvalidArgument(f"format={name!r}; give one of {', '.join(FORMATS)}, or leave it out")
    if columns is not None:
        if name not in (None, "columns"):
            raise InvalidArgument(f"columns given with format={name!r}; name columns, or a format, not both")
        named = isinstance(columns, Mapping) and {"input", "output"} <= set(columns) <= set(OWN_COLUMNS)
        if not named or not all(isinstance(column, str) for column in columns.values()):
            raise InvalidArgument(f'columns={columns!r}; give names for "input", "output" and perhaps "arrival"')
        return named_columns(columns, unit)
    if unit != "s" and name not in (None, "columns"):
        raise InvalidArgument(f"arrival_unit={unit!r} given with format={name!r}, whose unit is fixed; leave one out")
    if name == "columns" or (name is None and unit != "s"):
        return named_columns(OWN_COLUMNS, unit)
    return None if name is None else FORMATS[name]


def _recognised(
    path: Path, records: Records, wanted: TraceFormat | None, skip_bad: bool
) -> tuple[Iterator[Numbered], TraceFormat]:
    """The records and their format, told by the columns or, in JSON Lines, by the first whole record."""
    seen: list[Numbered] = []
    line, names = records.header, records.columns
    found = wanted or (recognise(names) if names is not None else None)
    if names is None and found is None:
        for line, record in records.rows:
            seen.append((line, record))
            if isinstance(record, dict):
                names, found = tuple(record), recognise(record)
                break
            if not skip_bad:
                raise _record_error(str(path), line, records.unit, record)
        else:
            reasons = _counted(Counter(bad.reason for _, bad in seen if isinstance(bad, BadValue)))
            raise TraceFileError(str(path), None, f"no record can be read ({reasons})", expected="a request trace")
    if found is None:
        known = "; ".join(f"{known.name}: {', '.join(known.keys)}" for known in FORMATS.values())
        raise TraceFormatError(
            str(path),
            line,
            f"no known format has {_listed(names)}",
            expected=f'one of the known sets of names ({known}), or columns={{"arrival": ..., "input": ..., '
            '"output": ...} naming those of this file',
        )
    if records.columns is not None and (missing := [key for key in found.keys if key not in records.columns]):
        problem = f"no column {', '.join(map(repr, missing))}; there are {_listed(records.columns)}"
        expected = f"the columns of format {found.name}: {', '.join(found.keys)}"
        raise TraceFormatError(str(path), line, problem, expected=expected)
    return chain(seen, records.rows), found


class _Table:
    """Requests as they are read, and the count of those left out."""

    def __init__(self, path: str, unit: str, skip_bad: bool) -> None:
        self.path, self.unit, self.skip_bad = path, unit, skip_bad
        self.skipped: Counter[str] = Counter()
        self.rows: list[tuple[Row, int, int]] = []  # request, line, group

    def add(self, line: int, record: dict[str, Any] | BadValue, found: TraceFormat, group: int) -> None:
        """Add the requests of one record."""
        if isinstance(record, BadValue):
            self.reject(line, record)
            return
        try:
            for row in found.parse(record):
                if isinstance(row, BadValue):
                    self.reject(line, row)
                else:
                    self.rows.append((row, line, group))
        except BadValue as bad:
            self.reject(line, bad)

    def reject(self, line: int, bad: BadValue) -> None:
        """Count one request that is left out, or raise."""
        if not self.skip_bad and bad.reason != FAILED:
            raise _record_error(self.path, line, self.unit, bad)
        self.skipped[bad.reason] += 1

    def trace(self, name: str, format_name: str) -> RequestTrace:
        """The trace of all requests added."""
        timed = any(row[0] is not None for row, _, _ in self.rows)
        if timed:
            self._drop_untimed()
        if not self.rows:
            problem = "the file holds no request" + (f" ({_counted(self.skipped)})" if self.skipped else "")
            raise TraceFileError(self.path, None, problem, expected="at least one request")
        columns = np.array([(row[0] or 0, *row[1:], group) for row, _, group in self.rows], dtype=np.int64)
        notes = [f"left out {count:,}: {reason}" for reason, count in sorted(self.skipped.items())]
        if (runs := len(np.unique(columns[:, 3]))) > 1:
            notes.append(f"joined {runs:,} runs of the file")
        seconds = _seconds(columns[:, 0], columns[:, 3])
        if (last := seconds.max()) > MAX_SECONDS:
            line = self.rows[int(seconds.argmax())][1]
            problem = f"this request comes {last:.3g} s after the first one of the file"
            expected = "arrivals within ten years, in the format's unit"
            raise TraceFileError(self.path, line, problem, expected=expected, unit=self.unit)
        return RequestTrace(
            arrival_s=seconds,
            input_tokens=columns[:, 1],
            output_tokens=columns[:, 2],
            name=name,
            format=format_name,
            arrivals="recorded" if timed else "all at zero, for the file records none",
            skipped=self.skipped,
            notes=tuple(notes),
        )

    def _drop_untimed(self) -> None:
        """Reject the requests without arrival in a file that has arrivals for others."""
        for row, line, _ in self.rows:
            if row[0] is None:
                self.reject(line, BadValue("no arrival time", "no arrival time", "one, as other records have"))
        self.rows = [request for request in self.rows if request[0][0] is not None]


def _seconds(nanoseconds: npt.NDArray[np.int64], group: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Seconds from the first arrival, groups end to end; integers until then: a float cannot hold a date to 1 us."""
    seconds = np.zeros(len(nanoseconds))
    end = 0.0
    for each in np.unique(group):
        mine = group == each
        seconds[mine] = end + (nanoseconds[mine] - nanoseconds[mine].min()) / 1e9
        end = float(seconds[mine].max())
    return seconds


def _record_error(path: str, line: int, unit: str, bad: BadValue) -> TraceRecordError:
    return TraceRecordError(path, line, bad.problem, expected=f"{bad.expected} (skip_bad=True counts it)", unit=unit)


def _counted(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items())) or "0 rows"


def _listed(names: tuple[str, ...] | None) -> str:
    shown = [repr(name) for name in names or ()]
    return ", ".join(shown[:20]) + (f" and {len(shown) - 20} more" if len(shown) > 20 else "") or "no names"
