"""Scheduling policies: each one turns a decode problem into a plan.

Those of a persistent kernel are in :mod:`workbench.schedule.persistent`, those of a static grid in
:mod:`workbench.schedule.grids`; here is what they have in common, how a name becomes one, and :func:`plan_decode`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument, InvalidPlan
from workbench.schedule.bins import plan_from_bins
from workbench.schedule.costs import CostModel
from workbench.schedule.grids import MAX_GRID, fixed_chunk, fixed_splits
from workbench.schedule.persistent import SNAP_SHARES, balanced, hpc_ops, lpt, worth_in_tiles
from workbench.schedule.plan import DecodePlan
from workbench.schedule.problem import DecodeProblem

__all__ = [
    "BUILT_IN",
    "MAX_GRID",
    "SNAP_SHARES",
    "Policy",
    "UserFunction",
    "balanced",
    "fixed_chunk",
    "fixed_splits",
    "hpc_ops",
    "lpt",
    "plan_decode",
    "policy_names",
    "resolve",
    "user_function",
    "worth_in_tiles",
]


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
