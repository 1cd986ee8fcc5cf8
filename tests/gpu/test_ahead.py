"""Compiling ahead in several processes."""

from __future__ import annotations

import pytest

from workbench.errors import CompileError
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
