"""Compiling ahead in several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import workbench
from workbench.errors import CompileError, InvalidArgument
from workbench.gpu.ahead import Job, compile_ahead, cores
from workbench.gpu.cache import DiskCache
from workbench.gpu.compile import cache_folder, forget
from workbench.gpu.source import Source


@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_compiled_ahead_comes_from_the_cache(saxpy: Source, workers: int) -> None:
    jobs = [Job(source=saxpy, entry="saxpy", defines={"BLOCK": block}) for block in (32, 64, 128)]
    done: list[Job] = []
    compile_ahead(jobs, workers=workers, progress=done.append)
    assert sorted(job.defines["BLOCK"] for job in done) == [32, 64, 128]
    assert len(list(DiskCache(cache_folder()).entries())) == 3
    forget()
    assert all(job.compile().from_cache for job in jobs)


def test_a_job_that_does_not_compile_stops_no_other_and_raises_when_it_is_asked_for(saxpy: Source) -> None:
    good = Job(source=saxpy, entry="saxpy", defines={"BLOCK": 32})
    bad = Job(source=saxpy, entry="saxpy")  # BLOCK is missing
    compile_ahead([bad, good], workers=2)
    forget()
    assert good.compile().from_cache
    with pytest.raises(CompileError, match="BLOCK"):
        bad.compile()


def test_nothing_to_compile_starts_no_process() -> None:
    compile_ahead([])
    assert cores() >= 1


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2", True], ids=repr)
def test_a_number_of_workers_that_cannot_be_is_refused(saxpy: Source, workers: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"workers is .*; give a number of processes from 1"):
        compile_ahead([Job(source=saxpy, entry="saxpy")], workers=workers)


def test_a_job_without_a_source_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"There is no kernel source 'nosuch\.cu'"):
        compile_ahead([Job(source="nosuch.cu", entry="f")] * 2, workers=2)


SCRIPT = """
from workbench.errors import CompileError
from workbench.gpu.ahead import Job, compile_ahead
from workbench.gpu.source import Source
job = Job(source=Source.inline('extern "C" __global__ void f() {}'), entry="f")
try:
    compile_ahead([job, job], workers=2)
except CompileError as error:
    print(error)
"""


def test_a_script_that_does_its_work_at_import_is_told_how_to(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(Path(workbench.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert "a compiling process ended before its work did" in done.stdout
    assert "if __name__ == '__main__':" in done.stdout
