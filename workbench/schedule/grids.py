"""Policies of an ordinary grid: equal pieces of every request, one CTA each, run in waves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument
from workbench.schedule.plan import DecodePlan
from workbench.schedule.problem import DecodeProblem, check_count

MAX_GRID = 1 << 24
"""CTAs of the largest static grid that is planned."""


def _grid(problem: DecodeProblem, name: str, per_item: npt.NDArray[np.int64], grid: int) -> DecodePlan:
    """A static grid: ``grid`` CTAs for each (KV head, request), each with up to ``per_item`` tiles, in order."""
    items = problem.num_kv_heads * problem.batch
    if items * grid > MAX_GRID:
        raise InvalidArgument(
            f"{name} needs a grid of {items * grid:,} CTAs for this batch; up to {MAX_GRID:,} are drawn. "
            "Use fewer splits or larger chunks."
        )
    first = np.arange(grid, dtype=np.int64)[None, :] * per_item[:, None]
    size = np.clip(problem.tiles[:, None] - first, 0, per_item[:, None])
    used = size.ravel() > 0
    request = np.repeat(np.arange(problem.batch, dtype=np.int32), grid)[used]
    one_head = (request, *(values.ravel()[used].astype(np.int32) for values in (first, size)))
    heads = problem.num_kv_heads  # all KV heads have the same grid
    kv_head = np.repeat(np.arange(heads, dtype=np.int32), request.size)
    columns = (kv_head, *(np.tile(values, heads) for values in one_head))
    counts = np.tile(used.astype(np.int64), heads)
    return DecodePlan.assemble(problem, name, counts, columns, static_grid=True)


@dataclass(frozen=True)
class fixed_splits:  # noqa: N801
    """Every request cut into ``n`` equal pieces, one CTA each; pieces of short requests stay empty."""

    n: int

    def __post_init__(self) -> None:
        check_count("fixed_splits(n): n", self.n, 1, 1 << 16)

    @property
    def name(self) -> str:
        """``fixed_splits(n)``."""
        return f"fixed_splits({self.n})"

    def plan(self, problem: DecodeProblem) -> DecodePlan:
        """Schedule ``problem``."""
        return _grid(problem, self.name, -(-problem.tiles // self.n), self.n)


@dataclass(frozen=True)
class fixed_chunk:  # noqa: N801
    """Pieces of ``tokens`` tokens; the grid reserves as many for every request as the longest one needs."""

    tokens: int

    def __post_init__(self) -> None:
        check_count("fixed_chunk(tokens): tokens", self.tokens, 1, 1 << 30)

    @property
    def name(self) -> str:
        """``fixed_chunk(tokens)``."""
        return f"fixed_chunk({self.tokens})"

    def plan(self, problem: DecodeProblem) -> DecodePlan:
        """Schedule ``problem``.

        Raises
        ------
        InvalidArgument
            When ``tokens`` is not a whole number of tiles.
        """
        if self.tokens % problem.tile:
            raise InvalidArgument(f"{self.name}: a chunk is a whole number of {problem.tile}-token tiles.")
        chunk = self.tokens // problem.tile
        grid = -(-int(problem.tiles.max(initial=0)) // chunk)
        return _grid(problem, self.name, np.full(problem.batch, chunk, np.int64), grid)
