"""tools/compile_all.py: what it counts as a kernel, what it writes, and how it ends."""

from __future__ import annotations

import csv
import dataclasses
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.ops.attention_decode.cases import PRECISIONS
from workbench.gpu.ahead import Job
from workbench.gpu.compile import CompiledKernel, compiler_version
from workbench.gpu.source import Source
from workbench.measure.environment import source_digests
from workbench.ops.attention_decode import AttentionConfig, AttentionShape
from workbench.ops.attention_decode import cuda as attention
from workbench.ops.router_gemm import RouterConfig
from workbench.ops.router_gemm import cuda as router
from workbench.ops.router_gemm.config import TERMS, space

PATH = Path(__file__).resolve().parents[2] / "tools" / "compile_all.py"
NEEDS = ("registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes", "code_bytes")


@pytest.fixture(scope="module")
def tool() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("compile_all", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compile_all"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["compile_all"]


def compiled_directly(row: dict[str, str]) -> CompiledKernel:
    """The kernel of a row of the CSV, from the row's words alone."""

    def numbers(*names: str) -> dict[str, Any]:
        return {name: int(row[name]) for name in names}

    if row["operator"] == "router_gemm":
        config = RouterConfig(**numbers("tile_m", "tile_n", "stages", "split_k", "multicast", "promote"))
        out = {"fp32": torch.float32, "bf16": torch.bfloat16}[row["out_dtype"]]
        return router.compiled(config, int(row["terms"]), out)
    shape = AttentionShape(**numbers("head_dim", "group", "q_len"), **PRECISIONS[row["precision"]])
    return attention.compiled(shape, AttentionConfig(**numbers("warps", "stages", "ctas_per_sm", "prefetch")))


def test_a_part_of_both_is_what_compiling_it_directly_says(tmp_path: Path) -> None:
    """As a program of its own, with processes of its own."""
    rows_path, summary_path = tmp_path / "kernels.csv", tmp_path / "summary.json"
    words = ["all", "--head-dim", "256", "--group", "8", "--q-len", "1", "--out-dtype", "fp32", "bf16"]
    more = ["--sample", "3", "--workers", "2", "--csv", str(rows_path), "--json", str(summary_path)]
    done = subprocess.run([sys.executable, PATH, *words, *more], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    rows = list(csv.DictReader(rows_path.read_text(encoding="utf-8").splitlines()))
    assert [row["operator"] for row in rows] == ["attention_decode"] * 3 + ["router_gemm"] * 3
    for row in rows:
        facts = compiled_directly(row).facts
        assert {name: int(row[name]) for name in NEEDS} == {name: getattr(facts, name) for name in NEEDS}

    summary = json.loads(summary_path.read_text(encoding="utf-8"))
    assert (summary["nvrtc"], summary["arch"]) == (compiler_version(), "sm_90a")
    for said in summary["operators"]:
        own = [row for row in rows if row["operator"] == said["operator"]]
        spilling = [row for row in own if int(row["spill_store_bytes"]) + int(row["spill_load_bytes"])]
        assert said["source_digest"] == source_digests()[said["operator"], "cuda"]
        assert (said["asked"], said["compiled"], said["failed"]) == (3, 3, [])
        assert [{name: str(value) for name, value in each.items()} for each in said["spilling"]] == [
            {name: row[name] for name in each} for each, row in zip(said["spilling"], spilling, strict=True)
        ]
        groups = said["groups"].values()
        assert sum(group["kernels"] for group in groups) == 3
        for name in ("registers", "code_bytes"):
            values = [int(row[name]) for row in own]
            assert min(group[name][0] for group in groups) == min(values)
            assert max(group[name][1] for group in groups) == max(values)


def test_spills_and_stack_are_counted(tool: ModuleType) -> None:
    facts = router.compiled(RouterConfig(tile_m=8, tile_n=16)).facts

    def kernel(**changes: Any) -> Any:
        return tool.Compiled("", {}, dataclasses.replace(facts, **changes), 0.0)

    told = kernel(stack_bytes=8, spill_store_bytes=4, spill_load_bytes=12)
    untold = kernel(stack_bytes=40, spill_store_bytes=None, spill_load_bytes=None)
    arrays = kernel(stack_bytes=64, registers=255)
    summary = tool.summarise([kernel(), told, untold, arrays])
    assert [each.spill_bytes for each in (told, untold, arrays)] == [16, 40, 0]
    assert (summary["with_spills"], summary["most_spill_bytes"]) == (2, 40)
    assert (summary["with_stack"], summary["most_stack_bytes"]) == (3, 64)
    assert summary["registers"] == [facts.registers, 255]


@pytest.mark.parametrize("terms", TERMS)
def test_each_kernel_of_the_routers_space_comes_once(tool: ModuleType, terms: int) -> None:
    """One for each configuration that differs in more than the launch."""
    arguments = tool.parse(["router", "--terms", str(terms)])
    assert arguments.out_dtype == ["fp32"]
    wanted = list(tool.router_kernels(arguments))
    defines = {tuple(sorted(each.job.defines.items())) for each in wanted}
    launched_alike = [config for config in space(terms) if config.pdl]
    assert len(wanted) == len(defines) == len(launched_alike)
    assert defines == {tuple(sorted(router.job(config, terms).defines.items())) for config in launched_alike}


def test_what_does_not_compile_is_named_and_the_rest_is_kept(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def kernels(_arguments: object) -> Iterator[Any]:
        good = router.job(RouterConfig(tile_m=8, tile_n=16))
        bad = Job(source=Source.inline('extern "C" __global__ void f() { nothing(); }'), entry="f")
        yield tool.Wanted("a", {"tile_m": 8}, good)
        yield tool.Wanted("a", {"tile_m": 9}, bad)

    monkeypatch.setitem(tool.OPERATORS, "router", ("router_gemm", lambda _parser: None, kernels))
    path = tmp_path / "summary.json"
    assert tool.main(["router", "--workers", "1", "--json", str(path)]) == 1
    (said,) = json.loads(path.read_text())["operators"]
    assert (said["asked"], said["compiled"]) == (2, 1)
    (failed,) = said["failed"]
    assert failed["tile_m"] == 9
    assert 'identifier "nothing" is undefined' in failed["log"]
    printed = capsys.readouterr().out
    assert "router_gemm does not compile with {'tile_m': 9}" in printed
    assert "nothing" in printed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "{attention,router,all}"),
        (["moe"], "invalid choice: 'moe'"),
        (["router", "--head-dim", "128"], "unrecognized arguments: --head-dim 128"),
        (["router", "--out-dtype", "fp8"], "invalid choice: 'fp8'"),
        (["attention", "--precision", "int8"], "invalid choice: 'int8'"),
        (["all", "--sample", "0"], "'0' is no count"),
        (["all", "--workers", "two"], "'two' is no count"),
        (["router", "--terms", "5"], "the weight has 5 terms; the kernel takes 2 or 3"),
        (["attention", "--head-dim", "100"], "head_dim is 100; decode attention takes 64, 128, 256"),
        (["all", "--json", "no_such_folder/summary.json"], "there is no folder"),
    ],
)
def test_what_cannot_be_asked_for_is_named(
    tool: ModuleType, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = tool.main(words)
    except SystemExit as end:
        status = end.code
    assert status == 2
    assert told in capsys.readouterr().err
