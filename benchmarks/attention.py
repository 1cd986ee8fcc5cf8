"""Time decode attention and its task map on this GPU, beside a kernel that only reads the same bytes.

    python benchmarks/attention.py [--write FILE.json] [--records STORE]

Each figure is the median over replays of a CUDA graph of at least 24 calls that rotate over input sets larger than the
L2 cache in total; the variants of a case take turns. Errors are relative to float64 on the same operands.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attention_records import CLOCKS_AND_DRIVER, keep

from workbench.gpu.source import Source
from workbench.measure.attention_inputs import AttentionInputs, make_inputs
from workbench.measure.floors import read_bytes
from workbench.measure.timing import Timing, time_interleaved
from workbench.ops.attention_decode import (
    AttentionConfig,
    AttentionShape,
    TaskMap,
    attention_decode,
    attention_reference,
    build_task_map,
    default_config,
    upload_plan,
)
from workbench.records import Store
from workbench.schedule import plan_decode
from workbench.workloads import MIXES, workload

HEAD_DIM = 128
SETS_BYTES = 300_000_000
"""Bytes of K and V in all input sets of a case together: several times the L2 cache."""

SPLITS = (2, 4, 8, 16, 32)


def task_map(inputs: AttentionInputs, lengths: Any, policy: str, config: AttentionConfig) -> TaskMap:
    """A map of one call, built on the GPU where the policy allows."""
    if policy.startswith("fixed"):
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        plan = plan_decode(lengths, num_kv_heads=1, num_ctas=sms * config.ctas_per_sm, policy=policy)
        return upload_plan(plan)
    return build_task_map(
        inputs.seq_lens, num_kv_heads=1, max_seq_len=int(np.max(lengths)), policy=policy, config=config
    )


def calls(
    sets: list[AttentionInputs], lengths: Any, policy: str, config: AttentionConfig
) -> list[Callable[[], object]]:
    """One call an input set, each with its own map and output."""

    def call(inputs: AttentionInputs) -> Callable[[], object]:
        built, out = (
            task_map(inputs, lengths, policy, config),
            torch.empty(inputs.q.shape, dtype=torch.bfloat16, device="cuda"),
        )
        arguments, keywords = inputs.arguments(), inputs.keywords()
        return lambda: attention_decode(*arguments, **keywords, task_map=built, out=out, config=config)

    return [call(inputs) for inputs in sets]


def relative_error(inputs: AttentionInputs, lengths: Any, config: AttentionConfig) -> float:
    """Relative error of one call against float64."""
    built = task_map(inputs, lengths, "balanced", config)
    out = attention_decode(*inputs.arguments(), **inputs.keywords(), task_map=built, config=config)
    reference, _ = attention_reference(*inputs.arguments(), **inputs.keywords())
    assert isinstance(out, torch.Tensor)
    return float((out.double() - reference).norm() / reference.norm())


def attention_rows(cache: str) -> list[dict[str, Any]]:
    """All variants of the six cases with one cache type."""
    rows = []
    shape = AttentionShape(cache=cache, query=cache)
    config = default_config(shape)
    for case in MIXES:
        lengths = workload(case)
        kv_bytes = int(np.sum(lengths)) * 2 * HEAD_DIM * (1 if cache == "fp8" else 2)
        number = max(2, min(24, -(-SETS_BYTES // kv_bytes)))
        sets = [make_inputs(lengths, cache=cache, query=cache, seed=s, poison=False) for s in range(number)]
        early = replace(config, early_map=True)
        variants = {
            ("balanced", early): calls(sets, lengths, "balanced", early),
            ("balanced", config): calls(sets, lengths, "balanced", config),
            ("balanced", replace(config, pdl=False)): calls(sets, lengths, "balanced", replace(config, pdl=False)),
            ("hpc-ops", early): calls(sets, lengths, "hpc-ops", early),
        }
        for n in SPLITS:
            policy = f"fixed_splits({n})"
            variants[policy, early] = calls(sets, lengths, policy, early)
        stored = [torch.randint(0, 255, (kv_bytes,), dtype=torch.uint8, device="cuda") for _ in range(number)]
        floor = [lambda data=data: read_bytes(data) for data in stored]
        timings = time_interleaved({"read": floor, **{str(i): v for i, v in enumerate(variants.values())}})
        error = relative_error(sets[0], lengths, config)
        rows.append(row(case, cache, "read", {}, timings["read"], None))
        for (policy, used), timing in zip(variants, list(timings.values())[1:], strict=True):
            rows.append(row(case, cache, policy, used.to_dict(), timing, error))
        show(rows[-len(timings) :])
    return rows


def row(
    case: str, cache: str, policy: str, config: dict[str, Any], timing: Timing, error: float | None
) -> dict[str, Any]:
    """One result as plain data."""
    low, high = timing.interval_us()
    return {
        "case": case, "cache": cache, "policy": policy, "config": config, "median_us": timing.median_us,
        "low_us": low, "high_us": high, "samples_us": timing.samples_us, "rel_error": error,
    }  # fmt: skip


def show(rows: list[dict[str, Any]]) -> None:
    """Print one case."""
    first = rows[0]
    cells = []
    for r in rows:
        marks = (
            "" if not r["config"] else " early" if r["config"]["early_map"] else "" if r["config"]["pdl"] else " nopdl"
        )
        cells.append(f"{r['policy']}{marks} {r['median_us']:.1f}")
    print(f"{first['cache']} {first['case']}: " + ", ".join(cells), flush=True)


def map_rows() -> list[dict[str, Any]]:
    """Time to build the map."""
    rows = []
    for batch in (64, 2048):
        sets = [torch.full((batch,), 4096, dtype=torch.int32, device="cuda") for _ in range(8)]
        for policy in ("balanced", "hpc-ops"):
            for ctas in (132, 528):

                def build(lengths: torch.Tensor, policy: str = policy, ctas: int = ctas) -> Callable[[], object]:
                    common: dict[str, Any] = {
                        "num_kv_heads": 1,
                        "max_seq_len": 4096,
                        "num_ctas": ctas,
                        "policy": policy,
                    }
                    built = build_task_map(lengths, **common)
                    return lambda: build_task_map(lengths, **common, out=built)

                timing = time_interleaved({"map": [build(lengths) for lengths in sets]})["map"]
                rows.append(row(f"{batch}x4K", "", policy, {"num_ctas": ctas}, timing, None))
                print(f"map {batch}x4K {policy} {ctas} CTAs: {timing.median_us:.2f}", flush=True)
    return rows


def environment() -> dict[str, Any]:
    """What the figures hold for."""
    query = ["nvidia-smi", f"--query-gpu={CLOCKS_AND_DRIVER}", "--format=csv,noheader", "--id=0"]
    said = subprocess.run(query, capture_output=True, text=True, check=True)
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name, "sms": properties.multi_processor_count, "torch": torch.__version__,
        "cuda": torch.version.cuda, CLOCKS_AND_DRIVER: said.stdout.strip(), "date": date.today().isoformat(),
    }  # fmt: skip


def sources() -> dict[str, str]:
    """SHA-256 over the source and the headers of each operator's kernel, as they are now."""
    files = {"attention_decode": "attention_decode/attention.cu", "task_map": "attention_decode/task_map.cu"}
    digests = {operator: json.dumps(Source.file(path).digests(), sort_keys=True) for operator, path in files.items()}
    return {operator: hashlib.sha256(text.encode()).hexdigest() for operator, text in digests.items()}


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write all samples as JSON")
    parser.add_argument("--records", type=Path, metavar="STORE", help="add a record of each figure to a store")
    arguments = parser.parse_args()
    used = sources()  # before the first compilation: an edit during the run would not be what was measured
    rows = [*attention_rows("fp8"), *attention_rows("bf16"), *map_rows()]
    document = {"environment": environment(), "rows": rows}
    if arguments.write:
        arguments.write.write_text(json.dumps(document, indent=1))
    if arguments.records:
        keep(document, Store(arguments.records), used)


if __name__ == "__main__":
    main()
