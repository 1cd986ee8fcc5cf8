"""A plan as JSON text: the problem, and for each CTA its (kv_head, request, first_tile, num_tiles)."""

from __future__ import annotations

import json

from workbench.errors import InvalidArgument, InvalidPlan
from workbench.schedule.bins import plan_from_bins
from workbench.schedule.plan import DecodePlan
from workbench.schedule.problem import DecodeProblem

FORMAT, VERSION = "workbench.decode-plan", 1

_PROBLEM = ("num_kv_heads", "num_ctas", "tile", "min_process_len", "q_len")


def to_json(plan: DecodePlan) -> str:
    """The plan as one JSON object without white space."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "policy": plan.policy,
        "static_grid": plan.static_grid,
        **{name: getattr(plan, name) for name in _PROBLEM},
        "lengths": plan.lengths.tolist(),
        "bins": plan.as_lists(),
    }
    return json.dumps(document, separators=(",", ":"))


def from_json(text: str) -> DecodePlan:
    """Read what :func:`to_json` wrote; the plan is validated.

    Raises
    ------
    InvalidPlan
        When the text is not such a document, or the plan in it is wrong.
    """
    try:
        data = json.loads(text)
        form, version = data["format"], data["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidPlan("JSON", [f"not a plan written by to_json(): {type(error).__name__} {error}"]) from None
    if form != FORMAT or version != VERSION:
        raise InvalidPlan("JSON", [f"format {form!r} version {version!r} is not known; expected {FORMAT!r} {VERSION}"])
    try:
        problem = DecodeProblem(**{name: data[name] for name in ("lengths", *_PROBLEM)})
        policy, static, bins = data["policy"], data["static_grid"], data["bins"]
    except KeyError as error:
        raise InvalidPlan("JSON", [f"the field {error} is missing"]) from None
    except InvalidArgument as error:
        raise InvalidPlan("JSON", [error]) from None
    if not isinstance(policy, str) or not isinstance(static, bool):
        raise InvalidPlan("JSON", [f"policy is {policy!r} and static_grid is {static!r}; expected text and a bool"])
    return plan_from_bins(problem, policy, bins, static_grid=static).validate()
