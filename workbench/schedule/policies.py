"""Scheduling policies: each one turns a decode problem into a plan."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument, InvalidPlan
from workbench.schedule import fills
from workbench.schedule.bins import plan_from_bins
from workbench.schedule.costs import MAX_TIME_NS, CostModel, given_or_default
from workbench.schedule.plan import DecodePlan
from workbench.schedule.problem import DecodeProblem, check_count


@runtime_checkable
class Policy(Protocol):
    """Anything with a name that turns a problem into a plan."""

    @property
    def name(self) -> str:
        """Name shown beside the plan; for built-in policies also the text that :func:`resolve` reads."""
        ...

    def plan(self, problem: DecodeProblem) -> DecodePlan:
        """Schedule ``problem``."""
        ...


UserFunction: TypeAlias = Callable[[npt.NDArray[np.int64], int, int, int], Any]
"""``f(lengths, num_kv_heads, num_ctas, tile)`` -> for each CTA a list of (kv_head, request, first_tile, num_tiles)."""


@dataclass(frozen=True)
class hpc_ops:  # noqa: N801 - policies read as names: policy=hpc_ops()
    """Upstream HPC-Ops' rule, bit for bit: bins of equal tiles, filled in order, a full bin spills to the next."""

    name: str = "hpc-ops"

    def plan(self, problem: DecodeProblem) -> DecodePlan:
        """Schedule ``problem``."""
        return fills.plan_from_cuts(problem, self.name, fills.equal_cuts(problem, fills.hpc_ops_budget(problem)))


SNAP_SHARES = (4, 8)
"""``balanced`` moves cuts to request edges that lie within one part in so many of an even bin."""


