"""The summary of every kernel of the space is of today's space and source, and no default is among what spills."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from workbench.gpu.ahead import compile_ahead
from workbench.measure.environment import source_digests
from workbench.measure.router_case import SHAPES, TOKENS
from workbench.ops.router_gemm import RouterConfig, cuda
from workbench.ops.router_gemm.config import TERMS, space
from workbench.ops.router_gemm.cost import cheapest
from workbench.ops.router_gemm.tuned import shipped

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "performance" / "router.md"
(WHOLE,) = json.loads(PAGE.with_name("router_kernels.json").read_text(encoding="utf-8"))["operators"]
(SAMPLE,) = json.loads(PAGE.with_name("router_kernels_bf16.json").read_text(encoding="utf-8"))["operators"]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def kernels() -> list[tuple[RouterConfig, int]]:
    """One for each configuration that differs in more than the launch."""
    return [(config, terms) for terms in TERMS for config in space(terms) if config.pdl]


def listed(summary: dict[str, Any]) -> dict[tuple[RouterConfig, int], dict[str, Any]]:
    """What the summary says of each kernel that spills."""
    names = ("tile_m", "tile_n", "stages", "split_k", "multicast", "promote")
    return {(RouterConfig(**{name: each[name] for name in names}), each["terms"]): each for each in summary["spilling"]}


def test_all_kernels_of_the_space_and_source_of_today_compiled() -> None:
    assert WHOLE["asked"] == WHOLE["compiled"] == len(kernels())
    assert WHOLE["failed"] == SAMPLE["failed"] == []
    assert (SAMPLE["asked"], SAMPLE["compiled"]) == (300, 300)
    digest = source_digests()["router_gemm", "cuda"]
    assert WHOLE["source_digest"] == SAMPLE["source_digest"] == digest


def test_what_spills_is_what_the_page_says() -> None:
    """Tiles of 128 x 128 with two terms whose K is cut into parts that are no power of two; 16 bytes at most."""
    spilling = listed(WHOLE)
    assert spilling
    assert set(spilling) == {
        (config, terms)
        for config, terms in kernels()
        if (terms, config.tile_m, config.tile_n) == (2, 128, 128) and config.split_k & (config.split_k - 1)
    }
    assert set(listed(SAMPLE)) <= set(spilling)
    worst = max(each["spill_store_bytes"] + each["spill_load_bytes"] for each in spilling.values())
    assert worst == 16
    page = PAGE.read_text(encoding="utf-8")
    assert f"{WHOLE['compiled']:,} kernels" in page
    assert f"{len(spilling)} kernels spill" in page


def test_nothing_that_spills_runs_by_default() -> None:
    defaults = {(row.config, shipped().terms) for rows in shipped().shapes.values() for row in rows}
    shapes = [*SHAPES.values(), (2880, 128), (5120, 160), (7168, 1024)]
    for (k, n), m, terms in itertools.product(shapes, TOKENS, TERMS):
        defaults.add((cheapest(m, n, k, terms, 132), terms))
    assert not {(replace(config, pdl=True), terms) for config, terms in defaults} & set(listed(WHOLE))


@pytest.mark.parametrize("out", DTYPES)
def test_kernels_need_what_the_summary_says(out: str) -> None:
    """A sample: of those that spill, and of those that do not."""
    spilling = listed(WHOLE)
    draw = random.Random(out)
    sample = draw.sample(list(spilling), 2) + draw.sample([each for each in kernels() if each not in spilling], 6)
    compile_ahead([cuda.job(config, terms, DTYPES[out]) for config, terms in sample])
    for config, terms in sample:
        facts = cuda.compiled(config, terms, DTYPES[out]).facts
        said = spilling.get((config, terms)) if out == "fp32" else None
        assert facts.max_threads == config.threads
        group = WHOLE["groups"][f"{terms} terms, fp32 out"]
        assert facts.stack_bytes <= group["most_stack_bytes"]
        if out == "fp32":
            expected = (said or {}).get("spill_store_bytes", 0), (said or {}).get("spill_load_bytes", 0)
            assert (facts.spill_store_bytes, facts.spill_load_bytes) == expected, config
            assert group["registers"][0] <= facts.registers <= group["registers"][1]
            assert group["code_bytes"][0] <= facts.code_bytes <= group["code_bytes"][1]
