"""Tuned tiles of the Triton fused-MoE kernel in the files that SGLang and vLLM read.

A file is of one GPU, one number of experts and one intermediate size; its name says so, letter by letter, and its
content maps numbers of tokens to tiles. At run time the entry nearest to the number of tokens is used. The two engines
differ in four points, each of which can make a file of the other one useless without any message:

========================= ==================================================== =======================================
point                     SGLang                                               vLLM
========================= ==================================================== =======================================
``block_shape`` in a name ``[128, 128]``, with a space                         ``[128,128]``, without
GPUs of the H200 family   each by its own name                                 all as ``NVIDIA_H200``
extra keys                none: a key that is no number ends the server        ``triton_version`` is taken off
where                     ``configs/triton_<version>/`` in its folder          its folder itself
========================= ==================================================== =======================================
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from workbench.errors import InvalidArgument, TableError
from workbench.tables.fused_moe_key import DTYPES, ENGINES, Engine, MoeKey, check_engine

__all__ = [
    "DTYPES",
    "ENGINES",
    "TILE_KEYS",
    "Engine",
    "MoeKey",
    "MoeTable",
    "Span",
    "check_engine",
    "place",
    "read_moe",
    "write_moe",
]

TILE_KEYS = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")
"""Keys of an entry, all of them needed."""

_EXTRA = "triton_version"
_VERSION = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True)
class Span:
    """Numbers of tokens that use one entry.

    Attributes
    ----------
    key : int
        Number of tokens that the entry was tuned for.
    first, last : int
        Tokens that it is used for; ``last`` is None at the end.
    """

    key: int
    first: int
    last: int | None


@dataclass(frozen=True)
class MoeTable:
    """The content of one file.

    Attributes
    ----------
    key : MoeKey
    tiles : dict of int to dict
        By number of tokens, in the order of the file; the order decides ties.
    extra : dict
        Other keys on the first level, such as ``triton_version``.
    """

    key: MoeKey
    tiles: Mapping[int, Mapping[str, int]]
    extra: Mapping[str, Any] = field(default_factory=dict)

    def nearest(self, tokens: int) -> int:
        """The entry that is used for a number of tokens: the nearest, and of two equally near the first in the file.

        Raises
        ------
        InvalidArgument
            The table is empty.
        """
        if not self.tiles:
            raise InvalidArgument("the table has no entry.")
        return min(self.tiles, key=lambda key: abs(key - tokens))

    def spans(self) -> list[Span]:
        """Which entry is used from how many tokens on, beginning with 1; an entry that none uses is absent."""
        if not self.tiles:
            return []
        keys = sorted(self.tiles)
        order = {key: at for at, key in enumerate(self.tiles)}
        found: list[Span] = []
        first = 1
        for key, after in zip(keys, [*keys[1:], None], strict=True):
            last = None
            if after is not None:
                middle, even = divmod(key + after, 2)
                last = middle - 1 if even == 0 and order[after] < order[key] else middle
            if last is None or last >= first:
                found.append(Span(key, first, last))
                first = first if last is None else last + 1
        return found

    def encode(self, engine: Engine) -> bytes:
        """The file's content: entries by ascending number of tokens, so that of two equally near the smaller is used.

        Extra keys are written for vLLM only where it takes them off; SGLang would end at them.
        """
        extra = {_EXTRA: self.extra[_EXTRA]} if engine == "vllm" and _EXTRA in self.extra else {}
        entries = {str(tokens): dict(self.tiles[tokens]) for tokens in sorted(self.tiles)}
        return (json.dumps({**extra, **entries}, indent=4) + "\n").encode()

    @classmethod
    def decode(cls, key: MoeKey, content: bytes) -> Self:
        """Read a file's content.

        Raises
        ------
        TableError
            It is not what either engine reads; the message says which entry is wrong.
        """
        try:
            # As the engines open it: text in UTF-8, where a byte-order mark is no part of JSON.
            said: Any = json.loads(content.decode(), object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise TableError(f"it is no JSON: {error}") from None
        if not isinstance(said, dict):
            raise TableError(f"it holds a {type(said).__name__}; expected an object from numbers of tokens to tiles")
        tiles: dict[int, dict[str, int]] = {}
        extra: dict[str, Any] = {}
        for name, entry in said.items():
            if not _is_whole(name):
                extra[name] = entry
                continue
            if not isinstance(entry, dict) or not all(_is_value(value) for value in entry.values()):
                raise TableError(f"entry {name!r} is {json.dumps(entry)[:80]}; expected numbers by name")
            if lacking := [tile for tile in TILE_KEYS[:4] if tile not in entry]:
                raise TableError(f"entry {name!r} lacks {', '.join(lacking)}")
            if int(name) in tiles:
                raise TableError(f"entry {name!r} is of {int(name)} tokens, which are there already; leave one of them")
            tiles[int(name)] = dict(entry)
        if not tiles:
            raise TableError("it has no entry")
        return cls(key, tiles, extra)


def place(root: str | Path, key: MoeKey, engine: Engine, triton: str | None = None) -> Path:
    """The file that an engine looks for first.

    Parameters
    ----------
    root
        SGLang: its ``SGLANG_MOE_CONFIG_DIR``. vLLM: its ``VLLM_TUNED_CONFIG_FOLDER``.
    key
        What it is of.
    engine
        ``"sglang"`` or ``"vllm"``.
    triton
        Version of Triton there, such as "3.6.0"; SGLang only, which needs it.

    Raises
    ------
    InvalidArgument
        The version is missing or no version.
    """
    if engine == "vllm":
        return Path(root) / key.file_name(engine)
    if triton is None or not _VERSION.fullmatch(triton):
        raise InvalidArgument(f"triton is {triton!r}; SGLang's folders are by version: give one such as '3.6.0'.")
    return Path(root) / "configs" / f"triton_{triton.replace('.', '_')}" / key.file_name(engine)


def read_moe(path: str | Path) -> MoeTable:
    """Read a file of either engine.

    Raises
    ------
    TableError
        Its name or its content is no fused-MoE table; the message names the file.
    """
    path = Path(path)
    try:
        return MoeTable.decode(MoeKey.parse(path.name), path.read_bytes())
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}.") from None
    except TableError as error:
        raise TableError(f"{path}: {error}.") from None


def write_moe(table: MoeTable, root: str | Path, engine: Engine, triton: str | None = None) -> Path:
    """Write a table where an engine reads it, and return the file; see `place`.

    Raises
    ------
    TableError
        The system refuses.
    """
    extra = {_EXTRA: triton} if engine == "vllm" and triton else {}
    target = place(root, table.key, engine, triton)
    content = replace(table, extra=extra).encode(engine)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.part")
        temporary.write_bytes(content)
        temporary.replace(target)
    except OSError as error:
        raise TableError(f"{target} cannot be written: {error.strerror or error}. Name another folder.") from None
    return target


def _is_whole(name: str) -> bool:
    try:
        int(name)
    except ValueError:
        return False
    return True


def _is_value(value: object) -> bool:
    return type(value) is int


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose keys are there once: an engine would take the last without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise TableError(f"key {twice!r} is there {names.count(twice)} times; leave one of them")
    return found
