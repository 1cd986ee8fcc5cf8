"""Files of a store: read with care, written whole or not at all, and never replaced."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import RecordError

TEMPORARY = ".workbench-"
"""Beginning of the names of unfinished files; whoever reads a store passes over names with a leading dot."""

NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""What linking fails with on file systems without hard links."""


@dataclass(frozen=True)
class Problem:
    """A file or folder of a store that was skipped."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True)
class Found:
    """A file below a store's root."""

    root: Path
    relative: str
    """Path from the root, with forward slashes."""
    size: int
    """Bytes."""
    changed: int
    """Time of the last change, nanoseconds."""

    @property
    def path(self) -> Path:
        """The file; made when asked for, since most of thousands are only listed."""
        return self.root / self.relative


def documents_below(root: Path) -> Iterator[Found | Problem]:
    """Every file named ``*.json`` below a folder, and what cannot be looked at. Links are told, not followed."""
    pending: list[tuple[str | Path, str]] = [(root, "")]
    while pending:
        folder, prefix = pending.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            yield Problem(Path(folder), error.strerror or str(error))
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                yield Problem(Path(entry.path), "it is a symbolic link; a store holds its own files")
            elif entry.is_dir(follow_symlinks=False):
                pending.append((entry.path, f"{prefix}{entry.name}/"))
            elif entry.name.endswith(".json"):
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError as error:  # gone since the folder was listed
                    yield Problem(Path(entry.path), error.strerror or str(error))
                else:
                    yield Found(root, prefix + entry.name, status.st_size, status.st_mtime_ns)


def read_limited(path: Path, limit: int) -> bytes:
    """Content of a regular file.

    Parameters
    ----------
    path
        The file; the last part of the path may not be a link.
    limit
        Largest size that is read, bytes.

    Raises
    ------
    RecordError
        It is larger, a link, a pipe or a device, or the system refuses.
    """
    # Non-blocking, so that opening a pipe does not wait for its other end.
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with io.BufferedReader(io.FileIO(path, opener=lambda name, flags: os.open(name, flags | careful))) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise RecordError("it is not a regular file")
            if status.st_size > limit:
                raise RecordError(f"it has {status.st_size:,} bytes; at most {limit:,} are read")
            content = file.read(limit + 1)
    except OSError as error:
        raise RecordError(f"it cannot be read: {error.strerror or error}") from None
    if len(content) > limit:
        raise RecordError(f"it grew beyond {limit:,} bytes while it was read")
    return content


def create(root: Path, relative: str, content: bytes) -> Path:
    """Make a file whose name stands for its content; nothing happens where it exists.

    Parameters
    ----------
    root
        Root of the store, made if it does not exist.
    relative
        Path from there. Its folders are made.
    content
        The bytes.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    RecordError
        The store cannot be written, a link leads out of it, or a file of that name holds something else.
    """
    target = root / relative
    temporary = None
    try:
        root.mkdir(parents=True, exist_ok=True)
        _make_folders(root, target.parent)
        if _same(target, content):
            return target
        temporary = target.with_name(f"{TEMPORARY}{secrets.token_hex(8)}.part")
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _publish(temporary, target, content)
    except OSError as error:
        raise _not_written(target, error.strerror or str(error)) from None
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
    return target


def check_writable(root: Path) -> None:
    """Pass where files can be made in a store; makes nothing, not even its folder.

    Raises
    ------
    RecordError
        They cannot, as far as permissions and kinds of files tell.
    """
    there = next(folder for folder in (root.absolute(), *root.absolute().parents) if folder.exists())
    if not there.is_dir():
        raise _not_written(root, f"{there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise _not_written(root, f"{there} is read-only")


def _not_written(path: Path, reason: str) -> RecordError:
    return RecordError(
        f"{path} cannot be written: {reason}. Give a store that can be written, or set WORKBENCH_RECORDS_DIR to one."
    )


def _publish(temporary: Path, target: Path, content: bytes) -> None:
    """Give a finished file its name; unlike a rename, a link never replaces what another process made meanwhile."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        _same(target, content)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        temporary.replace(target)


def _make_folders(root: Path, folder: Path) -> None:
    """Make the folders between a store's root and a file, none of which may be a link."""
    below = root
    for part in folder.relative_to(root).parts:
        below = below / part
        with contextlib.suppress(FileExistsError):
            below.mkdir()
        if not stat.S_ISDIR(below.lstat().st_mode):
            raise RecordError(f"{below} is a link or a file where the store needs a folder of its own. Remove it.")


def _same(target: Path, content: bytes) -> bool:
    """Whether the file exists with that content. Another content is a fault: the name stands for the content."""
    if not os.path.lexists(target):
        return False
    try:
        there = read_limited(target, len(content))
    except RecordError as error:
        raise RecordError(f"{target} is in the way: {error}. Remove it and try again.") from None
    if there != content:
        raise RecordError(f"{target} is damaged: its content is not what its name says. Remove it and try again.")
    return True
