"""Output files that are whole or absent."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from workbench.errors import InvalidArgument


def check_writable(path: Path, *, source: Path | None = None) -> None:
    """Refuse an output file before the work that fills it.

    Parameters
    ----------
    path
        The file to write; a link is followed.
    source
        The file that is read, which must not be overwritten.

    Raises
    ------
    InvalidArgument
        Its folder does not exist or cannot be written, or it names a folder, a device, a read-only file or `source`.
    """
    try:
        target = Path(os.path.realpath(path))
        folder = target.parent
        reason = None
        if target.is_dir():
            reason = "it is a folder"
        elif target.exists() and not target.is_file():
            reason = "it is a device, a pipe or a socket"
        elif target.exists() and not os.access(target, os.W_OK):
            reason = "it is read-only"
        elif source is not None and target.exists() and source.exists() and target.samefile(source):
            reason = "it is the file that is read"
        elif not folder.is_dir():
            reason = f"there is no folder {folder}"
        elif not os.access(folder, os.W_OK):
            reason = f"the folder {folder} is read-only"
    except (OSError, ValueError) as error:  # a name that is too long, or holds a NUL
        reason = getattr(error, "strerror", None) or str(error)
    if reason:
        raise InvalidArgument(f"{path} cannot be written: {reason}. Name another file.")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step: whoever looks sees the old content or the new one, also after an interruption.

    A link stays, and the file that it points to is replaced.

    Raises
    ------
    InvalidArgument
        The system refuses, with its reason.
    """
    check_writable(path)
    target = Path(os.path.realpath(path))
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".workbench-", suffix=".part", delete=False) as file:
            temporary = Path(file.name)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # a temporary file is private; the finished one is as any other
        temporary.replace(target)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be written: {error.strerror or error}. Name another file.") from None
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):  # renamed: the usual end
                temporary.unlink()
