"""A decode plan: which CTA reads which tiles of which request, in which order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidPlan
from workbench.schedule.problem import DecodeProblem

if TYPE_CHECKING:
    from workbench.schedule.costs import CostModel
    from workbench.schedule.metrics import Metrics
    from workbench.schedule.timing import Spans
    from workbench.schedule.validate import Problem

Ints = npt.NDArray[np.int32]

DESCRIPTOR = np.dtype(
    [
        ("cta", np.int32),
        ("kv_head", np.int32),
        ("request", np.int32),
        ("chunk", np.int32),
        ("first_tile", np.int32),
        ("num_tiles", np.int32),
        ("first_token", np.int32),
        ("num_tokens", np.int32),
    ]
)
"""One row of :attr:`DecodePlan.descriptors`. ``chunk`` numbers the pieces of one (KV head, request) by position."""


class Bins(Sequence[Any]):
    """The bins of a plan: ``bins[c]`` is the structured array of the descriptors of CTA ``c``, in execution order."""

    def __init__(self, plan: DecodePlan) -> None:
        self._plan = plan

    def __len__(self) -> int:
        return self._plan.num_bins

    @overload
    def __getitem__(self, index: int) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[npt.NDArray[Any]]: ...
    def __getitem__(self, index: int | slice) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        low, high = self._plan.bin_offsets[at : at + 2]
        return self._plan.descriptors[low:high]

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return (self[i] for i in range(len(self)))


@dataclass(frozen=True, eq=False)
class DecodePlan:
    """A task map on the CPU. Made by :func:`workbench.schedule.plan_decode`.

    The descriptors lie in flat columns in bin order; bin ``c`` owns ``bin_offsets[c]:bin_offsets[c + 1]``. A
    persistent plan has ``num_bins == num_ctas``; a static grid (``fixed_splits``, ``fixed_chunk``) has one bin a
    CTA of its grid, empty ones included, and runs in waves when the grid exceeds ``num_ctas``.

    Attributes
    ----------
    problem : DecodeProblem
        What was scheduled.
    policy : str
        Name of the policy that made the plan.
    bin_offsets : int64 array [num_bins + 1]
    kv_head, request, first_tile, num_tiles : int32 arrays [num_descriptors]
    static_grid : bool
        True when the bins are the CTAs of an ordinary grid, launched in order as room appears.
    """

    problem: DecodeProblem
    policy: str
    bin_offsets: npt.NDArray[np.int64] = field(repr=False)
    kv_head: Ints = field(repr=False)
    request: Ints = field(repr=False)
    first_tile: Ints = field(repr=False)
    num_tiles: Ints = field(repr=False)
    static_grid: bool = False

    def __post_init__(self) -> None:
        for name in ("bin_offsets", "kv_head", "request", "first_tile", "num_tiles"):
            values = np.ascontiguousarray(getattr(self, name), np.int64 if name == "bin_offsets" else np.int32)
            if values is getattr(self, name) and values.flags.writeable:
                values = values.view()
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @classmethod
    def assemble(
        cls,
        problem: DecodeProblem,
        policy: str,
        counts: npt.NDArray[np.int64],
        columns: Iterable[npt.NDArray[np.integer[Any]]],
        *,
        static_grid: bool = False,
    ) -> DecodePlan:
        """A plan from the number of descriptors of each bin and the four columns in bin order."""
        offsets = np.zeros(counts.size + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        kv_head, request, first_tile, num_tiles = (values.astype(np.int32) for values in columns)
        return cls(problem, policy, offsets, kv_head, request, first_tile, num_tiles, static_grid)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Live KV length of each request in tokens, int64 [batch]."""
        return self.problem.lengths

    @property
    def num_kv_heads(self) -> int:
        """KV heads."""
        return self.problem.num_kv_heads

    @property
    def num_ctas(self) -> int:
        """CTAs resident at once."""
        return self.problem.num_ctas

    @property
    def tile(self) -> int:
        """Tokens a KV tile."""
        return self.problem.tile

    @property
    def q_len(self) -> int:
        """Query tokens a request."""
        return self.problem.q_len

    @property
    def min_process_len(self) -> int:
        """Work floor in tokens."""
        return self.problem.min_process_len

    @property
    def num_bins(self) -> int:
        """Bins: ``num_ctas`` for a persistent plan, the grid's CTAs for a static one."""
        return int(self.bin_offsets.size) - 1

    @property
    def num_descriptors(self) -> int:
        """Descriptors (chunks) in all bins."""
        return int(self.kv_head.size)

    @property
    def waves(self) -> int:
        """Waves of the grid: ``ceil(num_bins / num_ctas)``."""
        return -(-self.num_bins // self.num_ctas)

    @cached_property
    def cta(self) -> Ints:
        """The bin of each descriptor, int32 [num_descriptors]."""
        return np.repeat(np.arange(self.num_bins, dtype=np.int32), np.diff(self.bin_offsets))

    @cached_property
    def bin_tiles(self) -> npt.NDArray[np.int64]:
        """Tiles in each bin, int64 [num_bins]."""
        before = np.zeros(self.num_descriptors + 1, np.int64)
        np.cumsum(self.num_tiles, out=before[1:])
        return np.diff(before[self.bin_offsets])

    @cached_property
    def _item(self) -> npt.NDArray[np.int64]:
        head, request = self.kv_head, self.request
        if ((head < 0) | (head >= self.num_kv_heads) | (request < 0) | (request >= self.problem.batch)).any():
            self.validate()  # says which: what names no request has neither chunk nor length
        return self.kv_head.astype(np.int64) * self.problem.batch + self.request

    @cached_property
    def _by_position(self) -> npt.NDArray[np.int64]:
        """Order of the descriptors by (KV head, request, first tile)."""
        key = self._item * (1 << 32) + self.first_tile
        if key.size < 2 or (np.diff(key) >= 0).all():
            return np.arange(key.size)
        return np.argsort(key, kind="stable")

    @cached_property
    def chunk(self) -> Ints:
        """Number of each descriptor among the pieces of its (KV head, request), by first tile; int32."""
        order = self._by_position
        item = self._item[order]
        new = np.ones(item.size, bool)
        new[1:] = item[1:] != item[:-1]
        first = np.maximum.accumulate(np.where(new, np.arange(item.size), 0))
        chunk = np.empty(item.size, np.int32)
        chunk[order] = np.arange(item.size) - first
        return chunk

    @cached_property
    def chunk_counts(self) -> Ints:
        """Pieces of each (KV head, request), int32 [num_kv_heads, batch]; 0 where the request is empty."""
        items = self.num_kv_heads * self.problem.batch
        counts = np.bincount(self._item, minlength=items).astype(np.int32)
        return counts.reshape(self.num_kv_heads, self.problem.batch)

    @cached_property
    def split(self) -> npt.NDArray[np.bool_]:
        """Whether each descriptor belongs to a (KV head, request) in more than one piece, bool [num_descriptors]."""
        split: npt.NDArray[np.bool_] = self.chunk_counts.ravel()[self._item] > 1
        return split

    @cached_property
    def descriptors(self) -> npt.NDArray[Any]:
        """All descriptors in bin order, structured array of :data:`DESCRIPTOR` [num_descriptors]."""
        rows = np.empty(self.num_descriptors, DESCRIPTOR)
        rows["cta"] = self.cta
        for name in ("kv_head", "request", "chunk", "first_tile", "num_tiles"):
            rows[name] = getattr(self, name)
        first = self.first_tile.astype(np.int64) * self.tile
        end = first + self.num_tiles.astype(np.int64) * self.tile
        rows["first_token"] = first
        rows["num_tokens"] = np.minimum(end, self.lengths[self.request]) - first
        rows.setflags(write=False)
        return rows

    @cached_property
    def bins(self) -> Bins:
        """``bins[c]``: the descriptors of CTA ``c`` in execution order."""
        return Bins(self)

    def as_lists(self) -> list[list[tuple[int, int, int, int]]]:
        """The plan as a user's policy returns it: for each CTA, (kv_head, request, first_tile, num_tiles)."""
        columns = (self.kv_head, self.request, self.first_tile, self.num_tiles)
        rows = list(zip(*(values.tolist() for values in columns), strict=True))
        edges = self.bin_offsets.tolist()
        return [rows[low:high] for low, high in itertools.pairwise(edges)]

    def problems(self) -> list[Problem]:
        """What is wrong with the plan, in words; an empty list means that it computes the right thing."""
        from workbench.schedule.validate import find_problems

        return find_problems(self)

    def validate(self) -> DecodePlan:
        """Return the plan itself.

        Raises
        ------
        InvalidPlan
            With every problem found.
        """
        problems = self.problems()
        if problems:
            raise InvalidPlan(self.policy, problems)
        return self

    def spans(self, cost: CostModel | None = None) -> Spans:
        """When each descriptor starts and ends by the cost model (default: H200, FP8 cache)."""
        from workbench.schedule.timing import place

        return place(self, cost)

    def metrics(self, cost: CostModel | None = None) -> Metrics:
        """Summary of the plan: exact counts, and times by the cost model (default: H200, FP8 cache)."""
        from workbench.schedule.metrics import summarise

        return summarise(self, cost)

    def encode(self, max_batch: int | None = None) -> Ints:
        """The plan as HPC-Ops' dense int32 buffer; see :mod:`workbench.schedule.dense`."""
        from workbench.schedule.dense import encode

        return encode(self, max_batch)

    @classmethod
    def decode(cls, buffer: npt.ArrayLike) -> DecodePlan:
        """Read a dense int32 buffer back; see :mod:`workbench.schedule.dense`."""
        from workbench.schedule.dense import decode

        return decode(buffer)

    def to_json(self) -> str:
        """The plan as JSON text; see :mod:`workbench.schedule.json_plan`."""
        from workbench.schedule.json_plan import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> DecodePlan:
        """Read what :meth:`to_json` wrote; see :mod:`workbench.schedule.json_plan`."""
        from workbench.schedule.json_plan import from_json

        return from_json(text)
