"""Compile on all cores the kernels that stages of ``benchmarks/campaign.py`` launch, before the first of them begins.

    python benchmarks/kernels_ahead.py [STAGE ...]

Needs no GPU: the cache (WORKBENCH_CACHE_DIR) may be filled on another machine that has the same compiler. A stage that
is not named here compiles nothing of its own. A kernel that does not compile is left to the stage, which says why.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from workbench.gpu.ahead import Job
    from workbench.measure.attention_case import AttentionCase

# Operators are imported where they are used: each compiling process imports this file, and torch takes seconds.


def article() -> list[AttentionCase]:
    """The six batches of both cache types."""
    from workbench.measure.attention_case import AttentionCase
    from workbench.workloads import MIXES, workload

    return [AttentionCase(name, workload(name), cache) for cache in ("fp8", "bf16") for name in MIXES]


def checked() -> Iterator[Job]:
    """Kernels of the tests of both operators, the planted faults among them."""
    from tests.ops.attention_decode import cases as attention
    from tests.ops.attention_decode import mutants as attention_faults
    from tests.ops.router_gemm import cases as router
    from tests.ops.router_gemm import mutants as router_faults
    from workbench.measure.map_build import MAP_JOB

    yield MAP_JOB
    every = [*attention.grid(), *attention.random_batches(), *attention.serving_batches()]
    yield from (case.job for case in every)
    yield from (case.job for case in chain.from_iterable(router.families().values()))
    for faults in (attention_faults, router_faults):
        for case in faults.CASES:
            yield case.job
            yield from (mutant.job(case) for mutant in faults.MUTANTS)


def sanitized() -> Iterator[Job]:
    """Kernels of ``tools/sanitize.py``."""
    from tools import sanitize
    from workbench.measure.map_build import MAP_JOB

    yield MAP_JOB
    yield from (case.job for case in sanitize.chosen_cases())


def measured() -> Iterator[Job]:
    """Kernels of ``workbench bench attention``."""
    from workbench.measure.attention import jobs

    yield from jobs(article())


def mapped() -> Iterator[Job]:
    """Kernels of ``benchmarks/task_map.py``."""
    from benchmarks.task_map import job

    yield from (job(profile) for profile in (False, True))


def stamped() -> Iterator[Job]:
    """Kernels of timelines, and of their comparison with counters."""
    from workbench.measure.timeline_run import jobs

    for case in article():
        yield from jobs(case)


def tuned() -> Iterator[Job]:
    """Kernels of ``benchmarks/tuning.py`` and ``benchmarks/tuning_gpus.py``."""
    from benchmarks import tuning

    for space, configs in tuning.spaces(tuning.options(["OUT"])):
        yield from (space.job(config) for config in configs)


def captured() -> Iterator[Job]:
    """Kernels of ``benchmarks/captures.py``: each also with stamps."""
    from benchmarks.captures import VARIANTS, configurations
    from workbench.ops.attention_decode import cuda
    from workbench.ops.attention_decode.config import AttentionConfig, AttentionShape, default_config

    shape = AttentionShape()
    for setting in (*VARIANTS, *configurations(10)):
        config = AttentionConfig(**{**default_config(shape).to_dict(), **setting})
        yield from (cuda.job(shape, config, timeline=timeline) for timeline in (False, True))


KERNELS: dict[str, Callable[[], Iterable[Job]]] = {
    "check": checked,
    "sanitize": sanitized,
    "attention": measured,
    "maps": mapped,
    "timelines": stamped,
    "busy": stamped,
    "tuning": tuned,
    "gpus": tuned,
    "captures": captured,
    "matrix": captured,
}


def jobs_of(stages: Iterable[str]) -> list[Job]:
    """Each kernel of these stages once."""
    found = chain.from_iterable(KERNELS[name]() for name in stages if name in KERNELS)
    return list({(job.source, job.entry, tuple(sorted(job.defines.items()))): job for job in found}.values())


def main() -> None:
    """Compile, and say how much that was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"some of {', '.join(KERNELS)}; default: all")
    arguments = parser.parse_args()
    from workbench.gpu.ahead import compile_ahead, cores
    from workbench.gpu.driver import probe

    if probe().problem:
        os.environ["TRITON_INTERPRET"] = "1"  # the tests' modules import Triton's kernels
    began = time.monotonic()
    jobs = jobs_of(arguments.stages or KERNELS)
    print(f"{len(jobs)} kernels on {cores()} cores", flush=True)
    compile_ahead(jobs)
    print(f"compiled in {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
