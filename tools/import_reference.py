"""Write the records of kind ``reference``: figures of other implementations, measured outside this project.

    WORKBENCH_REFERENCE_DATA=folder python tools/import_reference.py [STORE]

The folder holds ``reference/h200-2026-11-29.jsonl`` and ``reference/NOTES.md``, which says how they were measured. The
store is ``profiles/`` unless another is named; records that are there already stay as they are.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

from workbench import paths, settings
from workbench.records import Environment, Provenance, ReferenceRecord, Store, Workload

FILE = "h200-2026-11-29.jsonl"
ENVIRONMENT = Environment(
    gpu="NVIDIA H200", date=datetime.date(2026, 11, 29), sms=132, driver="580", cuda="13.0", torch="2.11"
)
METHOD = "CUDA graph of at least 24 calls that rotate over input sets larger than L2, replayed 15 times; median"
HPC_OPS, CUBLAS = "HPC-Ops 6e2eced", "cuBLAS through torch 2.11"
SOFTWARE = {
    "hpc": HPC_OPS,
    "hpc-assign": HPC_OPS,
    "hpc-dynamic": HPC_OPS,
    "hpc-static": HPC_OPS,
    "cublas-fp32": CUBLAS,
    "cublas-tf32": CUBLAS,
    "cublas-bf16": CUBLAS,
    "flashinfer": "FlashInfer 0.6.13",
    "fa3": "FlashAttention-3 (fa3-fwd 0.0.3), contiguous cache",
    "sglang-triton-noalign": "SGLang 0.5.23 Triton MoE, best of nine tile configurations, token alignment left out",
}
MIN_PROCESS_LEN = 512
"""Work floor of HPC-Ops' task map, tokens; the providers that use the map."""
WITH_MAP = ("hpc-assign", "hpc-dynamic")

ATTENTION_SHAPE = {"num_q_heads": 8, "num_kv_heads": 1, "head_dim": 128, "page_size": 64, "q_len": 1}
MOE_SHAPES = {
    "hy3-tp8": {"num_experts": 192, "local_experts": 192, "top_k": 8, "hidden": 4096, "intermediate": 192},
    "hy3-ep8": {"num_experts": 192, "local_experts": 24, "top_k": 8, "hidden": 4096, "intermediate": 1536},
}
MOE_PARALLEL = {"hy3-tp8": (8, 1), "hy3-ep8": (1, 8)}


def attention(row: dict[str, Any]) -> tuple[str, Workload]:
    """Operator and work of a row of decode attention or of its task map."""
    operator = "task_map" if row["provider"] == "hpc-assign" else "attention_decode"
    return operator, Workload(case=row["case"], dtype=row["dtype"], parameters=ATTENTION_SHAPE)


def router(row: dict[str, Any]) -> tuple[str, Workload]:
    """Operator and work of a row of the router GEMM."""
    m, n, k = row["m"], row["n"], row["k"]
    return "router_gemm", Workload(
        case=f"M{m}-K{k}-N{n}", dtype="bf16", m=m, n=n, k=k, parameters={"shape": row["shape"]}
    )


def moe(row: dict[str, Any]) -> tuple[str, Workload]:
    """Operator and work of a row of the fused MoE."""
    name, tokens = row["model"], row["m"]
    tp, ep = MOE_PARALLEL[name]
    given = {"experts": "local_experts", "topk": "top_k", "hidden": "hidden", "inter": "intermediate"}
    shape = MOE_SHAPES[name]
    if wrong := {ours: row[theirs] for theirs, ours in given.items() if row.get(theirs, shape[ours]) != shape[ours]}:
        raise ValueError(f"{name}: the file says {wrong}, this script {shape}")
    return "fused_moe", Workload(
        case=f"{name}-T{tokens}", dtype="fp8", model="hy3", tp=tp, ep=ep, tokens=tokens, parameters=dict(shape)
    )


OPERATORS = {"attn": attention, "router": router, "moe": moe}


def record_of(row: dict[str, Any]) -> ReferenceRecord:
    """One line of the file as a record."""
    operator, workload = OPERATORS[row["op"]](row)
    provider = row["provider"]
    return ReferenceRecord(
        operator=operator,
        provider=provider,
        configuration={"min_process_len": MIN_PROCESS_LEN} if provider in WITH_MAP else {},
        environment=ENVIRONMENT,
        workload=workload,
        method=METHOD,
        provenance=Provenance(measured_by="outside this project", source=FILE, software=SOFTWARE[provider]),
        median_us=row["us"],
        min_us=row.get("min"),
        rel_error=row.get("err"),
        max_abs_error=row.get("maxabs"),
    )


def main() -> None:
    source = settings.reference_data() / "reference" / FILE
    if not source.is_file():
        raise SystemExit(f"There is no {source}. Set WORKBENCH_REFERENCE_DATA to the folder that holds reference/.")
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else paths.checkout_root()
    if target is None:
        raise SystemExit("Run this in a checkout, or name a store.")
    store = Store(target if len(sys.argv) > 1 else target / "profiles")
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    files = {store.add(record_of(row)) for row in rows}
    print(f"{len(rows)} figures, {len(files)} records in {store}")


if __name__ == "__main__":
    main()
