"""What the GPU is asked to do: request lengths, traces, and the decode steps that an engine makes of them.

- lengths of one batch: `workload`, `parse_lengths`, `format_lengths`, `MIXES`, `FAMILIES` (`lengths`, `presets`)
- request traces: `read_trace`, `RequestTrace` (`readers`, `formats`, `records`, `values`, `request_trace`);
  made-up ones: `sample_trace`, `synthetic_trace` (`sample`, `synthetic`)
- decode steps: `simulate` gives `DecodeSteps`, timed by `StepTime` (`simulate`, `engine`, `decode_steps`,
  `timeline`, `step_time`)

Needs NumPy; pandas and pyarrow load only where a frame or a Parquet file is asked for.
"""

from __future__ import annotations

from workbench.workloads.decode_steps import DecodeSteps, StepBatches
from workbench.workloads.formats import FORMATS, TraceFormat
from workbench.workloads.lengths import MAX_REQUESTS, MAX_TOKENS, as_lengths, format_lengths, parse_lengths
from workbench.workloads.presets import (
    FAMILIES,
    MIXES,
    bimodal,
    lognormal,
    one_long_many_short,
    uniform,
    workload,
    zipf,
)
from workbench.workloads.readers import read_trace
from workbench.workloads.request_trace import RequestTrace
from workbench.workloads.sample import sample_trace
from workbench.workloads.simulate import simulate
from workbench.workloads.step_time import StepTime
from workbench.workloads.synthetic import synthetic_trace
from workbench.workloads.timeline import StepTable, Timeline

__all__ = [
    "FAMILIES",
    "FORMATS",
    "MAX_REQUESTS",
    "MAX_TOKENS",
    "MIXES",
    "DecodeSteps",
    "RequestTrace",
    "StepBatches",
    "StepTable",
    "StepTime",
    "Timeline",
    "TraceFormat",
    "as_lengths",
    "bimodal",
    "format_lengths",
    "lognormal",
    "one_long_many_short",
    "parse_lengths",
    "read_trace",
    "sample_trace",
    "simulate",
    "synthetic_trace",
    "uniform",
    "workload",
    "zipf",
]
