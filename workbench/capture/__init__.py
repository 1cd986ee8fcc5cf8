"""Profiles of Nsight Compute for each configuration, as records: from a notebook, a script or the command line.

===================== =================================================================================
`api`                 `capture` one configuration, `request` to describe it
`batch`               `capture_batch`: many, resumable
`handle`              `Handle`: progress, cancel, result, await
`operators`           what can be captured: `register`, `operator_names`; adapters `attention`, `router`, `functions`
`metrics`             `SETS` of counters by purpose, checked against the installed ncu
`tools`               which ncu and which nsight-python are here
`run`, `process`      one capture process; `jobs`: its folder; `failures`: why it failed
`script`, `collect`   what that process does; `reduced`: without counters
`report_file`         reading .ncu-rep; `importing`: into a store
`results`             records, and counters beside in-kernel stamps
===================== =================================================================================

Importing it imports neither torch nor nsight-python and touches no GPU.
"""

from __future__ import annotations

from workbench.capture.api import capture, request
from workbench.capture.batch import BatchResult, capture_batch
from workbench.capture.handle import Handle, Progress
from workbench.capture.importing import import_report
from workbench.capture.metrics import SETS
from workbench.capture.operators import Instrumented, Operator, Prepared, Stamped, operator_names, register
from workbench.capture.report_file import KernelCounters, read_report
from workbench.capture.requests import Request
from workbench.capture.results import Captured
from workbench.capture.tools import Tools, find_tools

__all__ = [
    "SETS",
    "BatchResult",
    "Captured",
    "Handle",
    "Instrumented",
    "KernelCounters",
    "Operator",
    "Prepared",
    "Progress",
    "Request",
    "Stamped",
    "Tools",
    "capture",
    "capture_batch",
    "find_tools",
    "import_report",
    "operator_names",
    "read_report",
    "register",
    "request",
]
