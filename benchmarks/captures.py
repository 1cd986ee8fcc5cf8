"""Capture decode attention and router GEMM with Nsight Compute on this GPU: how long it takes, and records to keep.

    python benchmarks/captures.py STORE [--notebook] [--ten] [--matrix] [--router] [--reports] [--write FILE.json]

Without a choice it does all five:

--notebook  one configuration from a cell of a notebook, run headless, while the cell watches that the kernel's event
            loop stays free; at most 40 s
--ten       ten configurations x four metrics, a process each; at most 180 s
--matrix    the six mixes x three policies x three configurations, a process for two mixes
--router    router GEMM of three models x four numbers of tokens, ours and cuBLAS in TF32, in one process
--reports   three calls alone, with their reports (.ncu-rep)
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.capture import BatchResult, Progress, capture_batch, find_tools, request
from workbench.capture.metrics import CHIPS, known_metrics
from workbench.capture.requests import Request
from workbench.errors import MissingDependency
from workbench.gpu import driver
from workbench.ops.attention_decode.config import AttentionShape, default_config, space
from workbench.workloads import MIXES

RUNS = 3
"""Of what is kept to be compared: without their noise a difference says little."""

VARIANTS: tuple[dict[str, Any], ...] = ({}, {"stages": 6}, {"ctas_per_sm": 2, "stages": 2})
"""Configurations of the matrix, as what differs from the default: more bytes in flight a CTA, or two CTAs an SM."""

POLICIES = ("balanced", "hpc-ops", "fixed_splits(8)")
FOUR = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__cycles_active.avg",
)
NOTEBOOK_LIMIT, TEN_LIMIT = 40.0, 180.0
ROUTERS = ((4096, 192), (6144, 768), (3072, 384))
TOKENS = (1, 64, 512, 4096)
ROUTER_PROVIDERS = ("cuda", "cublas-tf32")
WITH_REPORT = (("attention_decode", "64x4K"), ("attention_decode", "1x128K+31x4K"), ("router_gemm", "M512-K6144-N768"))

CELL = """
import asyncio, json, time
from workbench.capture import capture

began, stages = time.monotonic(), []
handle = capture(
    "attention_decode", {config!r}, {case!r}, policy="balanced", store={store!r},
    on_progress=lambda now: stages.append((now.stage, now.seconds)),
)
longest, before = 0.0, time.monotonic()
while not handle.done():
    await asyncio.sleep(0.02)
    now = time.monotonic()
    longest, before = max(longest, now - before), now
