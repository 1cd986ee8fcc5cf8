"""A store of records: those that come with the workbench, one's own, or any folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import paths, settings
from workbench.errors import InvalidArgument, RecordError, RecordWarning
from workbench.records.arrays import unpack_arrays
from workbench.records.documents import Record, decode
from workbench.records.files import Problem, check_writable, create, documents_below, read_limited
from workbench.records.index import Entry, Index
from workbench.records.layout import attachment_location, location
from workbench.records.rows import COLUMNS, COUNTS, NUMBERS, Row, row_filter, row_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

MAX_DOCUMENT_BYTES = 4 << 20
MAX_ATTACHMENT_BYTES = 256 << 20


class Store:
    """Records in a folder.

    Parameters
    ----------
    path
        The folder; it may not exist yet. None: the records that come with the workbench, which are only read, and
        after them one's own in `workbench.settings.records_dir`, where `add` writes.

    Attributes
    ----------
    problems : tuple of Problem
        What the last `query`, `rows` or `records` skipped, and why.

    Raises
    ------
    InvalidArgument
        The path is not a folder.
    MissingData
        The workbench's own records are not where they should be.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._own = settings.records_dir() if path is None else Path(path)
        self._roots = [self._own] if path is not None else [paths.profiles_dir(), self._own]
        if self._own.exists() and not self._own.is_dir():
            raise InvalidArgument(f"{self._own} is not a folder. Give the folder of a store of records.")
        self.problems: tuple[Problem, ...] = ()

    @property
    def roots(self) -> tuple[Path, ...]:
        """Folders that are read, in the order that they are looked through; the last is where `add` writes."""
        return tuple(self._roots)

    def __repr__(self) -> str:
        return f"Store({', '.join(map(str, self._roots))})"

    def check_writable(self) -> None:
        """Pass where `add` can write; for whoever measures long before there is a record.

        Raises
        ------
        RecordError
            It cannot.
        """
        check_writable(self._own)

    def add(self, record: Record, attachment: bytes | None = None) -> Path:
        """Keep a record; one that is there already is left as it is.

        Parameters
        ----------
        record
            The document.
        attachment
            Content of its side file, where it has one (`Record.attachment`).

        Returns
        -------
        Path
            The document's file.

        Raises
        ------
        RecordError
            The side file is missing or another one, or the store cannot be written.
        """
        content = record.encode()
        if len(content) > MAX_DOCUMENT_BYTES:
            raise RecordError(f"The record has {len(content):,} bytes; a document may have {MAX_DOCUMENT_BYTES:,}.")
        decode(content)  # `model_construct` and `model_copy(update=)` check nothing
        if record.attachment is None:
            if attachment is not None:
                raise RecordError("The record names no side file. Set attachment=Attachment.of(content, suffix) in it.")
        elif attachment is None or not record.attachment.matches(attachment):
            raise RecordError("The side file is not the one that the record names. Give its bytes as attachment=.")
        elif len(attachment) > MAX_ATTACHMENT_BYTES:
            raise RecordError(f"The side file has {len(attachment):,} bytes; it may have {MAX_ATTACHMENT_BYTES:,}.")
        else:
            # First, so that no document ever names a side file that is not there.
            create(self._own, str(attachment_location(record, record.attachment)), attachment)
        return create(self._own, str(location(record, content)), content)

    def records(self, **wanted: Any) -> Iterator[tuple[Path, Record]]:
        """File and document of each record that matches, filtered as in `query`.

        Warns
        -----
        RecordWarning
            Files were skipped; `problems` lists them.
        """
        for row in self.rows(**wanted):
            path = Path(str(row["path"]))
            try:
                yield path, _read(path)[0]
            except RecordError as error:  # changed since it was listed
                self.problems += (Problem(path, str(error)),)
                warnings.warn(f"{path} was skipped: {error}", RecordWarning, stacklevel=2)

    def query(self, **wanted: Any) -> pd.DataFrame:
        """The records as a table, a row a document.

        Parameters
        ----------
        **wanted
            By column a value, or several of which one must match: ``operator="attention_decode"``,
            ``provider=["cuda", "fa3"]``. None is ignored. A GPU may be given by any name of the catalogue.

        Returns
        -------
        pandas.DataFrame
            Columns gpu, operator, provider, case, dtype, policy, config (JSON), median_us, low_us, high_us
            (microseconds), rel_error, date, kind, m, n, k, model, tp, ep, tokens, method (how it was measured), origin
            (where the figure comes from) and path. A value that a kind does not have is missing.

        Raises
        ------
        InvalidArgument
            There is no such column.

        Warns
        -----
        RecordWarning
            Files were skipped; `problems` lists them.
        """
        import pandas as pd

        rows = self.rows(**wanted)
        types = {**dict.fromkeys(NUMBERS, "float64"), **dict.fromkeys(COUNTS, "Int64"), "date": "datetime64[s]"}
        # Column by column, for pandas would make floats of whole numbers with gaps between them.
        return pd.DataFrame(
            {name: pd.Series([row[name] for row in rows], dtype=types.get(name, "str")) for name in COLUMNS}
        )

    def rows(self, **wanted: Any) -> list[Row]:
        """The same as `query`, as plain values: a dict a document, None where a value is missing.

        Warns
        -----
        RecordWarning
            Files were skipped; `problems` lists them.
        """
        matches = row_filter(wanted)
        problems: list[Problem] = []
        found: dict[str, Row] = {}
        for root in self._roots:
            if root.exists():
                beginning = str(root / "x")[:-1]  # one path for thousands of files
                for relative, row in _scan(root, problems).items():
                    found.setdefault(relative, {**row, "path": beginning + relative})
        self.problems = tuple(problems)
        if problems:
            more = f" and {len(problems) - 1:,} more (Store.problems lists them)" if len(problems) > 1 else ""
            warnings.warn(f"Records were skipped: {problems[0]}{more}", RecordWarning, stacklevel=2)
        return [{name: row[name] for name in COLUMNS} for _, row in sorted(found.items()) if matches(row)]

    def read(self, path: str | os.PathLike[str]) -> Record:
        """The document in a file, such as one of the column ``path``.

        Raises
        ------
        RecordError
            It cannot be read; the message says why.
        """
        try:
            return _read(Path(path))[0]
        except RecordError as error:
            raise RecordError(f"{path}: {error}") from None

    def attachment(self, path: str | os.PathLike[str]) -> bytes:
        """Content of the side file of a record, given the record's file.

        Raises
        ------
        RecordError
            The record has none, or it is missing, damaged, or too large.
        """
        record = self.read(path)
        if record.attachment is None:
            raise RecordError(f"{path}: a {record.kind} record without a side file.")
        beside = Path(path).with_name(attachment_location(record, record.attachment).name)
        try:
            content = read_limited(beside, MAX_ATTACHMENT_BYTES)
        except RecordError as error:
            raise RecordError(f"{beside}: {error}") from None
        if not record.attachment.matches(content):
            raise RecordError(f"{beside} is damaged: its content is not what {Path(path).name} names.")
        return content

    def arrays(self, path: str | os.PathLike[str]) -> dict[str, npt.NDArray[Any]]:
        """Arrays of a timeline by name, given the record's file.

        Raises
        ------
        RecordError
            As `attachment`; or the side file holds something else than plain arrays.
        """
        content = self.attachment(path)
        try:
            return unpack_arrays(content)
        except RecordError as error:
            raise RecordError(f"side file of {path}: {error}") from None


def _scan(root: Path, problems: list[Problem]) -> dict[str, Row]:
    """Rows of all documents below a folder by relative path; what cannot be read goes to `problems`."""
    index = Index(root)
    entries: dict[str, Entry] = {}
    for found in documents_below(root):
        if isinstance(found, Problem):
            problems.append(found)
            continue
        row = index.row(found.relative, found.size, found.changed)
        if row is None:
            try:
                record, content = _read(found.path)
            except RecordError as error:
                problems.append(Problem(found.path, str(error)))
                continue
            if str(expected := location(record, content)) != found.relative:
                problems.append(Problem(found.path, f"its place is {expected}; it was moved, renamed or edited"))
                continue
            row = row_of(record)
        entries[found.relative] = (found.size, found.changed, row)
    index.replace(entries)
    return {relative: entry[2] for relative, entry in entries.items()}


def _read(path: Path) -> tuple[Record, bytes]:
    content = read_limited(path, MAX_DOCUMENT_BYTES)
    record = decode(content)
    if location(record, content).name != path.name:
        raise RecordError("its content is not what its name says; it was edited or damaged")
    return record, content
