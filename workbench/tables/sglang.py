"""SGLang's dispatch of the router product: a dict from (K, N) to the smallest M that uses HPC-Ops' kernel.

Below that M, and for every shape that the dict lacks, SGLang computes ``x.float() @ weight.t()``. The form cannot
express a second crossing, a third provider, or a winner that depends on the GPU.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from workbench.errors import InvalidArgument, RecordError, TableError
from workbench.records.files import read_limited
from workbench.tables.choice import Choice

ThresholdTable = Mapping[tuple[int, int], int]

SGLANG: ThresholdTable = MappingProxyType({(6144, 768): 64, (3072, 384): 128})
"""The table in SGLang 0.5.23: LongCat-Flash Chat and Lite."""

BELOW, ABOVE = "cublas-fp32", "hpc"
"""Providers below the threshold and from it on."""

MAX_BYTES = 1 << 20
LARGEST = 1 << 31


def sglang_choice(k: int, n: int, table: ThresholdTable = SGLANG, *, below: str = BELOW, above: str = ABOVE) -> Choice:
    """What such a table does for one shape."""
    first = table.get((k, n))
    if first is None:
        return Choice.always(below, f"SGLang's table (no entry: {below})")
    return Choice.threshold(below, first, above, f"SGLang's table ({above} from M = {first})")


def check_sglang(table: object) -> ThresholdTable:
    """Return a table that has SGLang's form.

    Raises
    ------
    InvalidArgument
        It is no mapping from (K, N) to an M from 0.
    """
    entries = list(table.items()) if isinstance(table, Mapping) else None
    if entries is None or not all(
        isinstance(key, tuple) and len(key) == 2 and all(map(_size, (*key, first))) for key, first in entries
    ):
        raise InvalidArgument(
            f"{str(table)[:80]} is no table of SGLang's form; give a dict such as {{(6144, 768): 64}}"
        )
    return dict(entries)


def format_sglang(table: ThresholdTable) -> str:
    """The table as a Python literal, an entry a line."""
    lines = [f"    ({k}, {n}): {first},\n" for (k, n), first in sorted(table.items())]
    return "{\n" + "".join(lines) + "}\n"


def read_sglang(path: str | Path) -> dict[tuple[int, int], int]:
    """Read a table from a Python source or literal; nothing in the file is executed.

    Parameters
    ----------
    path
        A file with one dict of that form: alone, assigned to a name, or the value of the only such name among others.
        An empty one counts where it is the only dict.

    Raises
    ------
    TableError
        It cannot be read, holds no such dict or several, or a number is out of range.
    """
    try:
        text = read_limited(Path(path), MAX_BYTES).decode("utf-8-sig")
        tree = ast.parse(text)
        found = [_literal(node) for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    except (RecordError, UnicodeDecodeError) as error:
        raise TableError(f"{path}: {error}") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TableError(f"{path} is not Python: {error}. Give a dict such as {{(6144, 768): 64}}.") from None
    tables = [table for table in found if table]
    if not tables and found == [{}]:
        return {}  # no entry: FP32 always
    if len(tables) != 1:
        raise TableError(f"{path} holds {len(tables)} dicts from (K, N) to M. Give a file with one.")
    return tables[0]


def _literal(node: ast.Dict) -> dict[tuple[int, int], int] | None:
    """The table that a dict display is, or None for another dict."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):  # names, calls, or keys that cannot be hashed
        return None
    table: dict[tuple[int, int], int] = {}
    for key, first in value.items():
        if not isinstance(key, tuple) or len(key) != 2 or not all(_size(part) for part in (*key, first)):
            return None
        table[key[0], key[1]] = first
    return table


def _size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST
