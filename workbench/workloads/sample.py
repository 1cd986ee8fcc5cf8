"""The small request trace that comes with the workbench: made here, from a seed, for examples and tests.

``tools/sample_trace.py`` writes the file again, byte for byte.
"""

from __future__ import annotations

import json
import math
from importlib.resources import as_file, files
from random import Random

from workbench.workloads.readers import read_trace
from workbench.workloads.request_trace import RequestTrace

NUM_REQUESTS = 400
SEED = 20_250

#: Requests a second when calm and in a burst, and the chance that a request is the last of its phase.
CALM_RATE, BURST_RATE = 1.5, 20.0
CALM_ENDS, BURST_ENDS = 1 / 30, 1 / 25
#: Median and deviation of the logarithm of chat prompts and of outputs, and their largest, tokens.
PROMPT, OUTPUT = (1_400, 1.1, 32_768), (220, 0.9, 2_048)
#: Share of requests whose prompt is a document, and the range of those, tokens: as many per octave in each octave.
DOCUMENT_SHARE, DOCUMENT = 0.05, (24_576, 131_072)


def sample_text() -> str:
    """Make the sample: 400 requests with heavy-tailed lengths that arrive in bursts.

    Returns
    -------
    str
        JSON Lines with ``arrival_s`` (to the millisecond), ``input_tokens`` and ``output_tokens``.
    """
    # `Random.random` alone keeps its sequence across Python versions; NumPy's distributions may change.
    draw = Random(SEED).random
    clock, burst = 0.0, False
    lines = []
    for _ in range(NUM_REQUESTS):
        if draw() < DOCUMENT_SHARE:
            low, high = DOCUMENT
            prompt = round(low * (high / low) ** draw())
        else:
            prompt = _lognormal(draw(), draw(), *PROMPT)
        output = _lognormal(draw(), draw(), *OUTPUT)
        lines.append(json.dumps({"arrival_s": round(clock, 3), "input_tokens": prompt, "output_tokens": output}))
        clock -= math.log(1.0 - draw()) / (BURST_RATE if burst else CALM_RATE)
        burst ^= draw() < (BURST_ENDS if burst else CALM_ENDS)
    return "\n".join(lines) + "\n"


def _lognormal(first: float, second: float, median: int, sigma: float, longest: int) -> int:
    """Two even draws to one lognormal length (Box and Muller, 1958), from 1 to `longest`."""
    normal = math.sqrt(-2.0 * math.log(1.0 - first)) * math.cos(2.0 * math.pi * second)
    return min(max(round(median * math.exp(sigma * normal)), 1), longest)


def sample_trace() -> RequestTrace:
    """The request trace that comes with the workbench; made up, not recorded anywhere.

    Returns
    -------
    RequestTrace
        400 requests over two minutes, with bursts and a few prompts of up to 128K tokens.
    """
    with as_file(files("workbench.workloads") / "data" / "sample_trace.jsonl") as path:
        return read_trace(path)
