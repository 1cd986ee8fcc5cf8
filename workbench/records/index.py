"""The rows of a store, kept between processes so that only new and changed files are read.

A folder of thousands of small documents is slow to read and quick to list. The index is one file in the cache folder
for each store: size, time of change and row of every document that was read well. It may be deleted at any time, and
one that is damaged or of another version counts as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import warnings
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from workbench import settings
from workbench.errors import CacheWarning
from workbench.records.rows import COLUMNS, Row

FORMAT = 1
"""Version of what a row means; part of the file, so a change of it leaves an old index unused."""

Entry = tuple[int, int, Row]
"""Size in bytes, time of change in nanoseconds, row."""


class _Document(BaseModel):
    model_config = ConfigDict(strict=True)

    format: int
    root: str
    columns: tuple[str, ...]
    entries: dict[str, Entry]


class Index:
    """Rows of the documents below one folder, by relative path.

    Parameters
    ----------
    root
        The store's folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._digest = hashlib.sha256(os.fsencode(self._root)).hexdigest()  # a path need not be text
        self._path = settings.cache_dir() / "records" / f"{self._digest[:16]}.json"
        self._entries = self._load()

    def row(self, relative: str, size: int, changed: int) -> Row | None:
        """Row of a file that has not changed since it was read; None where it has to be read."""
        entry = self._entries.get(relative)
        return entry[2] if entry is not None and entry[:2] == (size, changed) else None

    def replace(self, entries: dict[str, Entry]) -> None:
        """Keep these entries and no others.

        Warns
        -----
        CacheWarning
            The cache folder cannot be written; the next call reads every document again.
        """
        if entries == self._entries:
            return
        self._entries = entries
        document = _Document.model_construct(format=FORMAT, root=self._digest, columns=COLUMNS, entries=entries)
        temporary = None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, prefix=".tmp-", delete=False) as file:
                temporary = Path(file.name)
                file.write(document.model_dump_json().encode())
            temporary.replace(self._path)
        except OSError as error:
            warnings.warn(
                f"The index of {self._root} could not be kept in {self._path}: {error}. Its records are read anew each "
                "time. Point WORKBENCH_CACHE_DIR to a folder that can be written.",
                CacheWarning,
                stacklevel=2,
            )
        finally:
            if temporary is not None:
                with contextlib.suppress(FileNotFoundError):  # renamed: the usual end
                    temporary.unlink()

    def _load(self) -> dict[str, Entry]:
        try:
            document = _Document.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError):  # absent, unreadable or damaged: reading the documents mends them all
            return {}
        current = (document.format, document.root, document.columns) == (FORMAT, self._digest, COLUMNS)
        return document.entries if current else {}
