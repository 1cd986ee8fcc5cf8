"""Which records does a trace file hold, and on which lines? Text files are read line by line: one line, one record."""

from __future__ import annotations

import csv
import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from workbench.errors import TraceFileError, TraceFormatError
from workbench.workloads.values import BadValue

#: A record by column, or what is wrong with it, after the line it stands on.
Numbered = tuple[int, "dict[str, Any] | BadValue"]

_TEXT = "a CSV file with a header, JSON Lines, or Parquet"
_MAGIC = {
    b"\x1f\x8b": "gzip-compressed; decompress it first (gunzip)",
    b"PK\x03\x04": "a zip archive; unpack it first (unzip)",
    b"\x28\xb5\x2f\xfd": "zstd-compressed; decompress it first (unzstd)",
    b"\xfd7zXZ": "xz-compressed; decompress it first (unxz)",
    b"BZh": "bzip2-compressed; decompress it first (bunzip2)",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
}
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Records:
    """The records of one file.

    Attributes
    ----------
    kind : str
        "csv", "jsonl" or "parquet".
    unit : str
        What the numbers count: "line", or "row" in Parquet.
    columns : tuple of str or None
        Column names if the file declares them; None for JSON Lines, where each record has its own.
    rows : Iterator
        (line, record or BadValue), once.
    header : int or None
        Line of the column names in CSV.
    """

    kind: str
    unit: str
    columns: tuple[str, ...] | None
    rows: Iterator[Numbered]
    header: int | None = None


def open_records(path: Path) -> Records:
    """Open a trace file and tell its kind by its content.

    Parameters
    ----------
    path
        A regular file.

    Returns
    -------
    Records
        Lazy: the file is read as `rows` is consumed.

    Raises
    ------
    TraceFileError
        No such file, a directory, unreadable, empty, compressed, UTF-16, or damaged Parquet.
    TraceFormatError
        A column name that stands twice, or one JSON array instead of JSON Lines.
    """
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise TraceFileError(str(path), None, "is a directory", expected="one trace file")
        if not stat.S_ISREG(kind):
            raise TraceFileError(str(path), None, "is not a regular file", expected=_TEXT)
        with path.open("rb") as file:
            head = file.read(8)
    except FileNotFoundError:
        raise TraceFileError(str(path), None, "no such file", expected="the path of a trace file") from None
    except (OSError, ValueError) as error:
        if isinstance(error, TraceFileError):  # a ValueError of ours
            raise
        reason = getattr(error, "strerror", None) or str(error)  # a ValueError: the path holds a NUL
        raise TraceFileError(str(path), None, f"cannot be read: {reason}", expected=_TEXT) from None
    if not head:
        raise TraceFileError(str(path), None, "the file is empty", expected=_TEXT)
    for magic, what in _MAGIC.items():
        if head.startswith(magic):
            raise TraceFileError(str(path), None, f"the file is {what}", expected=_TEXT)
    if head.startswith(b"PAR1"):
        return _parquet(path)
    return _text(path)


def _text(path: Path) -> Records:
    """Tell JSON Lines from CSV by the first line that is not blank."""
    lines = _lines(path)
    first = next(lines, None)
    if first is None:
        raise TraceFileError(str(path), None, "the file holds blank lines only", expected=_TEXT)
    number, text = first
    if isinstance(text, str) and text.startswith("["):
        problem = "one JSON array"
        raise TraceFormatError(str(path), number, problem, expected="JSON Lines: one JSON object on each line")
    csv_by_name = path.suffix.lower() not in (".json", ".jsonl", ".ndjson", ".log")
    if isinstance(text, str) and not text.startswith("{") and csv_by_name:
        return _csv(path, number, text, lines)
    if isinstance(text, BadValue) and csv_by_name:
        raise TraceFileError(str(path), number, text.problem, expected=_TEXT)
    return Records("jsonl", "line", None, _json(path))


def _lines(path: Path) -> Iterator[tuple[int, str | BadValue]]:
    """The lines that are not blank, decoded, without their ends; a line that is not text is a BadValue."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if number == 1:
                raw = raw.removeprefix(_BOM)
            if not (raw := raw.strip()):
                continue
            if b"\0" in raw:
                yield number, BadValue("NUL byte", "the line holds a NUL byte", "text in UTF-8")
                continue
            try:
                yield number, raw.decode()
            except UnicodeDecodeError as error:
                problem = f"byte {raw[error.start]:#04x} is not UTF-8"
                yield number, BadValue("not UTF-8", problem, "text in UTF-8")


def _csv(path: Path, number: int, header: str, lines: Iterator[tuple[int, str | BadValue]]) -> Records:
    names = _fields(header)
    if isinstance(names, BadValue):
        raise TraceFormatError(str(path), number, names.problem, expected="a CSV header: names between commas")
    columns = tuple(name.strip() for name in names)
    _refuse_repeated(path, number, columns, "the header")

    def rows() -> Iterator[Numbered]:
        for line, text in lines:
            fields = text if isinstance(text, BadValue) else _fields(text)
            if isinstance(fields, BadValue):
                yield line, fields
            elif len(fields) != len(columns):
                problem = f"{len(fields)} field{'s' * (len(fields) != 1)}"
                yield line, BadValue("wrong number of fields", problem, f"{len(columns)}: {', '.join(columns)}")
            else:
                yield line, dict(zip(columns, fields, strict=True))

    return Records("csv", "line", columns, rows(), header=number)


def _refuse_repeated(path: Path, line: int | None, columns: tuple[str, ...], where: str) -> None:
    if repeated := sorted({name for name in columns if columns.count(name) > 1}):
        problem = f"{where} repeats {', '.join(map(repr, repeated))}"
        raise TraceFormatError(str(path), line, problem, expected="column names that differ")


def _fields(text: str) -> list[str] | BadValue:
    """Split one line: a stray quote must not swallow the lines below it, so each is parsed alone."""
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        return BadValue(
            "not CSV", f"the line is not CSV ({error})", "fields between commas, quotes closed on their line"
        )


def _json(path: Path) -> Iterator[Numbered]:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a number")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) < len(pairs):
            names = [name for name, _ in pairs]
            raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands in it twice")
        return record

    for line, text in _lines(path):
        if isinstance(text, BadValue):
            yield line, text
            continue
        try:
            record = json.loads(text, parse_constant=refuse, object_pairs_hook=once)
        except (ValueError, RecursionError) as error:
            yield line, BadValue("not JSON", f"the line is not JSON ({error})", "one whole JSON object on the line")
            continue
        if isinstance(record, dict):
            yield line, record
        else:
            problem = f"the line is a JSON {type(record).__name__}"
            yield line, BadValue("not a JSON object", problem, "one JSON object on the line")


def _parquet(path: Path) -> Records:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Names that are not UTF-8 and dates beyond the year 9999 fail where they become Python values.
    unreadable = (pa.ArrowException, OSError, ValueError, OverflowError)

    def damaged(error: Exception) -> TraceFileError:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        problem = f"the Parquet file is damaged, or holds values that Python has no type for ({said})"
        return TraceFileError(str(path), None, problem, expected="a whole Parquet file")

    try:
        with pq.ParquetFile(path) as file:
            columns = tuple(file.schema_arrow.names)
    except unreadable as error:
        raise damaged(error) from error
    _refuse_repeated(path, None, columns, "the schema")

    def rows() -> Iterator[Numbered]:
        row = 0
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches():
                    for record in batch.to_pylist():
                        row += 1
                        yield row, record
        except unreadable as error:
            raise damaged(error) from error

    return Records("parquet", "row", columns, rows())
