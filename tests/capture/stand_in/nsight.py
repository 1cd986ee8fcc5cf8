"""Stands in for nsight-python 0.9.6 where that is not installed: the calls and the two runs that are relied on.

The process that was started comes to the decorated call, which runs the same script under ``ncu`` with
``NSPY_NCU_PROFILE`` set; that second process profiles within the call and ends there. Kernels are told apart by their
annotation and are expected to be equally many in each run.
"""

import functools
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import ncu_report
import pandas as pd


class ProfilerException(Exception):
    pass


@contextmanager
def annotate(name):
    yield


class analyze:
    @staticmethod
    def kernel(*, runs, metrics, combine_kernel_metrics, thermal_mode, output_prefix, output):
        assert (thermal_mode, output) == ("off", "quiet")

        def decorate(function):
            def call():
                if "NSPY_NCU_PROFILE" in os.environ:
                    if os.environ["NSPY_NCU_PROFILE"] != function.__name__:
                        return None
                    for _ in range(runs):
                        function()
                    os._exit(0)
                prefix = f"{output_prefix}ncu-output-{function.__name__}-0"
                command = f"ncu --log-file {prefix}.log --metrics {','.join(metrics)} -f -o {prefix}.ncu-rep "
                command += f"{sys.executable} {Path(sys.argv[0]).resolve()}"
                environment = {**os.environ, "NSPY_NCU_PROFILE": function.__name__}
                try:
                    subprocess.run(command, shell=True, check=True, env=environment)
                except subprocess.CalledProcessError:
                    log = Path(f"{prefix}.log")
                    said = log.read_text() if log.exists() else ""
                    raise ProfilerException(f"PROFILING FAILED \nErrors:\n{said}") from None
                return Results(read(f"{prefix}.ncu-rep", metrics, runs, combine_kernel_metrics))

            return call

        return decorate


class Results:
    def __init__(self, frame):
        self.frame = frame

    def to_dataframe(self):
        return self.frame


def read(path, metrics, runs, combine):
    try:
        report = ncu_report.load_report(path)
    except FileNotFoundError:
        raise ProfilerException("No NVIDIA Nsight Compute report found.") from None
    found = {}
    for block in (report.range_by_idx(i) for i in range(report.num_ranges())):
        for action in (block.action_by_idx(i) for i in range(block.num_actions())):
            state = action.nvtx_state()
            for domain in (state.domain_by_id(i) for i in state.domains()) if state else ():
                values = [action[name].value() for name in metrics]
                found.setdefault(domain.push_pop_ranges()[0], []).append(values)
    rows = []
    for annotation, launches in found.items():
        if len(launches) % runs:
            raise RuntimeError(f"Expect same number of kernels per run. Got average of {len(launches) / runs} per run")
        each = len(launches) // runs
        totals = [functools.reduce(combine, launches[i * each : (i + 1) * each]) for i in range(runs)]
        for metric, values in zip(metrics, zip(*totals, strict=True), strict=True):
            column = pd.Series(values, dtype=float)
            rows.append((annotation, metric, column.mean(), column.std(), column.min(), column.max(), runs))
    return pd.DataFrame(rows, columns=["Annotation", "Metric", "AvgValue", "StdDev", "MinValue", "MaxValue", "NumRuns"])
