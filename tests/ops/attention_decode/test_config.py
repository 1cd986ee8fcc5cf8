"""Configurations and shapes of decode attention: what is refused, and how."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.errors import InvalidArgument
from workbench.ops.attention_decode import AttentionConfig, AttentionShape, default_config

SHAPE = AttentionShape()


@pytest.mark.parametrize(
    "changes",
    [
        {"stages": "x"}, {"stages": 2.5}, {"stages": 1}, {"stages": 99}, {"ctas_per_sm": None}, {"ctas_per_sm": 0},
        {"warps": True}, {"warps": 5}, {"pdl": "x"}, {"early_map": 1}, {"prefetch": -1}, {"prefetch": 33}, {"tile": 48},
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(changes: dict[str, Any]) -> None:
    (name,) = changes
    config = AttentionConfig(**{"stages": 3, **changes})
    reason = config.why_invalid(SHAPE)
    assert reason is not None
    assert reason.startswith(name)
    with pytest.raises(InvalidArgument, match=name):
        config.check(SHAPE)


def test_what_does_not_fit_says_how_much_is_asked_for() -> None:
    assert "shared memory" in str(AttentionConfig(stages=16).why_invalid(SHAPE))
    assert "4 CTAs" in str(AttentionConfig(stages=3, ctas_per_sm=4).why_invalid(SHAPE))


@pytest.mark.parametrize(
    "changes",
    [
        {"head_dim": 128.0}, {"head_dim": 96}, {"group": True}, {"group": 3}, {"q_len": 5}, {"cache": "fp16"},
        {"query": None}, {"k_scale_per_token": 1}, {"cache": "bf16"},
        {"k_scale_per_token": True, "cache": "bf16", "query": "bf16"},
    ],
)  # fmt: skip
def test_a_shape_without_a_kernel_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        AttentionShape(**changes)


@pytest.mark.parametrize("shape", [None, 128, {"head_dim": 128}])
def test_only_a_shape_has_a_default(shape: Any) -> None:
    with pytest.raises(InvalidArgument, match="AttentionShape"):
        default_config(shape)
