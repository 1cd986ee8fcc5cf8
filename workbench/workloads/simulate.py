"""From requests to decode steps: a continuous-batching engine, simulated.

One engine step, in this order:

1. Requests that have arrived join the end of the queue.
2. Every running request is given room for one more KV token. If the KV cache cannot hold them all, the request
   admitted last gives up its whole cache and returns to the head of the queue, where it will prefill its prompt and
   the tokens it has generated anew; and so on until the rest fits. (What did not fit with the last of these cannot
   be admitted in this step again.)
3. Prefill: the prompt in progress goes on; then requests are admitted from the head of the queue, first come first
   served, while the step's token budget lasts, the batch has a place, and the cache holds the whole prompt and
   leaves the watermark free (nothing is held back for a request that is alone). A prompt longer than what is left
   of the budget is continued in the next step, so at most one is in progress.
4. The step decodes one token of every running request. Its KV length counts the token that is being processed:
   prompt + 1 in the first decode step. The step takes the time of `StepTime`.
5. A prompt that is complete has generated its first token and runs from the next step on; a request with all its
   tokens leaves and frees its cache.

A request of P prompt and O output tokens thus decodes O - 1 steps, with KV lengths P + 1 ... P + O - 1; a
preemption replaces one of them by the prefill that it causes. There is no prefix cache and no speculative decoding.

Between events all lengths grow by one a step, so the simulator jumps: its cost grows with requests, not tokens.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from types import NoneType

import numpy as np

from workbench.errors import InvalidArgument, WorkloadError
from workbench.workloads.arguments import real, whole
from workbench.workloads.decode_steps import DecodeSteps
from workbench.workloads.engine import MAX_SIMULATED_SECONDS, Engine
from workbench.workloads.lengths import MAX_REQUESTS
from workbench.workloads.request_trace import RequestTrace
from workbench.workloads.step_time import StepTime


def simulate(
    trace: RequestTrace,
    *,
    max_batch: int = 256,
    kv_capacity: int = 2_000_000,
    prefill_budget: int = 8192,
    watermark: float = 0.01,
    step_time: StepTime | None = None,
    max_steps: int | None = None,
    every: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> DecodeSteps:
    """Turn a request trace into decode steps with the KV length of every running request.

    Nothing is random: the same trace and limits give the same steps.

    Parameters
    ----------
    trace
        Requests with arrival times; `RequestTrace.with_poisson_arrivals` makes some from a seed.
    max_batch
        Most requests running or prefilling at once.
    kv_capacity
        Tokens that the KV cache holds.
    prefill_budget
        Most prompt tokens that one step prefills; decoded tokens are not counted.
    watermark
        Fraction of the capacity that admission leaves free for running requests to grow into.
    step_time
        Model of the clock; None is ``StepTime()``.
    max_steps
        Stop after so many decode steps; None runs to the end of the trace.
    every
        Keep each so many-th step only; ``simulate(...)[::every]`` is the same.
    progress
        Called now and then with (requests finished, requests in all).

    Returns
    -------
    DecodeSteps
        The steps that decode at least one request, labelled as simulated.

    Raises
    ------
    InvalidArgument
        A limit is outside its range.
    WorkloadError
        A request alone exceeds the KV cache, or the time simulated exceeds `MAX_SIMULATED_SECONDS`.
    """
    for name, value in {
        "max_batch": max_batch,
        "kv_capacity": kv_capacity,
        "prefill_budget": prefill_budget,
        "every": every,
        **({} if max_steps is None else {"max_steps": max_steps}),
    }.items():
        whole(name, value, 1, MAX_REQUESTS if name == "max_batch" else 1 << 40)
    fraction = "a fraction from 0 up to, but not including, 1"
    watermark = real("watermark", watermark, fraction, 0, math.nextafter(1, 0))
    if not isinstance(trace, RequestTrace):
        raise InvalidArgument(f"trace={reprlib.repr(trace)}; give a RequestTrace, such as read_trace(path)")
    if not isinstance(step_time, (StepTime, NoneType)):
        raise InvalidArgument(f"step_time={reprlib.repr(step_time)}; give a StepTime")
    _check_fits(trace, kv_capacity)
    engine = Engine(
        trace,
        max_batch=int(max_batch),
        capacity=int(kv_capacity),
        budget=int(prefill_budget),
        watermark=int(watermark * kv_capacity),
        step_time=StepTime() if step_time is None else step_time,
    )
    engine.run((1 << 62) if max_steps is None else int(max_steps), progress)
    limits = f"batch <= {max_batch:,}, KV cache {kv_capacity:,} tokens, prefill {prefill_budget:,} tokens a step"
    label = f"simulated decode steps of {trace.name} ({limits})"
    return DecodeSteps(engine.timeline(), label=label)[::every]


def _check_fits(trace: RequestTrace, kv_capacity: int) -> None:
    """Raise unless every request fits an empty cache, and the arrivals the clock."""
    needed = trace.input_tokens + np.maximum(trace.output_tokens - 1, 0)
    if (over := np.flatnonzero(needed > kv_capacity)).size:
        raise WorkloadError(
            f"request {over[0]} of {trace.name} needs {needed[over[0]]:,} tokens of KV cache at its end, as do or "
            f"exceed {over.size:,} requests the {kv_capacity:,} given; give kv_capacity >= {needed.max():,}"
        )
    if trace.duration_s > MAX_SIMULATED_SECONDS:
        raise WorkloadError(
            f"{trace.name} lasts {trace.duration_s:,.0f} s, and at most {MAX_SIMULATED_SECONDS:,} s can be simulated; "
            "cut it with .head(n) or shorten it with .with_speed(factor)"
        )
