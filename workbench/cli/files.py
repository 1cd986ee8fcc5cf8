"""Output files that are whole or absent."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from workbench.errors import InvalidArgument


def check_writable(path: Path) -> None:
    """Refuse an output file before the work that fills it.

    Raises
    ------
    InvalidArgument
        Its folder does not exist or cannot be written, or it names a folder.
    """
    folder = path.absolute().parent
    if path.is_dir():
        raise InvalidArgument(f"{path} is a folder. Name a file to write.")
    if not folder.is_dir():
        raise InvalidArgument(f"{path} cannot be written: there is no folder {folder}. Make it, or name another file.")
    if not os.access(folder, os.W_OK):
        raise InvalidArgument(f"{path} cannot be written: the folder {folder} is read-only. Name another file.")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step: whoever looks sees the old content or the new one, also after an interruption.

    Raises
    ------
    InvalidArgument
        The system refuses, with its reason.
    """
    check_writable(path)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            dir=path.absolute().parent, prefix=f".{path.name[:80]}.", suffix=".part", delete=False
        ) as file:
            temporary = Path(file.name)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # a temporary file is private; the finished one is as any other
        temporary.replace(path)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be written: {error.strerror or error}. Name another file.") from None
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):  # renamed: the usual end
                temporary.unlink()
