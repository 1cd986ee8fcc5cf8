"""Which configuration runs by default: the measured one, its neighbour's, or the model's."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from workbench.errors import InvalidArgument
from workbench.ops.router_gemm import RouterConfig, default_config
from workbench.ops.router_gemm.config import PARAMETERS, SHARED_LIMIT
from workbench.ops.router_gemm.cost import (
    CONSTANTS,
    HALF_SHARED,
    candidates,
    cheapest,
    clusters_at_once,
    ctas_per_sm,
    estimated_us,
)
from workbench.ops.router_gemm.tuned import PATH, Row, TunedTable, shipped

SMALL = RouterConfig(tile_m=16, tile_n=32, stages=4, split_k=8)
MIDDLE = RouterConfig(tile_m=64, tile_n=48, stages=4, split_k=4)
LARGE = RouterConfig(tile_m=128, tile_n=96, stages=4)
TABLE = TunedTable(
    "NVIDIA H200",
    "2026-11-30",
    132,
    2,
    "0" * 64,
    {(4096, 192): (Row(16, 3.0, SMALL), Row(64, 4.0, MIDDLE), Row(512, 9.0, LARGE))},
)


@pytest.mark.parametrize(
    ("m", "config"),
    [
        (1, SMALL),  # below the smallest
        (16, SMALL),
        (17, MIDDLE),  # two tiles of 16 tokens where one was measured
        (64, MIDDLE),
        (65, LARGE),
        (512, LARGE),
        (100_000, LARGE),
    ],
)
def test_a_row_or_its_neighbour_is_picked(m: int, config: RouterConfig) -> None:
    assert TABLE.pick(m, 192, 4096) == config


def test_the_smaller_neighbour_serves_while_its_tiles_do() -> None:
    """96 tokens measured with tiles of 64 are two of them up to 128."""
    table = replace(TABLE, shapes={(4096, 192): (Row(96, 4.0, MIDDLE), Row(512, 9.0, LARGE))})
    assert [table.pick(m, 192, 4096) for m in (97, 128, 129)] == [MIDDLE, MIDDLE, LARGE]


def test_a_shape_that_was_not_measured_has_no_row() -> None:
    assert TABLE.pick(16, 200, 4096) is None


def test_a_table_survives_its_json() -> None:
    assert TunedTable.from_json(TABLE.to_json()) == TABLE
    assert TunedTable.from_json(PATH.read_text()).to_json() == PATH.read_text()


def test_the_shipped_table_holds_what_can_run() -> None:
    table = shipped()
    assert (table.gpu, table.sms, table.terms) == ("NVIDIA H200", 132, 2)
    assert len(table.source_digest) == 64
    for (k, n), rows in table.shapes.items():
        assert [row.m for row in rows] == sorted({row.m for row in rows})
        for row in rows:
            assert row.config.why_invalid(2) is None
            assert row.config.split_k <= -(-k // 64)
            assert row.median_us > 0
            assert default_config(row.m, n, k) == row.config


@pytest.mark.parametrize(("terms", "sms"), [(3, 132), (2, 78)])
def test_other_terms_and_other_gpus_go_by_the_model(terms: int, sms: int) -> None:
    assert default_config(64, 192, 4096, terms, sms) == cheapest(64, 192, 4096, terms, sms)


@pytest.mark.parametrize("terms", [2, 3])
@pytest.mark.parametrize(("n", "k"), [(8, 8), (1000, 64), (256, 7168), (104, 4104)])
def test_every_product_has_a_default_that_can_run(n: int, k: int, terms: int) -> None:
    for m in (0, 1, 7, 9, 65, 1000, 100_000):
        config = default_config(m, n, k, terms)
        assert config.why_invalid(terms) is None
        assert config.split_k <= max(1, -(-k // 64))


def test_numbers_of_tokens_that_fill_the_same_tiles_share_a_default() -> None:
    assert len({default_config(m, 200, 4000) for m in range(65, 129)}) == 1


def test_candidates_are_valid_and_use_the_memory_of_an_sm_or_of_half_of_one() -> None:
    for m, k, terms in itertools.product((1, 40, 300), (64, 4096), (2, 3)):
        found = list(candidates(m, k, terms))
        assert len(set(found)) == len(found)
        for config in found:
            assert config.why_invalid(terms) is None
            assert config.tile_m >= m or config.tile_m in (64, 128)
            assert config.multicast == 1 or m > config.tile_m
            stage = RouterConfig(**{**config.to_dict(), "stages": config.stages + 1}).shared_bytes(terms)
            blocks = max(2, -(-k // (64 * config.split_k)))
            assert config.stages == min(12, blocks) or stage > HALF_SHARED
            assert config.shared_bytes(terms) <= SHARED_LIMIT


def test_two_ctas_fit_an_sm_where_half_its_memory_does() -> None:
    assert ctas_per_sm(RouterConfig(tile_m=64, tile_n=48, stages=5), 2) == 2
    assert ctas_per_sm(RouterConfig(tile_m=64, tile_n=48, stages=10), 2) == 1
    assert ctas_per_sm(RouterConfig(tile_m=128, tile_n=16, stages=2), 2) == 1  # registers


@pytest.mark.parametrize(
    "product", [(-1, 192, 4096), (1, 0, 4096), (1, 192, 0), (1, 192, 4096, 4), (1, 192, 4096, 2, 0)]
)
def test_what_is_no_product_has_no_default(product: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgument, match=r"give m from 0|terms is 4"):
        default_config(*product)


TOLD = {
    1: {2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15, 10: 7, 12: 7, 14: 7, 16: 7},
    2: {2: 132, 3: 79, 4: 62, 5: 47, 6: 39, 7: 32, 8: 30, 10: 21, 12: 16, 14: 14, 16: 14},
}
"""Clusters that the driver of an H200 says run at once, by CTAs an SM and CTAs of a cluster (2026-11-30)."""


@pytest.mark.parametrize("slots", TOLD)
def test_clusters_at_once_are_those_of_the_driver(slots: int) -> None:
    assert {cluster: clusters_at_once(cluster, slots, 132) for cluster in TOLD[slots]} == TOLD[slots]


@pytest.mark.parametrize("cluster", PARAMETERS["split_k"])
def test_clusters_lie_within_a_gpc(cluster: int) -> None:
    """On any GPU, no more than its SMs allow; and twice the room holds at least twice as many."""
    for sms in (132, 114, 78):
        once, twice = (clusters_at_once(cluster, slots, sms) for slots in (1, 2))
        assert 1 <= once <= max(1, sms // cluster)
        assert twice >= 2 * once or once == 1


def test_the_model_prefers_what_the_hardware_does() -> None:
    def cost(m: int = 2048, **values: int) -> float:
        config = RouterConfig(**{"tile_m": 128, "tile_n": 96, "stages": 4, **values})
        return estimated_us(config, m, 768, 6144, 2, 132, CONSTANTS)

    assert cost(stages=5) < cost(stages=2)  # a ring of two starves
    assert cost(m=4096) > cost(m=2048)
    assert cost(m=256, split_k=7) < cost(m=256, split_k=1)  # 16 tiles leave most SMs idle
    assert cost(m=256, split_k=6) < cost(m=256, split_k=7)  # 16 clusters of 7 do not run at once
