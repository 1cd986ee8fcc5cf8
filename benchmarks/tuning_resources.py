"""How long a space takes to list, and fifty configurations to compile: cold, and from the cache.

    python benchmarks/tuning_resources.py [--write docs/performance/tuning.json]

The aims: 200 configurations listed in 0.2 s; resources of 50 in 30 s cold on two cores and in 1 s warm. The cache is a
temporary one. Warm means a new process, which finds on disk what the one before compiled. Beside the time by the clock
stands the processor time of all processes: on a machine that others use, half of it is what two idle cores would need.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

from workbench.gpu.ahead import cores
from workbench.tune.resources import resources
from workbench.tune.space import Space
from workbench.tune.spaces import attention_space, router_space

CONFIGS = 50
LISTED = 200


def fifty(which: str) -> tuple[Space, list[Any]]:
    """A space, and fifty of its configurations that are as many different kernels."""
    if which == "attention_decode":
        # The tile is of the map, not of the kernel: with one tile each configuration is a kernel of its own.
        space: Space = attention_space("64x4K").restrict(tile=64)
        return space, list(space)[:CONFIGS]
    space = router_space(64, 192, 4096)
    return space, space.promising(CONFIGS)


def list_seconds() -> dict[str, Any]:
    """Listing every combination of a space of some 200, with the reasons of those that cannot run."""
    taken = []
    for _ in range(5):
        space = attention_space("64x4K").restrict(stages=(2, 3, 4, 5, 6, 8))
        started = time.perf_counter()
        valid, refused = list(space), space.refused
        taken.append(time.perf_counter() - started)
    assert len(valid) >= LISTED
    return {"valid": len(valid), "refused": len(refused), "seconds": round(min(taken), 4), "aim_s": 0.2}


def compile_seconds(which: str) -> dict[str, Any]:
    """In this process, with the cache that the environment names."""
    space, configs = fifty(which)
    kernels = len({tuple(sorted(space.job(config).defines.items())) for config in configs})
    started = time.perf_counter()
    found = resources(space, configs)
    seconds = time.perf_counter() - started
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(each.ru_utime + each.ru_stime for each in used)
    assert not any(each.problem for each in found)
    return {"configurations": len(configs), "kernels": kernels, "seconds": round(seconds, 3), "cpu_s": round(cpu, 2)}


def in_a_process(which: str, cache: str) -> dict[str, Any]:
    """The same in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--measure", which],
        env={**os.environ, "WORKBENCH_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def busy(seconds: float = 3.0) -> float:
    """Share of all cores that programs used meanwhile."""

    def used() -> tuple[int, int]:
        numbers = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        return sum(numbers) - numbers[3] - numbers[4], sum(numbers)

    (before, total_before) = used()
    time.sleep(seconds)
    (after, total_after) = used()
    return (after - before) / max(1, total_after - total_before)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(compile_seconds(arguments.measure)))
        return
    document: dict[str, Any] = {
        "what": "listing a space, and resources of fifty configurations",
        "date": date.today().isoformat(),
        "machine": {"cores": cores(), "python": platform.python_version()},
        "busy_before": round(busy(), 2),
        "listing": list_seconds(),
    }
    for which in ("attention_decode", "router_gemm"):
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = in_a_process(which, cache), in_a_process(which, cache)
        document[which] = {
            "configurations": cold["configurations"],
            "kernels": cold["kernels"],
            "cold_s": cold["seconds"],
            "cold_cpu_s": cold["cpu_s"],
            "warm_s": warm["seconds"],
            "aim_cold_s": 30,
            "aim_warm_s": 1,
        }
    document["busy_after"] = round(busy(), 2)
    print(json.dumps(document, indent=1))
    if arguments.write:
        arguments.write.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
