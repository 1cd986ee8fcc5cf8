"""Compile many kernels ahead of their use, on all cores.

NVRTC compiles one program at a time in a process (two threads gain a fifth), so the work goes to processes; what they
compile reaches this one through the cache on disk.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from workbench.errors import CompileError, InvalidArgument
from workbench.gpu.compile import DEFAULT_ARCH, CompiledKernel, Define, compile_kernel
from workbench.gpu.source import Source


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """One kernel to compile: the arguments of :func:`workbench.gpu.compile.compile_kernel`."""

    source: Source | str
    entry: str
    defines: Mapping[str, Define] = dataclasses.field(default_factory=dict)
    arch: str = DEFAULT_ARCH

    def compile(self) -> CompiledKernel:
        """Compile it here, or find it compiled."""
        return compile_kernel(self.source, self.entry, defines=self.defines, arch=self.arch)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compile_ahead(
    jobs: Sequence[Job], *, workers: int | None = None, progress: Callable[[Job], None] | None = None
) -> None:
    """Compile every job into the cache on disk; a later :func:`compile_kernel` of the same finds it there.

    A job that does not compile is left to that later call, which raises its :class:`CompileError`.

    Parameters
    ----------
    jobs : sequence of Job
    workers : int, optional
        Processes, at least 1; default: one a core.
    progress : callable, optional
        Called in this process with each job that is done.

    Raises
    ------
    InvalidArgument
        When ``workers`` is no such number, or a job names a source that does not exist.
    CompileError
        When a process ended before its work did.
    """
    if workers is not None and (type(workers) is not int or workers < 1):
        raise InvalidArgument(f"workers is {workers!r}; give a number of processes from 1, or None for one a core.")
    count = min(workers or cores(), len(jobs))
    if count <= 1:
        for job in jobs:
            _compile(job)
            if progress:
                progress(job)
        return
    # Spawned, for a process that has used CUDA or threads must not fork.
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        try:
            pending = {pool.submit(_compile, job): job for job in jobs}
            for done in as_completed(pending):
                done.result()
                if progress:
                    progress(pending[done])
        except BrokenProcessPool:
            raise CompileError(
                f"One of {len(jobs)} kernels",
                "a compiling process ended before its work did: killed, out of memory, or started from a script that "
                "does its work when it is imported. Give fewer workers (workers=1 needs no other process); in a "
                "script, call this under `if __name__ == '__main__':`.",
            ) from None


def _compile(job: Job) -> None:
    try:
        job.compile()
    except CompileError:
        return  # compile_kernel raises it again in the process that asks for this kernel, with the compiler's lines
