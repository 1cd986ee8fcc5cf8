"""Request traces made up from a seed: for trying the simulator without a recorded trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from workbench.workloads.arguments import whole
from workbench.workloads.lengths import MAX_REQUESTS, K
from workbench.workloads.presets import lognormal
from workbench.workloads.request_trace import RequestTrace


def synthetic_trace(
    num_requests: int = 1000,
    *,
    rate: float = 4.0,
    median_input: int = 2 * K,
    sigma_input: float = 1.0,
    longest_input: int = 128 * K,
    median_output: int = 256,
    sigma_output: float = 0.8,
    longest_output: int = 4 * K,
    seed: int = 0,
) -> RequestTrace:
    """Poisson arrivals of requests with lognormal prompts and outputs, all independent.

    Parameters
    ----------
    num_requests
        Requests, N.
    rate
        Mean requests a second.
    median_input, sigma_input, longest_input
        Of the prompts, as in `presets.lognormal`, tokens.
    median_output, sigma_output, longest_output
        Of the outputs, tokens.
    seed
        The same seed gives the same trace with the same NumPy.

    Returns
    -------
    RequestTrace
        Format "made".

    Raises
    ------
    InvalidArgument
        A number is outside its range.
    """
    num_requests = whole("num_requests", num_requests, 1, MAX_REQUESTS)
    streams = np.random.SeedSequence(whole("seed", seed, 0)).generate_state(3)

    def draw(median: int, sigma: float, longest: int, stream: int) -> npt.NDArray[np.int64]:
        return lognormal(num_requests, median=median, sigma=sigma, longest=longest, seed=int(streams[stream]))

    trace = RequestTrace(
        arrival_s=np.zeros(num_requests),
        input_tokens=draw(median_input, sigma_input, longest_input, 0),
        output_tokens=draw(median_output, sigma_output, longest_output, 1),
        name=f"synthetic trace, seed {seed}",
        arrivals="made",
    ).with_poisson_arrivals(rate, seed=int(streams[2]))
    return replace(trace, arrivals=f"Poisson, {rate:g} requests/s, seed {seed}")
