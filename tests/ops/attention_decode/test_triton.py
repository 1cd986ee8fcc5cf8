"""The whole path on a CPU: a plan, its device form, the Triton kernels in their interpreter, against float64."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.ops.attention_decode.cases import LIMITS, PRECISIONS, UPLOADED, Case, shuffled
from tests.ops.attention_decode.judge import Reference, judge
from tests.pairwise import pairwise
from workbench.errors import InvalidArgument
from workbench.gpu.driver import probe
from workbench.measure.attention_inputs import AttentionInputs
from workbench.ops.attention_decode import TaskMap, triton, upload_plan
from workbench.ops.attention_decode.config import GROUPS, HEAD_DIMS, PAGE_SIZES, Q_LENS
from workbench.ops.attention_decode.triton import attention_decode_triton
from workbench.schedule import DecodePlan, cost_model, plan_decode

pytestmark = pytest.mark.skipif(not probe().problem, reason="a GPU is here: test_gpu_triton.py runs the kernels on it")

POLICIES = {"balanced": "balanced", "hpc-ops": "hpc-ops", **UPLOADED, "fixed_chunk(64)": "fixed_chunk(64)"}

CASES = [
    Case(**row, lengths=(150, 0, 1, 2, 17, 64), num_ctas=5, seed=seed)
    for seed, row in enumerate(
        pairwise(
            {
                "precision": tuple(PRECISIONS),
                "head_dim": HEAD_DIMS,
                "group": GROUPS,
                "q_len": Q_LENS,
                "page_size": PAGE_SIZES,
                "kv_heads": (1, 2),
                "layout": ("nhd", "hnd", "combined"),
                "policy": tuple(POLICIES),
                "deviation": (0.06, 1.0, 3.0),
            },
            # The interpreter takes seconds for the largest.
            lambda row: row["head_dim"] * row["group"] * row["q_len"] * row["kv_heads"] <= 4096,
        )
    )
]


def uploaded(case: Case) -> TaskMap:
    plan = plan_decode(
        case.lengths, num_kv_heads=case.kv_heads, num_ctas=case.num_ctas or 5, policy=POLICIES[case.policy],
        q_len=case.q_len, min_process_len=64,
    )  # fmt: skip
    return upload_plan(plan, "cpu")


def attend(case: Case, inputs: AttentionInputs, **keywords: object) -> tuple[torch.Tensor, torch.Tensor]:
    out = torch.full(inputs.q.shape, torch.nan, dtype=torch.bfloat16)
    _, lse = attention_decode_triton(
        *inputs.arguments(), **{"task_map": uploaded(case), **inputs.keywords(), **keywords}, out=out, return_lse=True
    )
    return out, lse


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equal_to_float64(case: Case) -> None:
    inputs = case.inputs("cpu")
    out, lse = attend(case, inputs)
    assert not judge(out, lse, Reference.of(inputs), case.q_len, LIMITS[case.precision]).complaints


@pytest.mark.parametrize("ruling", ["first", "middle", "last"])
def test_rows_ruled_by_one_key(ruling: str) -> None:
    case = Case(precision="bf16", head_dim=64, q_len=2, ruling=ruling, policy="fixed_chunk(64)", lengths=(200, 90, 3))
    inputs = case.inputs("cpu")
    assert not judge(*attend(case, inputs), Reference.of(inputs), case.q_len, LIMITS[case.precision]).complaints


def test_a_users_scheduler_runs() -> None:
    lengths = (430, 70, 0, 600)
    case = Case(kv_heads=2, group=2, head_dim=64, lengths=lengths, policy="shuffled")
    inputs = case.inputs("cpu")
    plan = plan_decode(lengths, num_kv_heads=2, num_ctas=9, policy=shuffled, tile=32)
    assert plan.chunk_counts.max() > 1
    out, lse = attend(case, inputs, task_map=upload_plan(plan, "cpu"))
    assert judge(out, lse, Reference.of(inputs), 1, LIMITS["fp8"])


def test_the_pieces_matter() -> None:
    """A map that lacks a piece gives a wrong result, so the comparison above can fail."""
    case = Case(precision="bf16", head_dim=64, policy="fixed_chunk(64)", lengths=(200,))
    inputs = case.inputs("cpu")
    broken = uploaded(case)
    broken.map[0, 3] -= 16  # tokens of the first piece
    out, lse = attend(case, inputs, task_map=broken)
    assert "relative error" in str(judge(out, lse, Reference.of(inputs), 1, LIMITS["bf16"]).complaints)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("lengths", [(), (0,), (0, 0, 0)], ids=str)
def test_batches_without_a_token(policy: str, lengths: tuple[int, ...]) -> None:
    """A static grid of them has no CTA, and the zeros have to be written all the same."""
    case = Case(head_dim=64, group=2, kv_heads=2, lengths=lengths, policy=policy)
    inputs = case.inputs("cpu")
    out, lse = attend(case, inputs)
    assert not judge(out, lse, Reference.of(inputs), 1, LIMITS["fp8"]).complaints


def test_a_map_is_planned_where_none_is_given() -> None:
    case = Case(head_dim=64, group=2, lengths=(100, 0, 40))
    inputs = case.inputs("cpu")
    out, lse = attend(case, inputs, task_map=None)
    assert judge(out, lse, Reference.of(inputs), 1, LIMITS["fp8"])


@pytest.mark.parametrize("precision", ["fp8", "bf16"])
def test_the_map_made_here_is_by_the_costs_of_its_own_cache(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(precision=precision, head_dim=128, group=4, kv_heads=2, lengths=(600, 60))
    made: list[DecodePlan] = []
    monkeypatch.setattr(triton, "upload_plan", lambda plan, device: made.append(plan) or upload_plan(plan, device))
    inputs = case.inputs("cpu")
    assert judge(*attend(case, inputs, task_map=None), Reference.of(inputs), 1, LIMITS[precision])
    plans = {
        cache: plan_decode(
            case.lengths, num_kv_heads=2, num_ctas=triton.INTERPRETED_CTAS, cost=cost_model(cache=cache, group=4)
        ).as_lists()
        for cache in ("fp8", "bf16")
    }
    assert plans["fp8"] != plans["bf16"]  # else this batch would show nothing
    assert [plan.as_lists() for plan in made] == [plans[precision]]


def test_a_map_of_another_call_is_refused() -> None:
    case = Case(head_dim=64, group=2, lengths=(100, 0, 40))
    inputs = case.inputs("cpu")
    for other in (replace(case, q_len=2), replace(case, kv_heads=2), replace(case, lengths=(100, 0))):
        with pytest.raises(InvalidArgument, match="task_map was made for"):
            attend(case, inputs, task_map=uploaded(other))
    with pytest.raises(InvalidArgument, match=r"task_map allows 999 tokens.*192 tokens"):
        attend(case, inputs, task_map=uploaded(replace(case, lengths=(999, 0, 0))))


@pytest.mark.parametrize("with_map", [False, True])
def test_a_compiled_function_may_call_it(with_map: bool) -> None:
    case = Case(head_dim=64, group=2, lengths=(100, 0, 40))
    inputs = case.inputs("cpu")
    task_map = uploaded(case) if with_map else None

    def step() -> torch.Tensor:
        out = attention_decode_triton(*inputs.arguments(), **inputs.keywords(), task_map=task_map)
        assert isinstance(out, torch.Tensor)
        return out * 2

    torch._dynamo.reset()
    assert torch.equal(torch.compile(step, backend="eager")(), step())


def test_on_a_cpu_the_pages_and_the_maps_lengths_are_looked_at() -> None:
    """A page that is not there would be read all the same, and end the process."""
    case = Case(head_dim=64, group=2, lengths=(100, 0, 40))
    inputs = case.inputs("cpu")
    with pytest.raises(InvalidArgument, match=r"task_map was made for request 2 of length 41, and seq_lens says 40"):
        attend(case, inputs, task_map=uploaded(replace(case, lengths=(100, 0, 41))))
    inputs.block_table[2, 0] = 1_000_000
    with pytest.raises(InvalidArgument, match=r"block_table names page 1000000 for page 0 of request 2"):
        attend(case, inputs)


SCRIPT = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import triton.language as tl
from workbench.ops.attention_decode import triton_kernels

ELEMENTS = {"bf16": "*bf16", "fp8": "*fp8e4nv", "bits": "*u8"}

def compile_for(capability, cache, query, per_token, head_dim, group, q_len):
    names = triton_kernels.attend.arg_names
    constants = {
        "HEAD_DIM": head_dim, "GROUP": group, "Q_LEN": q_len, "PAGE": 64, "BLOCK": 64, "INTERPRETED": False,
        "ROWS": max(16, 1 << (group * q_len - 1).bit_length()),
        "Q_BITS": query == "bits", "CACHE_BITS": cache == "bits",
        "K_TYPE": tl.bfloat16 if query == "bf16" else tl.float16,
        "V_TYPE": tl.bfloat16 if cache == "bf16" else tl.float16,
        "K_SCALE_PER_TOKEN": per_token, "V_SCALE_PER_HEAD": per_token,
    }
    signature = {name: "i64" for name in names if name.islower()} | {name: "constexpr" for name in constants}
    signature |= dict.fromkeys(("table", "map", "header", "empties"), "*i32") | {"kv_heads": "i32", "scale": "fp32"}
    signature |= dict.fromkeys(("lse", "partial_out", "partial_sum", "q_scale", "k_scale", "v_scale"), "*fp32")
    signature |= {"q": ELEMENTS[query], "k": ELEMENTS[cache], "v": ELEMENTS[cache], "out": "*bf16"}
    signature = {name: signature[name] for name in names}
    source = ASTSource(triton_kernels.attend, signature, constexprs=constants)
    options = {"num_warps": 4, "num_stages": 2}
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    assert compiled.asm["cubin"] and compiled.metadata.shared < 100 * 1024, compiled.metadata.shared

compile_for(90, "fp8", "fp8", False, 128, 8, 1)
compile_for(90, "fp8", "bf16", True, 256, 16, 4)
compile_for(90, "bf16", "bf16", False, 64, 1, 3)
compile_for(80, "bits", "bits", True, 128, 8, 2)
compile_for(80, "bits", "bf16", False, 128, 4, 1)
print("compiled")
"""


def test_compiles_for_gpus_with_and_without_e4m3(tmp_path: Path) -> None:
    script = tmp_path / "compile.py"  # Triton reads the source of what it compiles, so no `python -c`
    script.write_text(SCRIPT)
    root = Path(__file__).resolve().parents[3]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "compiled"
