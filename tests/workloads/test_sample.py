from __future__ import annotations

from importlib.resources import files

import numpy as np

from workbench.workloads import sample_trace
from workbench.workloads.sample import NUM_REQUESTS, sample_text


def test_shipped_file_is_made_again_byte_for_byte() -> None:
    shipped = (files("workbench.workloads") / "data" / "sample_trace.jsonl").read_bytes()
    assert shipped == sample_text().encode()


def test_sample_is_heavy_tailed_and_bursty() -> None:
    trace = sample_trace()
    assert len(trace) == NUM_REQUESTS == 400
    assert trace.arrivals == "recorded"
    assert not trace.skipped
    assert not trace.notes
    assert trace.input_tokens.max() > 20 * np.median(trace.input_tokens)
    gaps = np.diff(trace.arrival_s)
    assert gaps.std() > 1.5 * gaps.mean()  # a Poisson process would have equal ones
