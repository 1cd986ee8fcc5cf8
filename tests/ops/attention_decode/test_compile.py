"""Kernels compile, with no GPU, in a pairwise cover of the configuration space, and fit the SM as they promise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ops.attention_decode.cases import PRECISIONS
from tests.pairwise import pairwise
from workbench.gpu.ahead import compile_ahead
from workbench.gpu.occupancy import occupancy
from workbench.ops.attention_decode.config import (
    GROUPS,
    HEAD_DIMS,
    PARAMETERS,
    Q_LENS,
    AttentionConfig,
    AttentionShape,
    default_config,
    space,
)
from workbench.ops.attention_decode.cuda import compiled, job


def shape(row: dict[str, Any]) -> AttentionShape:
    return AttentionShape(
        head_dim=row["head_dim"], group=row["group"], q_len=row["q_len"], **PRECISIONS[row["precision"]]
    )


def config(row: dict[str, Any]) -> AttentionConfig:
    return AttentionConfig(**{name: row[name] for name in ("warps", "stages", "ctas_per_sm", "prefetch")})


COVER = [
    (shape(row), config(row), row["timeline"])
    for row in pairwise(
        {
            "precision": tuple(PRECISIONS),
            "head_dim": HEAD_DIMS,
            "group": GROUPS,
            "q_len": Q_LENS,
            "warps": PARAMETERS["warps"],
            "stages": PARAMETERS["stages"],
            "ctas_per_sm": PARAMETERS["ctas_per_sm"],
            "prefetch": PARAMETERS["prefetch"],
            "timeline": (False, True),
        },
        lambda row: config(row).why_invalid(shape(row)) is None,
    )
]


def test_a_pairwise_cover_compiles_and_fits() -> None:
    compile_ahead([job(*each) for each in COVER])
    for kernel_shape, kernel_config, timeline in COVER:
        kernel = compiled(kernel_shape, kernel_config, timeline=timeline)
        resident = occupancy(
            "H200",
            threads=kernel_config.threads,
            registers=kernel.facts.registers,
            shared_bytes=kernel.facts.shared_bytes + kernel_config.shared_bytes(kernel_shape),
        )
        assert resident.ctas_per_sm >= kernel_config.ctas_per_sm, f"{kernel}: {resident}"
        assert not kernel.warnings, f"{kernel}: {kernel.warnings}"


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_the_default_of_a_serving_shape_spills_nothing(precision: str, head_dim: int) -> None:
    usual = AttentionShape(head_dim=head_dim, **PRECISIONS[precision])
    facts = compiled(usual, default_config(usual)).facts
    assert (facts.spill_store_bytes, facts.spill_load_bytes, facts.stack_bytes) == (0, 0, 0)


def test_every_configuration_of_a_space_is_valid_and_none_comes_twice() -> None:
    usual = AttentionShape()
    found = list(space(usual))
    assert default_config(usual) in found
    assert len(set(found)) == len(found)
    assert all(each.why_invalid(usual) is None for each in found)
