"""Lengths, pages and maps that cannot be, where they can be looked at."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from workbench.errors import InvalidArgument
from workbench.ops.attention_decode import attention_reference, upload_plan
from workbench.ops.attention_decode.contents import check_contents
from workbench.schedule import plan_decode


def contents() -> dict[str, torch.Tensor]:
    """Two requests of 20 and 0 tokens on pages of 16; entries behind the second page are stale."""
    return {
        "seq_lens": torch.tensor([20, 0], dtype=torch.int32),
        "block_table": torch.tensor([[3, 0, 99], [-7, 99, 99]], dtype=torch.int32),
        "k_cache": torch.zeros(4, 16, 1, 64),
    }


def test_contents() -> None:
    plans = [plan_decode(lengths, num_kv_heads=1, num_ctas=3) for lengths in ([20, 0], [20, 5], [1, 0])]
    right, grown, shrunk = (upload_plan(plan, "cpu") for plan in plans)
    check_contents(**contents())
    check_contents(**contents(), task_map=right)
    with pytest.raises(InvalidArgument, match="made for request 1 of length 5, and seq_lens says 0; build a map"):
        check_contents(**contents(), task_map=grown)
    with pytest.raises(InvalidArgument, match="made for request 0 of length 1, and seq_lens says 20"):
        check_contents(**contents(), task_map=shrunk)


@pytest.mark.parametrize(
    ("lengths", "page", "message"),
    [
        ((20, -1), 0, r"request 1 has length -1; lengths are 0 to 48, what a row of block_table holds: 3 pages of 16"),
        ((49, 0), 0, r"request 0 has length 49; lengths are 0 to 48"),
        ((20, 0), 4, r"names page 4 for page 1 of request 0, which has 20 tokens; the caches hold pages 0 to 3"),
        ((20, 0), -1, r"names page -1 for page 1 of request 0"),
        ((20, 1), 0, r"names page -7 for page 0 of request 1, which has 1 tokens"),
    ],
)
def test_contents_that_cannot_be(lengths: tuple[int, int], page: int, message: str) -> None:
    given = contents()
    given["seq_lens"] = torch.tensor(lengths, dtype=torch.int32)
    given["block_table"][0, 1] = page
    with pytest.raises(InvalidArgument, match=message):
        check_contents(**given)


@pytest.mark.parametrize("lengths", [(20, -1), (49, 0)])
def test_the_reference_looks(lengths: tuple[int, int]) -> None:
    given: dict[str, Any] = contents()
    cache = torch.zeros(4, 16, 1, 64, dtype=torch.bfloat16)
    given |= {"seq_lens": torch.tensor(lengths, dtype=torch.int32), "k_cache": cache, "v_cache": cache}
    with pytest.raises(InvalidArgument, match="lengths are 0 to 48"):
        attention_reference(q=torch.zeros(2, 1, 64, dtype=torch.bfloat16), **given)
