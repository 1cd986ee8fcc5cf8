"""Schedules: which CTA reads which part of the KV cache, and what that costs.

- :func:`plan_decode` makes a :class:`DecodePlan` under a policy (``policies``): of a persistent kernel (``persistent``,
  ``fills``), of a static grid (``grids``), or a user's.
- ``problem``: what is scheduled; ``plan``: the result; ``bins``: plans from a user's lists; ``json_plan``: as text;
  ``dense``: HPC-Ops' buffer.
- ``sweep``: many steps at once (``blocks``, ``block_fills``, ``block_policies``); ``search``: the best static setting.
- ``validate``: what is wrong with a plan, in words.
- :func:`check_scheduler` tries a scheduler of one's own (``trials``: on which batches).
- ``costs``: constants a GPU; ``timing``: spans on the time axis; ``metrics``: a plan in numbers.
"""

from workbench.schedule.bins import plan_from_bins
from workbench.schedule.check import SchedulerReport, check_scheduler
from workbench.schedule.costs import CostConstants, CostModel, cost_model
from workbench.schedule.metrics import Metrics
from workbench.schedule.plan import DecodePlan
from workbench.schedule.policies import (
    Policy,
    balanced,
    fixed_chunk,
    fixed_splits,
    hpc_ops,
    lpt,
    plan_decode,
    policy_names,
    resolve,
)
from workbench.schedule.problem import DecodeProblem
from workbench.schedule.timing import Spans
from workbench.schedule.validate import Problem

__all__ = [
    "CostConstants",
    "CostModel",
    "DecodePlan",
    "DecodeProblem",
    "Metrics",
    "Policy",
    "Problem",
    "SchedulerReport",
    "Spans",
    "balanced",
    "check_scheduler",
    "cost_model",
    "fixed_chunk",
    "fixed_splits",
    "hpc_ops",
    "lpt",
    "plan_decode",
    "plan_from_bins",
    "policy_names",
    "resolve",
]
