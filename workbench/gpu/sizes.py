"""The sizes of a launch: what they may be, and all of them in three dimensions."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument

Three = tuple[int, int, int]
Size = int | tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class LaunchSizes:
    """Checked sizes.

    Attributes
    ----------
    grid, block : tuple of int
        CTAs, and threads a CTA, in x, y and z.
    cluster : tuple of int or None
        CTAs a cluster.
    shared_bytes : int
        Dynamic shared memory a CTA.
    """

    grid: Three
    block: Three
    cluster: Three | None
    shared_bytes: int

    @property
    def threads(self) -> int:
        """Threads a CTA."""
        x, y, z = self.block
        return x * y * z

    @property
    def cluster_ctas(self) -> int:
        """CTAs a cluster; 1 without clusters."""
        x, y, z = self.cluster or (1, 1, 1)
        return x * y * z


def launch_sizes(grid: Size, block: Size, cluster: Size | None, shared_bytes: int) -> LaunchSizes:
    """Check sizes as far as no GPU is needed for it.

    Raises
    ------
    InvalidArgument
        One is no such size, or the grid is not made of whole clusters.
    """
    if not _is_whole(shared_bytes) or shared_bytes < 0:
        raise InvalidArgument(f"shared_bytes is {shared_bytes!r}; give a number of bytes from 0.")
    sizes = LaunchSizes(
        grid=_three("grid", grid),
        block=_three("block", block),
        cluster=None if cluster is None else _three("cluster", cluster),
        shared_bytes=int(shared_bytes),
    )
    if any(count % part for count, part in zip(sizes.grid, sizes.cluster or (1, 1, 1), strict=True)):
        raise InvalidArgument(f"grid {grid} is not a multiple of cluster {cluster}; launch whole clusters.")
    return sizes


def _three(what: str, size: Size) -> Three:
    given = size if isinstance(size, tuple) else (size,)
    if not 1 <= len(given) <= 3 or not all(_is_whole(part) and part >= 1 for part in given):
        raise InvalidArgument(f"{what} is {size!r}; give one to three numbers of at least 1, several as a tuple.")
    x, y, z = (*map(int, given), 1, 1)[:3]
    return x, y, z


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
