"""Schedulers, a reader's own among them, run by the kernel on this machine: can they be, and what came out.

Importing this needs neither torch nor a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from workbench.gpu import driver
from workbench.measure.figures import ATTENTION, Figure, known_gpu
from workbench.schedule import DecodePlan, DecodeProblem, Policy, cost_model, resolve
from workbench.schedule.policies import UserFunction

if TYPE_CHECKING:
    from workbench.measure.attention_case import AttentionCase

CAPABILITY = (9, 0)
"""Compute capability that the kernel of decode attention is written for."""


@dataclass(frozen=True)
class Named:
    """A policy under another name, so that two functions of one name can be told apart.

    Attributes
    ----------
    name : str
    policy : Policy
    """

    name: str
    policy: Policy

    def plan(self, problem: DecodeProblem) -> DecodePlan:
        """Schedule ``problem``."""
        return replace(self.policy.plan(problem), policy=self.name)


def kernel_problem() -> str:
    """Why the CUDA kernel of decode attention cannot run here and what would help, as sentences; "" where it can."""
    if problem := driver.probe().problem:
        return problem
    found = driver.device()
    if found.compute_capability != CAPABILITY or known_gpu(found.name) is None:
        capability = ".".join(map(str, found.compute_capability))
        return (
            f"{found.name} (compute capability {capability}) is here; the kernel is written for Hopper, and the "
            "comparison needs a GPU of the catalogue: H100, H200 or H20."
        )
    if find_spec("torch") is None:
        return "torch is not installed, and the kernel takes its tensors from it. Run `make lab FULL=1`."
    import torch

    if not torch.cuda.is_available():
        return f"torch {torch.__version__} is not built for CUDA, so it cannot use {found.name}. Run `make lab FULL=1`."
    return ""


def measure_schedulers(
    case: AttentionCase, schedulers: Mapping[str, str | Policy | UserFunction], *, rounds: int = 15
) -> list[Figure]:
    """Run the kernel under each scheduler: checked against float64 first, then timed in turns.

    A scheduler that raises, gives an invalid plan, or leads to a wrong result has a figure that says so and no time.
    Making the plan and bringing it to the GPU is not part of the call.

    Parameters
    ----------
    case : AttentionCase
    schedulers : mapping of str to str, Policy or callable
        As :func:`workbench.schedule.plan_decode` takes them, by the name that their figures get. ``balanced`` decides
        by the cost model of this GPU.
    rounds : int
        Timed replays of each.

    Returns
    -------
    list of Figure
        The bare read of the same bytes, then the schedulers in their order.

    Raises
    ------
    NoGpu
        Without a GPU; :func:`kernel_problem` says beforehand what is missing.
    LaunchError
        A scheduler left the GPU unusable for this process.
    """
    driver.require_gpu()
    from workbench.measure.attention import Settings, compile_for, measure
    from workbench.measure.attention_providers import BareRead, CudaAttention
    from workbench.measure.clocks import ClocksUnreadable
    from workbench.measure.environment import clocks_here, environment_here
    from workbench.measure.recording import figure_of
    from workbench.measure.timing import GraphTimer

    environment = environment_here()
    cost = cost_model(environment.gpu, cache=case.cache, group=case.group, head_dim=case.head_dim)
    compile_for([case])
    ours = [CudaAttention(case, _named(name, resolve(given, cost))) for name, given in schedulers.items()]
    try:
        clocks = clocks_here()
    except ClocksUnreadable:
        clocks = None
    result = measure(case, [BareRead(case), *ours], Settings(rounds=rounds), GraphTimer(), clocks)
    return [figure_of(o, case.workload, environment, operator=ATTENTION) for o in result.outcomes]


def _named(name: str, policy: Policy) -> Policy:
    """The policy under a name; a built-in one keeps its type, by which the GPU knows that it can build its map."""
    return policy if policy.name == name else Named(name, policy)
