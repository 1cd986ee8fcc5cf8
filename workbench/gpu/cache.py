"""Compiled kernels kept on disk between processes.

One folder an entry, named by its key:

    <root>/<first two digits of key>/<key>/kernel.cubin     the compiled file
                                           compiler.log     what the compiler said
                                           entry.json       symbol, facts, and a checksum of the other two

An entry is written into a temporary folder and renamed into place in one step, so a reader sees a whole entry or
none, whatever other processes do. Whoever comes second keeps the entry of the first: equal keys mean equal content.
An entry that does not match its checksum counts as absent, and is replaced. What a killed process left of its temporary
folder is removed a day later.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.errors import CacheWarning

FORMAT = 1
"""Version of the layout; part of every key, so a change of it leaves old entries unused."""

_CUBIN, _LOG, _ENTRY = "kernel.cubin", "compiler.log", "entry.json"
_TEMPORARY = ".tmp-"
_STALE_SECONDS = 24 * 3600
_ATTEMPTS = 8  # each is lost only to another process that replaces the same damaged entry at the same moment


@dataclasses.dataclass(frozen=True)
class CacheEntry:
    """What is kept of one compilation.

    Attributes
    ----------
    cubin : bytes
        The compiled file.
    log : str
        What the compiler said.
    details : dict
        JSON values: symbol, facts and whatever the compiler layer wants back.
    """

    cubin: bytes
    log: str
    details: dict[str, Any]


class DiskCache:
    """A folder of compiled kernels, shared by any number of processes.

    Parameters
    ----------
    root : Path
        The folder; created on the first write.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def load(self, key: str) -> CacheEntry | None:
        """Find an entry.

        Parameters
        ----------
        key : str
            Hexadecimal digest.

        Returns
        -------
        CacheEntry or None
            None where there is none, or a damaged one.
        """
        folder = self._folder(key)
        try:
            entry = json.loads((folder / _ENTRY).read_bytes())
            cubin = (folder / _CUBIN).read_bytes()
            log = (folder / _LOG).read_bytes()
            if entry["checksum"] != _checksum(cubin, log, entry["details"]):
                return None
            return CacheEntry(cubin, log.decode(), entry["details"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            # Absent, unreadable, cut short or overwritten with something else: compiling again mends them all.
            return None

    def store(self, key: str, entry: CacheEntry) -> None:
        """Keep an entry. A folder that cannot be written is a warning, not an error: the kernel is compiled already.

        Warns
        -----
        CacheWarning
            The entry could not be written.
        """
        if self.load(key) is not None:
            return
        folder = self._folder(key)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            self._sweep(folder.parent)
            with self._temporary(folder.parent) as fresh:
                self._write(fresh, entry)
                self._publish(fresh, folder, key)
        except OSError as error:
            warnings.warn(
                f"The compiled kernel could not be kept in {self.root}: {error}. It will be compiled again next time. "
                "Point WORKBENCH_CACHE_DIR to a folder that can be written.",
                CacheWarning,
                stacklevel=2,
            )

    def entries(self) -> Iterator[Path]:
        """Folders of all entries; none where the root cannot be read."""
        with contextlib.suppress(OSError):
            for folder in self.root.glob("??/*"):
                if not folder.name.startswith(_TEMPORARY) and (folder / _ENTRY).is_file():
                    yield folder

    def size_bytes(self) -> int:
        """Bytes that all entries take; of one that disappears meanwhile, what was counted so far."""
        size = 0
        for folder in self.entries():
            with contextlib.suppress(OSError):
                for file in folder.iterdir():
                    size += file.stat().st_size
        return size

    def clear(self) -> None:
        """Delete every entry."""
        if self.root.exists():
            shutil.rmtree(self.root)

    def _folder(self, key: str) -> Path:
        return self.root / key[:2] / key

    @staticmethod
    def _sweep(parent: Path) -> None:
        """Remove what processes left that were killed while writing."""
        for left in parent.glob(f"{_TEMPORARY}*"):
            with contextlib.suppress(OSError):  # another process may remove it too
                if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                    shutil.rmtree(left)

    @staticmethod
    @contextlib.contextmanager
    def _temporary(parent: Path) -> Iterator[Path]:
        fresh = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=parent))
        try:
            yield fresh
        finally:
            # Gone where it was renamed into place; another process may be removing what was put aside in it.
            shutil.rmtree(fresh, ignore_errors=True)

    @staticmethod
    def _write(folder: Path, entry: CacheEntry) -> None:
        log = entry.log.encode()
        document = {"checksum": _checksum(entry.cubin, log, entry.details), "details": entry.details}
        for name, content in ((_CUBIN, entry.cubin), (_LOG, log), (_ENTRY, json.dumps(document, indent=1).encode())):
            with (folder / name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())  # else a crash could leave a renamed folder of empty files

    def _publish(self, fresh: Path, folder: Path, key: str) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                fresh.rename(folder)
            except OSError:  # something is there: the entry of another process, or a damaged one
                if self.load(key) is not None:
                    return
                if attempt == _ATTEMPTS - 1:
                    raise
                with self._temporary(folder.parent) as aside, contextlib.suppress(FileNotFoundError):
                    folder.rename(aside / "damaged")  # another process may have moved it first
            else:
                return


def _checksum(cubin: bytes, log: bytes, details: dict[str, Any]) -> str:
    digest = hashlib.sha256(cubin)
    digest.update(hashlib.sha256(log).digest())
    digest.update(json.dumps(details, sort_keys=True).encode())
    return digest.hexdigest()
