"""nsight-python 1.x, where it is installed, against a stand-in that attaches as ncu from 2026.2.1 on does.

The stand-in has a library in place of Nsight Compute's: it marks when profiling begins and ends. So everything that
nsight-python does by itself is its own; that ncu attaches to a process is not tested.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.capture import installed
from workbench.capture import capture, capture_batch, read_report, register, request
from workbench.errors import ProfilerUnavailable

METRICS = ("gpu__time_duration.sum", "dram__bytes_read.sum")

LIBRARY = """
#include <stdio.h>
static int mark(const char* word) { FILE* f = fopen("injected", "w"); fputs(word, f); fclose(f); return 0; }
int nvInjBeginProfiling(void* p) { return mark("begun"); }
int nvInjEndProfiling(void* p) { return mark("ended"); }
"""


@pytest.fixture
def attaching(machine, tmp_path, monkeypatch):
    """The machine with an ncu that attaches."""
    if not installed.NSIGHT.startswith("1."):
        pytest.skip(f"nsight-python 1.x is not installed ({installed.NSIGHT or 'none'} is)")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for a stand-in of Nsight Compute's library")
    source, library = tmp_path / "injection.c", tmp_path / "injection" / "libcuda-injection.so"
    source.write_text(LIBRARY)
    library.parent.mkdir()
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setenv("STAND_IN_INJECTION", str(library.parent))
    machine.use_installed(monkeypatch)
    machine.version("2026.2.1.0")
    return machine


def test_one_process_does_all(attaching, leftovers):
    captured = capture("kernels:scale", {"size": 3}, metrics=METRICS, runs=2).result()
    assert captured.metrics == {"gpu__time_duration.sum": 3 * 128, "dram__bytes_read.sum": 3}
    assert captured.record.profiler.startswith("ncu 2026.2.1.0, nsight-python 1.")
    assert [kernel.annotation for kernel in read_report(captured.report)] == ["case0", "case0"]
    assert leftovers() == []


def test_a_group_and_several_kernels(attaching):
    asked = [request(f"kernels:{name}", {"size": 4}, metrics=METRICS) for name in ("scale", "chain")]
    result = capture_batch(asked, group=2).result().check()
    assert [one.metrics["dram__bytes_read.sum"] for one in result.captured] == [4, 12]


def test_the_instrumented_build_is_profiled_apart(attaching, monkeypatch):
    monkeypatch.setattr("workbench.capture.operators._REGISTRY", {})
    register("toy", "toy_operator:Toy")
    captured = capture("toy", metrics=(*METRICS, "schedule"), runs=2).result()
    assert captured.timeline is not None
    assert captured.metrics["gpu__time_duration.sum"] == 5  # of the plain build
    assert {kernel.annotation for kernel in read_report(captured.report)} == {"case0"}


def test_no_library_to_inject(attaching, monkeypatch, tmp_path):
    monkeypatch.setenv("STAND_IN_INJECTION", str(tmp_path / "absent"))
    with pytest.raises(ProfilerUnavailable, match="injection"):
        capture("kernels:scale", metrics=METRICS).result()
