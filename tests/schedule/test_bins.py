"""What a user's function may return, and what is said when it returns something else."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from workbench.errors import InvalidPlan
from workbench.schedule import DecodeProblem, plan_decode, plan_from_bins

PROBLEM = DecodeProblem([128], 1, 3)
RIGHT = [[(0, 0, 0, 2)], [], []]


@pytest.mark.parametrize(
    "bins",
    [
        [[(0, 0, 0, 2)]],
        [[[0, 0, 0, 2]], [], []],
        ([(0, 0, 0, 2)], (), ()),
        [np.array([[0, 0, 0, 2]])],
        np.array([[[0, 0, 0, 2]]]),
        [[np.array([0, 0, 0, 2], np.uint64)]],
        [[tuple(np.int16(v) for v in (0, 0, 0, 2))]],
        [[(np.uint64(0), 0, np.int8(0), 2)]],
        [[(False, 0, 0, 2)]],
    ],
    ids=str,
)
def test_accepted_shapes(bins: object) -> None:
    assert plan_from_bins(PROBLEM, "mine", bins).validate().as_lists() == RIGHT


def test_generators() -> None:
    bins = (own for own in [iter([(0, 0, 0, 2)]), iter([])])
    assert plan_from_bins(PROBLEM, "mine", bins).validate().as_lists() == RIGHT


@pytest.mark.parametrize(
    ("bins", "words"),
    [
        (None, "the result is None, not a list of (kv_head, request, first_tile, num_tiles) tuples, one list a CTA"),
        (7, "the result is 7, not a list"),
        (np.int64(7), "not a list of"),
        (np.array(7), "not a list of"),
        ([None], "CTA 0 is None, not a list of (kv_head, request, first_tile, num_tiles) tuples"),
        ([[(0, 0, 0, 2)], 5], "CTA 1 is 5, not a list of"),
        ([(0, 0, 0, 2)], "CTA 0: 0 is not (kv_head, request, first_tile, num_tiles), four whole numbers"),
        ([[(0, 0, 2)]], "CTA 0: (0, 0, 2) is not (kv_head"),
        ([[], [(0, 0, 0, 2), (0, 0, 0, 2, 1)]], "CTA 1: (0, 0, 0, 2, 1) is not"),
        ([[(0, 0, 0, 2.0)]], "CTA 0: (0, 0, 0, 2.0) is not"),
        ([[(0, 0, 0, 1)], [(0, 0, 1.5, 1)]], "CTA 1: (0, 0, 1.5, 1) is not"),
        ([np.array([[0.0, 0.0, 0.0, 2.0]])], "is not (kv_head"),
        ([["0002"]], "CTA 0: '0002' is not"),
        (["0002"], "CTA 0: '0' is not"),
        ([[(0, 0, 0, "2")]], "is not (kv_head"),
        ([[(0, 0, 0, None)]], "is not (kv_head"),
        ([[{0, 1, 2, 3}]], "CTA 0: {0, 1, 2, 3} is not"),
        ([[(0, 0, 0, [1, 2])]], "is not (kv_head"),
        ([[(0, 0, 0, 2**31)]], "does not fit 32-bit integers"),
        ([[(0, 0, 0, 2**70)]], "does not fit 32-bit integers"),
        ([[(0, 0, 0, -(2**63))]], "does not fit 32-bit integers"),
        ([[], [], [], []], "the result has a list for CTA 3; the CTAs are 0-2"),
        (itertools.repeat([]), "the result has a list for CTA 3; the CTAs are 0-2"),
        ([[(0, 0, 0, 2)], [], [], []], "the result has a list for CTA 3"),
        ({5: [(0, 0, 0, 2)]}, "CTA 0 is 5, not a list of"),
        (np.zeros((1, 2, 3), int), "is not (kv_head"),
    ],
    ids=str,
)
def test_junk_is_named(bins: object, words: str) -> None:
    def mine(*_: object) -> object:
        return bins

    with pytest.raises(InvalidPlan) as caught:
        plan_decode([128], num_kv_heads=1, num_ctas=3, policy=mine)
    assert str(caught.value).startswith("mine: not a valid plan:\n  - ")
    assert words in str(caught.value)


def test_a_lambda_and_an_object_have_names() -> None:
    class Mine:
        def __call__(self, *_: object) -> object:
            return RIGHT

    assert plan_decode([128], num_kv_heads=1, num_ctas=3, policy=Mine()).policy == "Mine"
    assert plan_decode([128], num_kv_heads=1, num_ctas=3, policy=lambda *_: RIGHT).policy == "<lambda>"


@pytest.mark.parametrize("entry", [(0, 5, 0, 1), (0, -1, 0, 1), (3, 0, 0, 1), (-1, 0, 0, 1)])
def test_a_plan_that_names_no_request_has_problems_and_no_numbers(entry: tuple[int, ...]) -> None:
    plan = plan_from_bins(PROBLEM, "mine", [[entry]])
    assert plan.problems()[0].kind == "outside"
    for numbers in (plan.metrics, plan.spans, plan.encode, lambda: plan.descriptors, lambda: plan.chunk_counts):
        with pytest.raises(InvalidPlan, match="names something that does not exist"):
            numbers()
