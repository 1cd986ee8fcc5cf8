"""The validator: exact words for planted mistakes, every mutation caught, no false alarm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.schedule import oracle
from tests.schedule.strategies import policies, problems
from workbench.errors import InvalidPlan
from workbench.schedule import DecodeProblem, plan_decode, plan_from_bins
from workbench.schedule.validate import MOST_PROBLEMS

Bins = list[list[tuple[int, int, int, int]]]


def problems_of(problem: DecodeProblem, bins: Bins, *, static_grid: bool = False) -> list[str]:
    return [str(p) for p in plan_from_bins(problem, "planted", bins, static_grid=static_grid).problems()]


def filled(ctas: dict[int, list[tuple[int, int, int, int]]], num_ctas: int) -> Bins:
    return [ctas.get(c, []) for c in range(num_ctas)]


ONE_HEAD = DecodeProblem([64, 0, 64, 1600], 1, 64)
TWO_HEADS = DecodeProblem([64, 0, 64, 1600], 2, 64)
SHORT = [(0, 0, 0, 1), (0, 2, 0, 1)]
OTHER_HEAD = [(1, 0, 0, 1), (1, 2, 0, 1), (1, 3, 0, 25)]


@pytest.mark.parametrize(
    ("problem", "ctas", "words"),
    [
        (
            ONE_HEAD,
            {0: SHORT, 40: [(0, 3, 0, 21)], 41: [(0, 3, 17, 8)]},
            ["request 3: tiles 17-20 assigned twice, to CTA 40 and CTA 41"],
        ),
        (
            TWO_HEADS,
            {0: SHORT, 1: OTHER_HEAD, 40: [(0, 3, 0, 21)], 41: [(0, 3, 17, 8)]},
            ["request 3, KV head 0: tiles 17-20 assigned twice, to CTA 40 and CTA 41"],
        ),
        (
            ONE_HEAD,
            {0: SHORT, 7: [(0, 3, 0, 25), (0, 3, 24, 1)]},
            ["request 3: tile 24 assigned twice, both times to CTA 7"],
        ),
        (
            ONE_HEAD,
            {0: SHORT, 5: [(0, 3, 3, 4)], 6: [(0, 3, 8, 16)]},
            [
                "request 3: tiles 0-2 assigned to no CTA",
                "request 3: tile 7 assigned to no CTA",
                "request 3: tile 24 assigned to no CTA",
            ],
        ),
        (
            TWO_HEADS,
            {0: SHORT, 1: [(0, 3, 0, 25)]},
            [
                "request 0, KV head 1: tile 0 assigned to no CTA",
                "request 2, KV head 1: tile 0 assigned to no CTA",
                "request 3, KV head 1: tiles 0-24 assigned to no CTA",
            ],
        ),
        (
            ONE_HEAD,
            {0: SHORT, 2: [(0, 3, 0, 26)]},
            [
                "CTA 2: (kv_head 0, request 3, first_tile 0, num_tiles 26) reads past the end: "
                "request 3 has 25 tiles (1600 tokens)"
            ],
        ),
        (
            ONE_HEAD,
            {0: [*SHORT, (0, 3, 0, 25)], 9: [(0, 1, 0, 1)]},
            ["CTA 9: (kv_head 0, request 1, first_tile 0, num_tiles 1) reads past the end: request 1 is empty"],
        ),
        (
            ONE_HEAD,
            {0: [*SHORT, (0, 3, 0, 24)], 9: [(0, 3, 24, 1), (0, 3, 25, 0)]},
            ["CTA 9: (kv_head 0, request 3, first_tile 25, num_tiles 0) reads nothing: num_tiles must be at least 1"],
        ),
        (
            ONE_HEAD,
            {0: [*SHORT, (0, 3, 0, 25)], 9: [(0, 4, 0, 1), (1, 0, 0, 1)]},
            [
                "CTA 9: (kv_head 0, request 4, first_tile 0, num_tiles 1) names something that does not exist: "
                "KV heads are 0-0, requests 0-3",
                "CTA 9: (kv_head 1, request 0, first_tile 0, num_tiles 1) names something that does not exist: "
                "KV heads are 0-0, requests 0-3",
            ],
        ),
        (
            ONE_HEAD,
            {0: SHORT, 3: [(0, 3, -1, 26)]},
            ["CTA 3: (kv_head 0, request 3, first_tile -1, num_tiles 26) starts before tile 0 of request 3"],
        ),
        (
            DecodeProblem([], 1, 64),
            {0: [(0, 0, 0, 1)]},
            [
                "CTA 0: (kv_head 0, request 0, first_tile 0, num_tiles 1) names something that does not exist: "
                "KV heads are 0-0, and the batch has no request"
            ],
        ),
        (ONE_HEAD, {0: SHORT, 63: [(0, 3, 12, 13)], 2: [(0, 3, 0, 12)]}, []),
    ],
)
def test_words(problem: DecodeProblem, ctas: dict[int, list[tuple[int, int, int, int]]], words: list[str]) -> None:
    assert problems_of(problem, filled(ctas, 64)) == words


def test_a_long_list_is_cut_and_says_so() -> None:
    found = plan_from_bins(DecodeProblem([64] * 60, 1, 2), "planted", []).problems()
    assert len(found) == MOST_PROBLEMS + 1
    assert found[-1].kind == "more"
    assert str(found[-1]) == "and more: only the first 50 problems are listed"


def test_fields_of_a_problem() -> None:
    plan = plan_from_bins(ONE_HEAD, "planted", filled({0: [*SHORT, (0, 3, 0, 25)], 8: [(0, 3, 1, 1)]}, 64))
    (found,) = plan.problems()
    assert (found.kind, found.request, found.kv_head, found.ctas) == ("twice", 3, 0, (0, 8))
    with pytest.raises(InvalidPlan, match="planted: not a valid plan:\n  - request 3: tile 1 assigned twice") as caught:
        plan.validate()
    assert caught.value.problems == [found]


@st.composite
def mutated(draw: st.DrawFn) -> tuple[DecodeProblem, Bins, bool]:
    problem = draw(problems())
    plan = draw(policies(problem.tile)).plan(problem)
    assume(plan.num_descriptors > 0)
    bins = plan.as_lists()
    cta = draw(st.sampled_from([c for c, own in enumerate(bins) if own]))
    at = draw(st.integers(0, len(bins[cta]) - 1))
    head, request, first, count = bins[cta][at]
    other = draw(st.integers(0, len(bins) - 1))
    match draw(
        st.sampled_from(["drop tile", "drop piece", "duplicate", "shift", "request", "head", "minus", "beyond"])
    ):
        case "drop tile":
            bins[cta][at] = (head, request, first, count - 1)
        case "drop piece":
            del bins[cta][at]
        case "duplicate":
            bins[other].append((head, request, first, draw(st.integers(1, count))))
        case "shift":
            bins[cta][at] = (head, request, first + draw(st.sampled_from([-2, -1, 1, 2])), count)
        case "request":
            swapped = draw(st.integers(-1, problem.batch).filter(lambda b: b != request))
            bins[cta][at] = (head, swapped, first, count)
        case "head":
            swapped = draw(st.integers(-1, problem.num_kv_heads).filter(lambda h: h != head))
            bins[cta][at] = (swapped, request, first, count)
        case "minus":
            bins[cta][at] = (head, request, first, -count)
        case "beyond":
            bins[cta][at] = (head, request, first, count + draw(st.integers(1, 5)))
    return problem, bins, plan.static_grid


@settings(max_examples=500)
@given(mutated())
def test_one_mutation_of_a_valid_plan_is_always_caught(case: tuple[DecodeProblem, Bins, bool]) -> None:
    problem, bins, static_grid = case
    assert problems_of(problem, bins, static_grid=static_grid)


@st.composite
def arbitrary(draw: st.DrawFn) -> tuple[DecodeProblem, Bins]:
    """Few tiles and few bins, so that valid and nearly valid maps both come up."""
    lengths = draw(st.lists(st.sampled_from([0, 1, 64, 65, 128]), max_size=3))
    problem = DecodeProblem(lengths, draw(st.integers(1, 2)), 3)
    row = st.tuples(*(st.integers(low, high) for low, high in ((-1, 2), (-1, 3), (-1, 2), (-1, 3))))
    bins = [draw(st.lists(row, max_size=3)) for _ in range(3)]
    if draw(st.booleans()):
        bins[0] += [
            (h, b, 0, oracle.tiles_of(n, 64)) for h in range(problem.num_kv_heads) for b, n in enumerate(lengths) if n
        ]
    return problem, bins


@settings(max_examples=800)
@given(arbitrary())
def test_alarm_exactly_when_tiles_are_not_partitioned(case: tuple[DecodeProblem, Bins]) -> None:
    problem, bins = case
    right = oracle.is_partition(problem.lengths.tolist(), problem.num_kv_heads, problem.tile, bins)
    assert (problems_of(problem, bins) == []) == right


@settings(max_examples=300)
@given(arbitrary())
def test_what_is_said_to_be_missing_or_twice_is_so(case: tuple[DecodeProblem, Bins]) -> None:
    problem, bins = case
    readers, _ = oracle.readers(problem.lengths.tolist(), problem.num_kv_heads, problem.tile, bins)
    unread = {(h, b) for (h, b, _), ctas in readers.items() if not ctas}
    twice = {(h, b) for (h, b, _), ctas in readers.items() if len(ctas) > 1}
    found = plan_from_bins(problem, "planted", bins).problems()
    assert {(p.kv_head, p.request) for p in found if p.kind == "missing"} == unread
    assert {(p.kv_head, p.request) for p in found if p.kind == "twice"} == twice


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kv_head": [0]}, r"the columns have shapes kv_head \(1,\), request \(2,\)"),
        ({"first_tile": [[0, 2]]}, r"first_tile \(1, 2\)"),
        ({"bin_offsets": []}, "bin_offsets must run from 0 to the 2 descriptors"),
        ({"bin_offsets": [0]}, "bin_offsets must run from 0 to the 2 descriptors"),
        ({"bin_offsets": [0, 1, 9]}, "bin_offsets must run from 0 to the 2 descriptors"),
        ({"bin_offsets": [-1, 1, 2]}, "bin_offsets must run from 0 to the 2 descriptors"),
        ({"bin_offsets": [0, 2, 1, 2]}, "bin_offsets must not decrease"),
    ],
)
def test_columns_that_do_not_belong_together_are_one_problem(changes: dict[str, list[int]], words: str) -> None:
    plan = plan_decode([200], num_kv_heads=1, num_ctas=2, policy=lambda *_: [[(0, 0, 0, 2)], [(0, 0, 2, 2)]])
    broken = replace(plan, **{name: np.array(values) for name, values in changes.items()})
    with pytest.raises(InvalidPlan, match=words):
        broken.validate()
