"""Where dispatch tables lie, and how they are found.

    <folder>/<gpu>/router_gemm-K<k>-N<n>-<precision>.json

One's own folder is `workbench.settings.tables_dir`. A table that is made anew replaces the older one.
"""

from __future__ import annotations

import os
import secrets
from functools import cache
from pathlib import Path

from workbench import devices, settings
from workbench.errors import InvalidArgument, RecordError, TableError
from workbench.records.files import read_limited
from workbench.records.layout import slug
from workbench.tables.dispatch import DispatchTable
from workbench.tables.precision import check_class

MAX_TABLE_BYTES = 1 << 20


def load_table(path: str | os.PathLike[str]) -> DispatchTable:
    """Read a dispatch table.

    Raises
    ------
    TableError
        The file cannot be read or is no table; the message names it.
    """
    try:
        return DispatchTable.decode(read_limited(Path(path), MAX_TABLE_BYTES))
    except (RecordError, TableError, ValueError) as error:  # ValueError: a NUL in the path
        raise TableError(f"{path}: {error}") from None


def save_table(table: DispatchTable, path: str | os.PathLike[str] | None = None) -> Path:
    """Write a dispatch table in one step, so that a reader sees the old one or the new one.

    Parameters
    ----------
    table
        What to write.
    path
        The file; None: the place where `find_table` looks. It is replaced where it exists.

    Raises
    ------
    TableError
        The system refuses, with its reason.
    """
    content = table.encode()
    target = table_path(table.environment.gpu, table.k, table.n, table.precision) if path is None else Path(path)
    temporary = target.with_name(f".workbench-{secrets.token_hex(8)}.part")
    try:
        if path is None:
            target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise TableError(f"{target} cannot be written: {error.strerror or error}. Name another file.") from None
    forget_tables()
    return target


def table_path(gpu: str, k: int, n: int, precision: str) -> Path:
    """The file of one's own table for a GPU, a shape and a precision class."""
    try:
        name = devices.gpu(gpu).name
    except InvalidArgument:
        name = gpu
    return settings.tables_dir() / slug(name) / f"router_gemm-K{k}-N{n}-{check_class(precision)}.json"


@cache
def find_table(gpu: str, k: int, n: int, precision: str) -> DispatchTable | None:
    """One's own table for a GPU and a shape, or None where there is none; kept after the first look.

    Raises
    ------
    TableError
        There is a file, but it is no table or was made for something else.
    """
    path = table_path(gpu, k, n, precision)
    try:
        if not path.exists():
            return None
    except OSError as error:  # a name that is too long
        raise TableError(f"{path} cannot be read: {error.strerror or error}.") from None
    table = load_table(path)
    try:
        table.check(gpu=gpu, k=k, n=n)
    except TableError as error:
        raise TableError(f"{path}: {error} Remove the file, or move it where it belongs.") from None
    if table.precision != precision:
        raise TableError(f"{path} holds a table of precision {table.precision!r}. Make it again or rename it.")
    return table


def forget_tables() -> None:
    """Look at the files again at the next `find_table`."""
    find_table.cache_clear()
