"""Spaces from names and plain data: what describes none is refused, whatever it is."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.errors import InvalidArgument
from workbench.tune.spaces import attention_space, router_space, space_from

ATTENTION = attention_space("2x4K + 32K")
ROUTER = router_space(64, 192, 4096)


@pytest.mark.parametrize("space", [ATTENTION, ROUTER], ids=lambda space: space.operator)
def test_a_space_is_made_again_of_plain_data(space):
    again = space_from(space.to_dict())
    assert again.to_dict() == space.to_dict()
    assert list(again) == list(space)


@pytest.mark.parametrize("said", [None, 3, [], {}, {"operator": "conv"}, {"operator": "router_gemm"}])
def test_what_describes_no_space(said):
    with pytest.raises(InvalidArgument, match="space"):
        space_from(said)


@pytest.mark.parametrize(
    "changed",
    [
        {"lengths": ["a"]},
        {"lengths": [1.5]},
        {"lengths": [[4096]]},
        {"lengths": [2**70]},
        {"lengths": []},
        {"shape": {"pages": 3}},
        {"shape": {"group": "a"}},
        {"parameters": {}},
        {"parameters": 7},
        {"parameters": {"warps": [4]}},
        {"parameters": ATTENTION.to_dict()["parameters"] | {"warps": []}},
        {"parameters": ATTENTION.to_dict()["parameters"] | {"colour": [1]}},
    ],
    ids=str,
)
def test_what_describes_no_space_of_attention(changed):
    with pytest.raises(InvalidArgument):
        space_from(ATTENTION.to_dict() | changed)


@pytest.mark.parametrize(
    "shape",
    [
        {"kv_heads": 0},
        {"kv_heads": 1.0},
        {"page_size": 7},
        {"group": 3},
        {"head_dim": 96},
        {"q_len": 0},
        {"cache": "int8"},
    ],
    ids=str,
)
def test_a_shape_without_a_kernel(shape):
    with pytest.raises(InvalidArgument, match=next(iter(shape))):
        attention_space("4K", **shape)


@pytest.mark.parametrize("sizes", [(0, 192, 4096), (64.5, 192, 4096), ("64", 192, 4096), (64, 193, 4096), (True, 8, 8)])
def test_a_product_without_a_kernel(sizes):
    with pytest.raises(InvalidArgument, match="M"):
        router_space(*sizes)


@pytest.mark.parametrize("wanted", [None, 4.0, "4", (), (2, "3"), (2, True), {"stages"}], ids=repr)
def test_values_of_another_type(wanted):
    with pytest.raises(InvalidArgument, match=r"stages is .*; give int values such as 2"):
        ATTENTION.restrict(stages=wanted)


def test_numbers_of_numpy_are_numbers():
    assert ATTENTION.restrict(stages=np.arange(2, 5)).parameters["stages"] == (2, 3, 4)
    assert ATTENTION.restrict(stages=np.int64(3)).to_dict() == ATTENTION.restrict(stages=3).to_dict()


@pytest.mark.parametrize(
    "thing", [None, 3, object(), ROUTER.default(), {"stages": 3}], ids=lambda thing: str(type(thing))
)
def test_other_things_are_not_in_a_space(thing):
    assert thing not in ATTENTION


def test_nothing_is_promising_in_an_empty_space():
    empty = ATTENTION.restrict(stages=16, ctas_per_sm=8)
    assert len(empty) == 0
    with pytest.raises(InvalidArgument, match=r"none of the 24 configurations can run .* The first: shared memory 2"):
        empty.promising(5)
    with pytest.raises(InvalidArgument, match="most is 0"):
        ATTENTION.promising(0)
