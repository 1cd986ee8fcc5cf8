"""Time the building of task maps on this GPU, by policy, batch, CTAs and threads of the kernel; stages of one build.

    python benchmarks/task_map.py [--threads]

Each figure is the median over replays of a CUDA graph of at least 24 builds that rotate over eight sets of lengths; all
variants take turns. The stages are nanoseconds from the start of the kernel, as a build with ``PROFILE`` stamps them:
prefix sums, cuts and bins, choice, rows written. Each map is compared with the plan that the CPU makes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from workbench.gpu.ahead import Job
from workbench.gpu.driver import require_gpu
from workbench.gpu.launch import Kernel
from workbench.measure.timing import time_interleaved
from workbench.ops.attention_decode import TaskMap, build_task_map
from workbench.ops.attention_decode.task_map import SOURCE, decides, grid_of, map_parameters, shared_bytes
from workbench.schedule import plan_decode

LONGEST = 131_072
STAGES = ("prefix sums", "cuts and bins", "choice", "rows")
BATCHES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "64x4K": lambda _: np.full(64, 4096),
    "64 lognormal": lambda rng: np.clip(rng.lognormal(7, 1.5, 64), 1, LONGEST).astype(int),
    "1x128K+31x4K": lambda _: np.append(np.full(31, 4096), 131_072),
    "2048x4K": lambda _: np.full(2048, 4096),
    "2048 lognormal": lambda rng: np.clip(rng.lognormal(7, 1.5, 2048), 1, LONGEST).astype(int),
}
POLICIES = ("hpc-ops", "balanced")
CTAS = (132, 528)


def job(profile: bool) -> Job:
    """The map kernel with or without stamps, to be compiled."""
    return Job(source=SOURCE, entry="build_task_map", defines={"PROFILE": int(profile)})


def builder(
    kernel: Kernel, lengths: torch.Tensor, task_map: TaskMap, policy: str, threads: int | None = None
) -> Callable[[], object]:
    """One launch of ``kernel``, with the threads that ``build_task_map`` would give it unless others are named.

    The parameters hold addresses only, so the call itself keeps the tensors for as long as a graph may replay it.
    """
    batch, heads, ctas, tile = lengths.shape[0], task_map.num_kv_heads, task_map.num_ctas, task_map.tile
    _, costs = decides(policy, ctas, tile)
    grid, usual = grid_of(batch, heads, ctas, bool(costs))
    threads = threads or usual
    pointers = (lengths.data_ptr(), task_map.map.data_ptr(), task_map.header.data_ptr(), task_map.empties.data_ptr())
    floor, rows = task_map.min_process_len // tile, task_map.max_batch
    parameters = map_parameters(pointers, batch, rows, heads, ctas, tile, floor, LONGEST, costs, threads)
    needed = shared_bytes(batch, ctas, bool(costs))

    def call(kept: tuple[torch.Tensor, TaskMap] = (lengths, task_map)) -> None:
        kernel.launch(grid, threads, [parameters], shared_bytes=needed, pdl=True)

    return call


def made(lengths: np.ndarray, policy: str, ctas: int) -> tuple[torch.Tensor, TaskMap]:
    """Lengths on the GPU and their map, which must be the plan of the CPU."""
    on_gpu = torch.as_tensor(lengths, dtype=torch.int32, device="cuda")
    task_map = build_task_map(on_gpu, num_kv_heads=1, max_seq_len=LONGEST, num_ctas=ctas, policy=policy)
    expected = plan_decode(lengths, num_kv_heads=1, num_ctas=ctas, policy=policy)
    if not np.array_equal(task_map.plan(lengths).descriptors, expected.descriptors):
        raise SystemExit(f"the map of {len(lengths)} requests under {policy} on {ctas} CTAs is not the CPU's plan")
    return on_gpu, task_map


def stages(kernel: Kernel, lengths: torch.Tensor, task_map: TaskMap, policy: str) -> np.ndarray:
    """Median nanoseconds at the end of each stage."""
    build = builder(kernel, lengths, task_map, policy)
    seen = []
    for _ in range(20):
        build()
        seen.append(task_map.header[3 : 3 + len(STAGES)].cpu().numpy())
    return np.median(seen[2:], axis=0).astype(int)


def main() -> None:
    """Time, check and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", action="store_true", help="also other numbers of threads a CTA")
    arguments = parser.parse_args()
    require_gpu()
    plain, stamped = (Kernel(job(profile).compile()) for profile in (False, True))
    for name, draw in BATCHES.items():
        variants: dict[str, list[Callable[[], object]]] = {}
        stamps = {}
        for policy in POLICIES:
            for ctas in CTAS:
                sets = [made(draw(np.random.default_rng(seed)), policy, ctas) for seed in range(8)]
                label = f"{policy} {ctas} CTAs"
                choices: list[Any] = [None]
                if arguments.threads:
                    choices += [256, 384, 512, 768, 1024]
                for threads in choices:
                    one = label if threads is None else f"{label} {threads} threads"
                    variants[one] = [builder(plain, lengths, task_map, policy, threads) for lengths, task_map in sets]
                stamps[label] = stages(stamped, *sets[0], policy)
        for label, timing in time_interleaved(variants).items():
            low, high = timing.interval_us()
            line = f"{name:15}{label:35}{timing.median_us:7.2f} us ({low:.2f} to {high:.2f})"
            if label in stamps:
                line += "   " + ", ".join(f"{s} {ns}" for s, ns in zip(STAGES, stamps[label], strict=True))
            print(line, flush=True)


if __name__ == "__main__":
    main()
