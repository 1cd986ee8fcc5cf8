"""What a decode step asks of a scheduler: the lengths of its requests and the CTAs that will read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument

TILES = (32, 64, 128)
"""KV tile sizes, in tokens, that the kernels are built for."""

MAX_LENGTH = 2**31 - 1
MAX_CTAS = 65_535
MAX_QUERY_LEN = 64
MAX_ITEMS = 1 << 24
"""(KV head, request) pairs of one step."""


def _as_lengths(lengths: object) -> npt.NDArray[np.int64]:
    if isinstance(lengths, str):
        raise InvalidArgument(f"lengths is text, {lengths[:40]!r}. workbench.workloads.parse_lengths reads it.")
    try:
        values = np.asarray(lengths)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"lengths could not be read as numbers ({error}). Give a flat list of integers."
        ) from None
    if values.ndim != 1:
        raise InvalidArgument(f"lengths has shape {values.shape}. Give one live KV length a request, shape [batch].")
    if values.size == 0:
        return np.zeros(0, np.int64)
    if values.dtype.kind not in "iuf":
        raise InvalidArgument(f"lengths has dtype {values.dtype}. Give integers (tokens).")
    if values.dtype.kind == "f":
        whole = np.isfinite(values) & (np.floor(values) == values)
        if not whole.all():
            at = int(np.flatnonzero(~whole)[0])
            raise InvalidArgument(f"request {at} has length {values[at]}. Lengths are whole numbers of tokens.")
    bad = (values < 0) | (values > MAX_LENGTH)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise InvalidArgument(f"request {at} has length {values[at]}. Lengths run from 0 to {MAX_LENGTH:,} tokens.")
    return values.astype(np.int64)


def check_count(name: str, value: object, low: int, high: int) -> int:
    """Return ``value`` as an int.

    Raises
    ------
    InvalidArgument
        Unless ``low <= value <= high`` and ``value`` is a whole number.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise InvalidArgument(f"{name} is {value!r}. Give a whole number from {low} to {high:,}.")
    if not low <= value <= high:
        raise InvalidArgument(f"{name} is {value}. It must be from {low} to {high:,}.")
    return int(value)


@dataclass(frozen=True, eq=False)
class DecodeProblem:
    """One decode step to schedule.

    Attributes
    ----------
    lengths : int64 array [batch]
        Live KV length of each request in tokens, the new tokens of this step included. 0 is allowed.
    num_kv_heads : int
        KV heads; each (KV head, request) is read on its own.
    num_ctas : int
        CTAs resident at once (SMs x CTAs an SM).
    tile : int
        Tokens a KV tile: 32, 64 or 128.
    min_process_len : int
        Work floor in tokens: no bin is made smaller than this many tokens while there is work left.
    q_len : int
        Query tokens a request (1 + draft tokens).

    Raises
    ------
    InvalidArgument
        With what was given and what is allowed.
    """

    lengths: npt.NDArray[np.int64] = field(repr=False)
    num_kv_heads: int
    num_ctas: int
    tile: int = 64
    min_process_len: int = 512
    q_len: int = 1

    def __post_init__(self) -> None:
        lengths = _as_lengths(self.lengths).copy()
        lengths.setflags(write=False)
        object.__setattr__(self, "lengths", lengths)
        for name, low, high in (
            ("num_kv_heads", 1, 1024),
            ("num_ctas", 1, MAX_CTAS),
            ("min_process_len", 0, MAX_LENGTH),
            ("q_len", 1, MAX_QUERY_LEN),
        ):
            object.__setattr__(self, name, check_count(name, getattr(self, name), low, high))
        object.__setattr__(self, "tile", check_count("tile", self.tile, TILES[0], TILES[-1]))
        if self.tile not in TILES:
            raise InvalidArgument(f"tile is {self.tile}. Tiles of {', '.join(map(str, TILES))} tokens exist.")
        if self.num_kv_heads * self.batch > MAX_ITEMS:
            raise InvalidArgument(
                f"{self.batch:,} requests with {self.num_kv_heads} KV heads each are "
                f"{self.num_kv_heads * self.batch:,} pairs to schedule; up to {MAX_ITEMS:,} are planned. "
                "Give fewer requests or KV heads."
            )
        if self.total_tiles > MAX_LENGTH:
            raise InvalidArgument(
                f"the batch has {self.total_tiles:,} tiles; the task map counts up to {MAX_LENGTH:,}."
            )

    @property
    def batch(self) -> int:
        """Number of requests, empty ones included."""
        return int(self.lengths.size)

    @cached_property
    def tiles(self) -> npt.NDArray[np.int64]:
        """Tiles of each request for one KV head, int64 [batch]: ``ceil(length / tile)``."""
        return (self.lengths + (self.tile - 1)) // self.tile

    @cached_property
    def total_tiles(self) -> int:
        """Tiles of all (KV head, request) pairs."""
        return int(self.tiles.sum()) * self.num_kv_heads

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """First position of each (KV head, request) in the stream of tiles, int64 [num_kv_heads * batch + 1].

        The stream is ordered by KV head, then by request; the last entry is the number of tiles.
        """
        starts = np.zeros(self.num_kv_heads * self.batch + 1, np.int64)
        np.cumsum(np.tile(self.tiles, self.num_kv_heads), out=starts[1:])
        return starts

    @property
    def floor_tiles(self) -> int:
        """The work floor in whole tiles: ``floor(min_process_len / tile)``."""
        return self.min_process_len // self.tile
