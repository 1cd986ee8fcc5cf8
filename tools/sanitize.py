"""Run decode attention and its task map under NVIDIA's compute-sanitizer: memcheck and racecheck.

    python tools/sanitize.py                 # both tools
    python tools/sanitize.py memcheck

The two run side by side. Each first runs over a kernel with a planted fault that it has to report: a tool that is
silent about that says nothing about ours. Exit status: 0 clean, 1 the tool found something, 2 it could not run here.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

CLEAN, FOUND, IMPOSSIBLE = 0, 1, 2
TOOLS = ("memcheck", "racecheck")
REPORTED = 99  # what the sanitizer exits with when it found something
LENGTHS = (1300, 0, 1, 2, 17, 64, 400)
EVERY = 23  # one case in so many of the tests' grid
LIMIT_S = 300  # of one run of a tool; one that is ended has said until then what it found

OURS = ("attention_decode", "task_map", "dense_map", "planted")
"""Parts of the names of the kernels that are checked."""

PLANTED = {
    "memcheck": 'extern "C" __global__ void planted(int* x) { x[threadIdx.x + 1024 * 1024] = 1; }',
    "racecheck": """
        extern "C" __global__ void planted(int* x) {
          __shared__ int s[64];
          s[threadIdx.x] = threadIdx.x;
          x[threadIdx.x] = s[63 - threadIdx.x];
        }
    """,
}


def run_planted(tool: str) -> None:
    """Launch the kernel that the tool has to report."""
    import torch

    from workbench.errors import WorkbenchError
    from workbench.gpu.compile import compile_kernel
    from workbench.gpu.launch import Kernel
    from workbench.gpu.source import Source

    x = torch.zeros(64, dtype=torch.int32, device="cuda")
    try:
        Kernel(compile_kernel(Source.inline(PLANTED[tool], "planted.cu"), "planted")).launch(1, 64, [x])
        torch.cuda.synchronize()
    except (WorkbenchError, RuntimeError) as error:
        print("the planted fault stopped the kernel:", str(error).splitlines()[0])


@cache
def chosen_cases() -> list:
    """A part of the tests' grid, on short batches; all precisions, head dims and policies occur."""
    from tests.ops.attention_decode.cases import grid
    from tests.ops.attention_decode.mutants import CASES

    return [replace(case, lengths=LENGTHS, num_ctas=6) for case in [*CASES, *grid()[::EVERY]]]


def run_ours() -> None:
    """Launch every chosen case twice on one map, and both map kernels."""
    import torch

    from tests.ops.attention_decode.judge import run
    from workbench.ops.attention_decode import build_task_map, write_dense

    for case in chosen_cases():
        inputs = case.inputs()
        *_, complaints = run(case, inputs, case.task_map(inputs), calls=2)
        if complaints:
            raise SystemExit(f"{case}: {'; '.join(complaints)}")
        print("ran", case, flush=True)
    for batch in (1, 40, 3000):
        lengths = torch.arange(batch, dtype=torch.int32, device="cuda") % 700
        for policy in ("balanced", "hpc-ops"):
            task_map = build_task_map(lengths, num_kv_heads=2, max_seq_len=700, policy=policy)
        write_dense(task_map, lengths)
        print("ran maps of", batch, "requests", flush=True)
    torch.cuda.synchronize()


def find_sanitizer() -> str | None:
    """The compute-sanitizer executable."""
    found = shutil.which("compute-sanitizer")
    usual = [
        Path("/usr/local/cuda/bin/compute-sanitizer"),
        *sorted(Path("/usr/local").glob("cuda-*/bin/compute-sanitizer")),
    ]
    return found or next((str(path) for path in usual if path.is_file()), None)


def under(sanitizer: str, tool: str, what: str) -> tuple[int, str]:
    """Run this script's part ``what`` under a tool; returns exit status and output."""
    environment = {
        **os.environ,
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    }  # each tensor an allocation with ends of its own
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(REPORTED), "--print-limit", "10"]
    # Only our kernels, and no driver calls: cuda-core asks the driver for functions that it may not have, and torch has
    # kernels of its own that racecheck does not understand.
    command += ["--report-api-errors", "no"] if tool == "memcheck" else []
    # A warp's readers meet, and one of them arrives at the barrier that a copy waits for.
    command += ["--racecheck-indirect-barrier-dependency"] if tool == "racecheck" else []
    command += [option for name in OURS for option in ("--kernel-name", f"kns={name}")]
    try:
        done = subprocess.run(
            [*command, sys.executable, __file__, tool, "--inside", what],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as ended:
        return -1, (ended.stdout or b"").decode(errors="replace") + f"\nended after {LIMIT_S} s"
    return done.returncode, done.stdout.decode(errors="replace")


def check(sanitizer: str, tool: str) -> int:
    """One tool over the planted fault, then over ours; prints the verdict and returns the exit status."""
    status, output = under(sanitizer, tool, "planted")
    if status != REPORTED:
        print(output)
        print(f"{tool}: cannot tell. It did not report the planted fault (exit status {status}); see its output above.")
        if "not supported" in output:
            print("The sanitizer cannot attach to this machine's GPU, which happens under some virtual machines.")
        return IMPOSSIBLE
    status, output = under(sanitizer, tool, "ours")
    calls = output.count("\nran ")
    if status == 0 and calls:
        print(f"{tool}: clean, {calls} cases ({len(chosen_cases())} of attention); the planted fault was reported.")
        return CLEAN
    print(output)
    print(f"{tool}: NOT clean (exit status {status}); see its output above.")
    return FOUND


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", nargs="?", choices=TOOLS, help="default: both")
    parser.add_argument("--inside", choices=("planted", "ours"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside == "planted":
        run_planted(arguments.tool)
        return CLEAN
    if arguments.inside == "ours":
        run_ours()
        return CLEAN

    from workbench.gpu.ahead import compile_ahead
    from workbench.gpu.driver import probe

    if problem := probe().problem:
        print(problem)
        return IMPOSSIBLE
    sanitizer = find_sanitizer()
    if sanitizer is None:
        print("compute-sanitizer was not found on PATH or in /usr/local/cuda. It comes with the CUDA toolkit;")
        print("with conda: conda install -c nvidia cuda-sanitizer-api")
        return IMPOSSIBLE
    compile_ahead([case.job for case in chosen_cases()])
    chosen = (arguments.tool,) if arguments.tool else TOOLS
    with ThreadPoolExecutor(len(chosen)) as pool:
        statuses = list(pool.map(check, [sanitizer] * len(chosen), chosen))
    return FOUND if FOUND in statuses else max(statuses)


if __name__ == "__main__":
    raise SystemExit(main())