@dataclass(frozen=True)
class balanced:  # noqa: N801
    """The best of a few contiguous fills by predicted makespan, ``hpc-ops`` among them.

    Of equal makespans, as there are where the memory system decides, the fill with the shortest longest bin is taken.

    Candidates, in the order in which ties are decided: upstream's fill; bins of equal tiles, as many as there are CTAs
    (:func:`fills.even_budget`) or fewer (:func:`fills.piece_budget`), cuts snapped to request edges up to half a bin
    away; bins of equal time (:func:`fills.weighted_cuts`) with cuts snapped as far as a piece saved is worth, then as
    far as each of :data:`SNAP_SHARES` of an even bin. Predictions are whole nanoseconds, so that a GPU finds the same
    winner.

    Attributes
    ----------
    costs : CostModel, optional
        Cost model that decides; default: decode attention with an FP8 cache on an H200. The bare name ``"balanced"``
        decides by the cost model that its caller was told of (:func:`plan_decode`, ``build_task_map``, a sweep, the
        explorer, the report), and by that default where there is none.
    """

    costs: CostModel | None = None
    name: str = "balanced"

    def __post_init__(self) -> None:
        given_or_default(self.costs)

    def candidates(self, problem: DecodeProblem) -> list[fills.Cuts]:
        """The fills considered, best tie first."""
        cuts = [fills.equal_cuts(problem, fills.hpc_ops_budget(problem))]
        if problem.total_tiles == 0:
            return cuts
        even = fills.even_budget(problem)
        for budget in (even, fills.piece_budget(problem)):
            cuts.append(fills.snap(problem, fills.equal_cuts(problem, budget), budget // 2))
        descriptor_weight, piece_tiles = worth_in_tiles(given_or_default(self.costs), problem.tile, problem.num_ctas)
        timed = fills.weighted_cuts(problem, descriptor_weight)
        if timed is not None:
            cuts += [fills.snap(problem, timed, reach) for reach in (piece_tiles, *(even // s for s in SNAP_SHARES))]
        return cuts

    def plan(self, problem: DecodeProblem) -> DecodePlan:
        """Schedule ``problem``."""
        cost = given_or_default(self.costs)
        candidates = self.candidates(problem)
        times = np.minimum(
            [fills.sum_bins(problem, cuts).times_ns(cost, problem.tile) for cuts in candidates], MAX_TIME_NS
        )
        best = min(range(len(candidates)), key=lambda i: tuple(times[i]))
        return fills.plan_from_cuts(problem, self.name, candidates[best])


def worth_in_tiles(cost: CostModel, tile: int, num_ctas: int) -> tuple[int, int]:
    """What a descriptor weighs, in parts of a tile (:data:`fills.UNITS`), and the whole tiles that a piece is worth.

    A tile counts with the mean of a CTA's own pace and of its share of the bandwidth: by the share alone, descriptors
    weighed too little in bf16 where short requests meet long ones. A piece saved saves a descriptor and a partial
    result.
    """
    c = cost.constants
    own = cost.cta_tile_ns(tile, num_ctas)
    tile_ns = (own + max(own, cost.stream_ns(num_ctas, tile))) // 2
    weight = (c.descriptor_ns * fills.UNITS + tile_ns // 2) // tile_ns
    return min(weight, fills.MAX_WEIGHT), min((c.descriptor_ns + c.partial_ns) // tile_ns, fills.MAX_WEIGHT)


@dataclass(frozen=True)
class lpt:  # noqa: N801
    """Longest processing time first: pieces of at most one budget, each to the bin with the fewest tiles so far.

    The budget is upstream's (:func:`fills.hpc_ops_budget`), so a long request is cut as finely as there. Graham's
    bound (1969) holds for the pieces: the fullest bin has at most 4/3 - 1/(3 num_ctas) of the least possible.
    """

    name: str = "lpt"

    def plan(self, problem: DecodeProblem) -> DecodePlan:
        """Schedule ``problem``."""
        budget = max(fills.hpc_ops_budget(problem), 1)
        tiles = np.tile(problem.tiles, problem.num_kv_heads)
        pieces = -(-tiles // budget)
        item = np.repeat(np.arange(tiles.size), pieces)
        first = (np.arange(item.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)) * budget
        size = np.minimum(tiles[item] - first, budget)
        order = np.argsort(-size, kind="stable")
        bins = _least_loaded(size[order], problem.num_ctas)
        order = order[np.argsort(bins, kind="stable")]
        kv_head, request = np.divmod(item[order], max(problem.batch, 1))
        counts = np.bincount(bins, minlength=problem.num_ctas)
        return DecodePlan.assemble(problem, self.name, counts, (kv_head, request, first[order], size[order]))


def _least_loaded(sizes: npt.NDArray[np.int64], num_bins: int) -> npt.NDArray[np.int64]:
    heap = [(0, c) for c in range(num_bins)]
    chosen = np.empty(sizes.size, np.int64)
    for i, size in enumerate(sizes.tolist()):
        load, c = heap[0]
        chosen[i] = c
        heapq.heapreplace(heap, (load + size, c))
    return chosen


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


@dataclass(frozen=True)
class user_function:  # noqa: N801
    """A policy written by a user: see :data:`UserFunction`."""

    function: UserFunction

    @property
    def name(self) -> str:
        """The function's own name."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def plan(self, problem: DecodeProblem) -> DecodePlan:
        """Schedule ``problem``."""
        bins = self.function(problem.lengths.copy(), problem.num_kv_heads, problem.num_ctas, problem.tile)
        return plan_from_bins(problem, self.name, bins)


BUILT_IN: dict[str, Callable[..., Policy]] = {
    "hpc-ops": hpc_ops,
    "balanced": balanced,
    "lpt": lpt,
    "fixed_splits": fixed_splits,
    "fixed_chunk": fixed_chunk,
}
PARAMETRISED = ("fixed_splits", "fixed_chunk")


def policy_names() -> list[str]:
    """The texts that :func:`resolve` reads, parameters shown as ``n``."""
    return [f"{name}(n)" if name in PARAMETRISED else name for name in BUILT_IN]


def resolve(policy: str | Policy | UserFunction, cost: CostModel | None = None) -> Policy:
    """A policy object from a name such as ``"lpt"`` or ``"fixed_splits(8)"``, an object, or a user's function.

    Parameters
    ----------
    policy : str, Policy or callable
    cost : CostModel, optional
        What the name ``"balanced"`` decides by; default: decode attention with an FP8 cache on an H200. A
        ``balanced(costs)`` object keeps its own.

    Raises
    ------
    InvalidArgument
        For an unknown name.
    """
    if isinstance(policy, str):
        match = re.fullmatch(r"\s*([a-z_-]+)\s*(?:\(\s*([0-9]{1,40})\s*\))?\s*", policy)
        name, number = match.groups() if match else (None, None)
        if name not in BUILT_IN or (name in PARAMETRISED) != (number is not None):
            raise InvalidArgument(
                f"policy {policy!r} is not known. Use one of {', '.join(policy_names())}, or a function."
            )
        if name == "balanced":
            return balanced(cost)
        return BUILT_IN[name](int(number)) if number is not None else BUILT_IN[name]()
    if isinstance(policy, type):
        raise InvalidArgument(f"policy is the class {policy.__name__}; call it: {policy.__name__}(...).")
    if isinstance(policy, Policy):
        return policy
    if callable(policy):
        return user_function(policy)
    raise InvalidArgument(f"policy is a {type(policy).__name__}. Give a name, a policy object or a function.")


def plan_decode(
    lengths: npt.ArrayLike,
    *,
    num_kv_heads: int,
    num_ctas: int,
    policy: str | Policy | UserFunction = "balanced",
    tile: int = 64,
    min_process_len: int = 512,
    q_len: int = 1,
    cost: CostModel | None = None,
) -> DecodePlan:
    """Schedule one decode step.

    Parameters
    ----------
    lengths : integers [batch]
        Live KV length of each request in tokens, new tokens included.
    num_kv_heads : int
        KV heads.
    num_ctas : int
        CTAs resident at once (SMs x CTAs an SM).
    policy : str, Policy or callable
        A name (:func:`policy_names`), a policy object such as ``fixed_splits(8)`` or ``balanced(cost)``, or a function
        ``f(lengths, num_kv_heads, num_ctas, tile)`` that returns for each CTA a list of
        ``(kv_head, request, first_tile, num_tiles)``. Chunk numbers are derived.
    tile : int
        Tokens a KV tile: 32, 64 or 128.
    min_process_len : int
        Work floor in tokens, for the policies that have one (``hpc-ops``, ``lpt``; ``balanced`` considers it).
    q_len : int
        Query tokens a request.
    cost : CostModel, optional
        What the name ``"balanced"`` decides by, such as ``cost_model(cache="bf16")``; default: decode attention with an
        FP8 cache on an H200. The other policies need none.

    Returns
    -------
    DecodePlan

    Raises
    ------
    InvalidArgument
        For arguments outside what is allowed.
    InvalidPlan
        When a user's function returns a map that does not compute the right thing.
    """
    problem = DecodeProblem(lengths, num_kv_heads, num_ctas, tile, min_process_len, q_len)  # type: ignore[arg-type]
    chosen = resolve(policy, cost)
    plan = chosen.plan(problem)
    if type(chosen) in BUILT_IN.values():
        return plan
    if not isinstance(plan, DecodePlan) or plan.problem is not problem:
        raise InvalidPlan(
            chosen.name, [f"plan(problem) returned {type(plan).__name__}, not a DecodePlan of that problem"]
        )
    return plan.validate()
