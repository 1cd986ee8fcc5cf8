"""Check, measure and record everything about the GPU at hand, stage by stage, within a limit.

    python benchmarks/campaign.py OUT [--stages check,attention] [--limit-s 560] [--work FOLDER] [--list]

Kernels are compiled and the GPU is warmed up before. Each stage is a process with a limit and a log of its own, and one
that fails does not keep the others from running; a line of each is printed as it ends, with the last words of one that
failed. A stage that needs more time than is left is not begun, so long campaigns are several calls. OUT/results.tar.gz
holds records and figures, OUT/logs.tar.gz the logs, written after each stage and also when the run is interrupted.
Exit status: 0 where every stage passed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.stage_runner import Runner, Stage  # noqa: E402
from workbench import settings  # noqa: E402
from workbench.gpu import driver  # noqa: E402

CHECKED = ("tests/ops", "tests/gpu")
FAULTS = "tests/ops/attention_decode/test_gpu_mutants.py"
TIMED_TESTS = (
    "tests/measure", "tests/tune", "tests/cli/test_bench.py", "tests/cli/test_timeline.py",
    "tests/notebooks/test_decode_attention.py",
)  # fmt: skip
AT_ONCE = 6
"""Processes of tests that share the GPU."""

TUNING_S = 120
SEED = "20261130"


def checks(*what: str, at_once: int = 1) -> tuple[str, ...]:
    """Command for tests that need a GPU; one that hangs ends its process."""
    side_by_side = ("-n", str(at_once), "--dist", "loadfile") if at_once > 1 and find_spec("xdist") else ()
    how = ("--timeout", "180", "--timeout-method", "thread", "--continue-on-collection-errors")
    return (
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "gpu",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:benchmark",
        *how,
        *side_by_side,
        *what,
    )


def script(name: str, *arguments: str | Path) -> tuple[str, ...]:
    """Command for a script of the checkout."""
    return (sys.executable, str(ROOT / name), *map(str, arguments))


def command(*arguments: str | Path) -> tuple[str, ...]:
    """The command ``workbench``."""
    return (sys.executable, "-m", "workbench", *map(str, arguments))


def stages(work: Path, gpu: str) -> Iterator[Stage]:
    """Everything, in order. Needs are seconds on an H200 with 16 cores; see ``docs/measuring.md``."""
    store, captures = work / "store", work / "captures"
    at_once = max(1, min(AT_ONCE, (os.cpu_count() or 1) // 2))
    yield Stage(
        "check", "tests of both operators and of the launcher", (
            checks(*CHECKED, "--ignore", FAULTS, at_once=at_once), checks(FAULTS),
        ), 150, 360, alone=False,
    )  # fmt: skip
    yield Stage("sanitize", "memcheck and racecheck", (script("tools/sanitize.py"),), 120, 360, alone=False)
    yield Stage("tests", "tests of what measures and tunes", (checks(*TIMED_TESTS),), 200, 400)
    yield Stage(
        "attention", "decode attention and task maps beside others", (
            command(
                "bench", "attention", "--splits", "--what", "attention,map", "--seed", SEED, "--records", store,
                "--json", work / "attention.json",
            ),
        ), 110, 240,
    )  # fmt: skip
    yield Stage("maps", "task maps by threads and stages", (script("benchmarks/task_map.py", "--threads"),), 40, 120)
    yield Stage(
        "timelines", "in-kernel timelines under six policies", (script("benchmarks/timelines.py", store, "--more"),),
        110, 240,
    )  # fmt: skip
    yield Stage(
        "busy", "busy time of SMs by counters and by stamps",
        (script("benchmarks/busy.py", "--write", work / "busy.json"),), 60, 240,
    )  # fmt: skip
    yield Stage(
        "router", "router GEMM of six models beside cuBLAS",
        (script("benchmarks/router.py", "--store", store, "--write", work / "router.json"),), 100, 300,
    )  # fmt: skip
    yield Stage(
        "fp32", "cuBLAS FP32 where it errs most: the largest K of the models, 8192 tokens", (
            command(
                "bench", "router", "7168,256", "--tokens", "8192", "--providers", "cublas-fp32", "--seed", SEED,
                "--records", store, "--json", work / "fp32.json",
            ),
        ), 20, 60,
    )  # fmt: skip
    yield Stage(
        "tuning", "defaults against tuned configurations",
        (script("benchmarks/tuning.py", work / "tuning", "--limit-s", TUNING_S),), 90, TUNING_S + 120,
    )  # fmt: skip
    yield Stage(
        "gpus", "a study on two GPUs beside one", (script("benchmarks/tuning_gpus.py", work / "gpus"),), 90, 240,
        gpus=2,
    )  # fmt: skip
    yield Stage(
        "captures", "Nsight Compute from a notebook, ten configurations, reports", (
            script(
                "benchmarks/captures.py", captures, "--notebook", "--ten", "--router", "--reports", "--write",
                work / "captures.json",
            ),
            checks("tests/capture", "tests/notebooks/test_nsight.py"),
        ), 420, 560,
    )  # fmt: skip
    yield Stage(
        "matrix", "Nsight Compute on six batches, three policies, three configurations",
        (script("benchmarks/captures.py", captures, "--matrix", "--write", work / "matrix.json"),), 160, 400,
    )  # fmt: skip
    yield Stage(
        "fit", "constants of the cost model from the store",
        (command("fit", store, "--gpu", gpu, "--out", work / "fit.json"),), 90, 600, gpus=0,
    )  # fmt: skip


def preparation(names: list[str]) -> list[Stage]:
    """What comes before the first stage: kernels, and a GPU and libraries that were used."""
    return [
        Stage(
            "compile", "kernels of the stages, on all cores", (script("benchmarks/kernels_ahead.py", *names),), 10, 240,
            alone=False,
        ),
        Stage(
            "warm-up", "libraries read, clocks up",
            (script("benchmarks/warm_up.py"),), 10, 120, alone=False,
        ),
    ]  # fmt: skip


def main() -> int:
    """Choose, prepare, run, pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", help="folder of the archives")
    parser.add_argument("--stages", metavar="NAME,...", help="default: all, in the order of --list")
    parser.add_argument("--limit-s", type=float, default=560, help="seconds for everything (default 560)")
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="where stages write (default OUT/work)")
    parser.add_argument("--list", action="store_true", help="print stages with the seconds that they need, and end")
    arguments = parser.parse_args()
    status = driver.probe()
    gpu = driver.device().name if status.problem is None else "H200"
    out = (arguments.out or Path()).resolve()
    work = (arguments.work or out / "work").resolve()
    known = {stage.name: stage for stage in stages(work, gpu)}
    if arguments.list:
        for stage in known.values():
            print(f"{stage.name:12}{stage.needs_s:5.0f} s, at most {stage.limit_s:.0f}   {stage.what}")
        return 0
    names = arguments.stages.split(",") if arguments.stages else list(known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"there is no stage {unknown[0]!r}; give some of {', '.join(known)}")
    if arguments.out is None:
        parser.error("give OUT, a folder for the archives")
    if status.problem is not None:
        parser.error(status.problem)
    environment = settings.inherited_environment()
    path = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH"))))
    environment |= {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    runner = Runner(out, work, arguments.limit_s, environment, ROOT, gpus=status.device_count)
    chosen = [stage for name, stage in known.items() if name in names]
    fitting = [stage.name for stage in chosen if stage.gpus <= runner.gpus]
    return 0 if runner.run(preparation(fitting), chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
