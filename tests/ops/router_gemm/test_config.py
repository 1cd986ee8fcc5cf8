"""Configurations: what is refused, in which words, and what the valid ones need."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.pairwise import pairwise
from workbench.errors import InvalidArgument
from workbench.gpu.ahead import compile_ahead
from workbench.ops.router_gemm import RouterConfig, cuda
from workbench.ops.router_gemm.config import COLUMNS, PARAMETERS, SHARED_LIMIT, TERMS, most_stages, space
from workbench.ops.router_gemm.cost import PROMOTE, candidates
from workbench.ops.router_gemm.tuned import shipped

GOOD = RouterConfig(tile_m=64, tile_n=48, stages=4, split_k=2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tile_m": 24}, "tile_m is 24; the kernel takes 8, 16, 32, 64, 128"),
        ({"tile_n": 40}, "tile_n is 40"),
        ({"split_k": 9}, "split_k is 9"),
        ({"multicast": 4}, "multicast is 4"),
        ({"stages": 1}, "stages is 1; the kernel takes 2 to 32"),
        ({"promote": 96}, "promote is 96; give a multiple of 64"),
        ({"promote": 0}, "promote is 0"),
        ({"split_k": 16, "multicast": 2}, "a cluster of 32; at most 16"),
        ({"tile_n": 24, "multicast": 2}, "24 experts do not divide into 2 shares"),
        ({"stages": 32}, "shared memory 668,176 > 232,448 bytes"),
        ({"stages": 2.5}, "stages is 2.5; give a whole number"),
        ({"promote": None}, "promote is None; give a whole number"),
        ({"split_k": True}, "split_k is True; give a whole number"),
        ({"pdl": 1}, "pdl is 1; give True or False"),
    ],
)
def test_what_cannot_run_is_refused_in_words(change: dict[str, object], words: str) -> None:
    config = replace(GOOD, **change)
    assert words in (config.why_invalid(2) or "")
    with pytest.raises(InvalidArgument, match="cannot run a router weight"):
        config.check(2)


@pytest.mark.parametrize(("terms", "tile_n"), [(3, 128), (3, 96), (4, 48), (1, 48)])
def test_terms_that_a_wgmma_does_not_hold_are_refused(terms: int, tile_n: int) -> None:
    assert replace(GOOD, tile_n=tile_n).why_invalid(terms)


def test_a_valid_configuration_is_returned() -> None:
    assert GOOD.check(2) is GOOD


@pytest.mark.parametrize("terms", [2, 3])
def test_the_space_is_valid_and_holds_every_width(terms: int) -> None:
    found = list(space(terms))
    assert {terms * config.tile_n for config in found} <= set(COLUMNS)
    assert {config.tile_m for config in found} == set(PARAMETERS["tile_m"])
    assert {config.split_k for config in found} == set(PARAMETERS["split_k"])
    assert max(config.shared_bytes(terms) for config in found) <= SHARED_LIMIT
    assert max(config.cluster for config in found) <= 16


@pytest.mark.parametrize("terms", [0, 1, 4])
def test_a_weight_that_the_kernel_does_not_take_has_no_space(terms: int) -> None:
    with pytest.raises(InvalidArgument, match=f"has {terms} terms"):
        next(space(terms))


def test_what_is_promoted_by_default_is_what_is_searched() -> None:
    assert set(PROMOTE.values()) == set(PARAMETERS["promote"])
    assert set(PROMOTE) == set(TERMS)


def test_every_tuned_default_lies_in_the_space() -> None:
    listed = set(space(shipped().terms))
    assert {row.config for rows in shipped().shapes.values() for row in rows} <= listed


@pytest.mark.parametrize("terms", TERMS)
def test_whatever_the_cost_model_can_propose_lies_in_the_space(terms: int) -> None:
    """It ranks the same for every N; tokens matter by the tile that holds them, K by its blocks of 64."""
    listed = set(space(terms))
    for m, blocks in itertools.product((1, 9, 17, 33, 64, 65, 129, 100_000), (*range(1, 18), 33, 64, 112, 500)):
        assert set(candidates(m, blocks * 64, terms)) <= listed, (m, blocks)


def test_as_many_stages_as_fit() -> None:
    for tile_m, tile_n, split_k in ((8, 64, 8), (64, 96, 1), (128, 128, 3)):
        draft = RouterConfig(tile_m=tile_m, tile_n=tile_n, split_k=split_k)
        stages = most_stages(draft, 2)
        assert replace(draft, stages=stages).why_invalid(2) is None
        assert stages == 12 or replace(draft, stages=stages + 1).why_invalid(2)


def test_tiles_are_counted_by_clusters_of_neighbours() -> None:
    assert GOOD.tiles(65, 49) == 4
    assert replace(GOOD, multicast=2).tiles(65, 48) == 1
    assert GOOD.tiles(0, 48) == 0


def test_a_grid_is_a_cluster_a_tile_or_goes_round_the_sms() -> None:
    assert cuda.grid(GOOD, 65, 49, 132) == 8
    assert cuda.grid(replace(GOOD, split_k=1), 100_000, 48, 132) == 132
    assert cuda.grid(replace(GOOD, split_k=1, multicast=2), 100_000, 48, 133) == 132


COMPILED = ("tile_m", "tile_n", "stages", "split_k", "multicast", "promote")
"""Parameters that a kernel is compiled for; the others only say how it is launched."""


def configured(row: dict[str, Any]) -> RouterConfig:
    return RouterConfig(**{name: row[name] for name in COMPILED})


COVER = [
    (configured(row), row["terms"], row["out_dtype"])
    for row in pairwise(
        {
            **{name: PARAMETERS[name] for name in COMPILED},
            "terms": tuple(TERMS),
            "out_dtype": (torch.float32, torch.bfloat16),
        },
        lambda row: configured(row).why_invalid(row["terms"]) is None,
    )
]


def test_a_pairwise_cover_compiles() -> None:
    compile_ahead([cuda.job(*each) for each in COVER])
    for config, terms, out_dtype in COVER:
        facts = cuda.compiled(config, terms, out_dtype).facts
        assert facts.max_threads == config.threads
        # A 128 x 128 tile may put a counter or two on the stack; the sums never.
        assert facts.stack_bytes <= 8, config


def test_every_tuned_default_compiles_without_spills() -> None:
    table = shipped()
    configs = sorted({row.config for rows in table.shapes.values() for row in rows}, key=repr)
    compile_ahead([cuda.job(config, table.terms) for config in configs])
    for config in configs:
        facts = cuda.compiled(config, table.terms).facts
        assert facts.spill_store_bytes == facts.spill_load_bytes == facts.stack_bytes == 0, config