captured = await handle
said = {{"seconds": time.monotonic() - began, "longest_gap_s": longest, "stages": stages}}
open({result!r}, "w").write(json.dumps(said))
"""


def one_from_a_notebook(store: Path) -> dict[str, Any]:
    """Seconds of one capture as a cell sees them, and the longest time that its event loop stood still."""
    try:
        import nbclient
        import nbformat
    except ImportError:
        raise MissingDependency("nbclient", needed_for="running a notebook headless", install="make lab") from None
    result = store / ".notebook.json"
    cell = CELL.format(config={}, case=MIXES[-1], store=str(store), result=str(result))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    began = time.monotonic()
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    said: dict[str, Any] = json.loads(result.read_text())
    result.unlink()
    said |= {"with_kernel_start_s": time.monotonic() - began, "limit_s": NOTEBOOK_LIMIT}
    print(f"notebook: {said['seconds']:.1f} s, event loop still for {said['longest_gap_s'] * 1000:.0f} ms at most")
    print("  " + ", ".join(f"{stage} at {seconds:.1f} s" for stage, seconds in said["stages"]), flush=True)
    return said


def configurations(number: int) -> list[dict[str, Any]]:
    """Valid configurations of the FP8 kernel, the default first, the others spread evenly over the space."""
    shape = AttentionShape()
    usual = default_config(shape)
    others = [c for c in space(shape) if c.pdl and not c.early_map and c.tile == usual.tile and c != usual]
    step = len(others) / (number - 1)
    return [{}, *(others[int(step * (at + 0.5))].to_dict() for at in range(number - 1))]


def ten() -> list[Request]:
    """Ten configurations of the case with the longest request."""
    return [request("attention_decode", setting, MIXES[-1], metrics=FOUR) for setting in configurations(10)]


def matrix() -> list[Request]:
    """The six mixes under three policies with three configurations."""
    return [
        request("attention_decode", setting, mix, policy=policy, metrics=("overview", "schedule"), runs=RUNS)
        for mix in MIXES
        for policy in POLICIES
        for setting in VARIANTS
    ]


def router() -> list[Request]:
    """The router of three models, K and N, at four numbers of tokens."""
    shapes = [f"M{m}-K{k}-N{n}" for k, n in ROUTERS for m in TOKENS]
    return [
        request("router_gemm", {}, shape, provider=provider, metrics=("overview", "tensor"), runs=RUNS)
        for provider in ROUTER_PROVIDERS
        for shape in shapes
    ]


def with_reports() -> list[Request]:
    """Captures to open in Nsight Compute."""
    return [request(operator, {}, case, metrics=("overview", "memory", "tensor")) for operator, case in WITH_REPORT]


def run(what: str, requests: list[Request], store: Path, **options: Any) -> dict[str, Any]:
    """Capture a batch and say how long it took."""
    last = ""

    def told(now: Progress) -> None:
        nonlocal last
        line = f"{what}: {now.done} of {now.total} {now.stage} {now.label}"
        if now.stage in ("captured", "failed") and line != last:
            print(f"{now.seconds:6.1f} s  {line}", flush=True)
            last = line

    began = time.monotonic()
    result = capture_batch(requests, store=store, on_progress=told, **options).result()
    seconds = time.monotonic() - began
    print(f"{what}: {len(requests)} captures in {seconds:.1f} s", flush=True)
    for at, error in result.failures.items():
        print(f"  {at + 1}: {error}", flush=True)
    return {"seconds": seconds, "captures": len(requests), **_facts(result)}


def _facts(result: BatchResult) -> dict[str, Any]:
    found = [one for one in result.captured if one is not None]
    reports = [one.report.stat().st_size for one in found if one.report is not None]
    return {
        "failed": {at: str(error) for at, error in result.failures.items()},
        "skipped": result.skipped,
        "process_s": [round(one.seconds, 2) for one in found],
        "report_bytes": reports,
        "agreements": [one.agreement.to_dict() for one in found if one.agreement is not None],
    }


def main() -> None:
    """Capture what is asked for, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, help="folder of the store that the records go to")
    choices = ("notebook", "ten", "router", "reports", "matrix")
    for name in choices:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write seconds and sizes as JSON")
    arguments = parser.parse_args()
    chosen = {name for name in choices if getattr(arguments, name)} or set(choices)
    arguments.store.mkdir(parents=True, exist_ok=True)
    tools, began = find_tools(), time.monotonic()
    if (chip := CHIPS.get(driver.device().compute_capability)) is not None:
        known_metrics(tools.ncu, tools.ncu_version, chip)  # asked once for an installation: no part of a capture
    asked = {"metrics_asked_s": time.monotonic() - began}
    document: dict[str, Any] = {"tools": tools.words, "cpus": os.cpu_count(), **asked}
    print(f"{document['tools']}; its metrics were listed in {asked['metrics_asked_s']:.1f} s", flush=True)

    stages: dict[str, Callable[[], dict[str, Any]]] = {
        "notebook": lambda: one_from_a_notebook(arguments.store.resolve()),
        "ten": lambda: {"limit_s": TEN_LIMIT, **run("ten", ten(), arguments.store, keep_report=False)},
        "router": lambda: run(
            "router", router(), arguments.store, group=len(router()), keep_report=False, timeout_s=120
        ),
        "reports": lambda: run("reports", with_reports(), arguments.store),
        "matrix": lambda: run(
            "matrix", matrix(), arguments.store, group=len(matrix()) // 3, keep_report=False, timeout_s=200
        ),
    }
    failed = []
    for name in (name for name in stages if name in chosen):
        try:
            document[name] = stages[name]()
        except Exception as error:  # the other stages may still have something to say
            traceback.print_exc()
            print(getattr(error, "log", ""), flush=True)
            failed.append(name)
        if arguments.write:  # after each, so that a limit of the whole run does not lose what there is
            arguments.write.write_text(json.dumps(document, indent=1))
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
