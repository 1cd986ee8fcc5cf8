"""The plan object: its views agree with each other, it cannot be changed, and it survives JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.strategies import policies, problems
from workbench.errors import InvalidPlan
from workbench.schedule import DecodePlan, DecodeProblem, plan_decode, plan_from_bins


@settings(max_examples=150)
@given(problems(), st.data())
def test_views_agree(problem: DecodeProblem, data: st.DataObject) -> None:
    plan = data.draw(policies(problem.tile)).plan(problem)
    rows = plan.descriptors
    assert len(plan.bins) == plan.num_bins == len(plan.as_lists())
    assert sum(len(own) for own in plan.bins) == plan.num_descriptors == rows.size
    counted: dict[tuple[int, int], int] = {}
    for cta, own in enumerate(plan.bins):
        assert (own["cta"] == cta).all()
        assert plan.bin_tiles[cta] == own["num_tiles"].sum()
    for row in np.sort(rows, order=["kv_head", "request", "first_tile"]):
        key = int(row["kv_head"]), int(row["request"])
        assert row["chunk"] == counted.get(key, 0)
        counted[key] = counted.get(key, 0) + 1
        assert row["first_token"] == row["first_tile"] * problem.tile
        end = min((row["first_tile"] + row["num_tiles"]) * problem.tile, problem.lengths[row["request"]])
        assert row["num_tokens"] == end - row["first_token"] > 0
    for (head, request), count in np.ndenumerate(plan.chunk_counts):
        assert count == counted.get((head, request), 0)
    assert rows["num_tokens"].sum() == problem.lengths.sum() * problem.num_kv_heads
    assert plan.split.tolist() == [counted[h, b] > 1 for h, b in rows[["kv_head", "request"]].tolist()]


def test_bins_behave_like_a_sequence() -> None:
    plan = plan_decode([256, 64], num_kv_heads=1, num_ctas=3, policy="hpc-ops", min_process_len=0)
    assert [len(own) for own in plan.bins[:2]] == [1, 1]
    assert plan.bins[-1]["request"].tolist() == [1]
    assert plan.bins[np.int64(0)]["num_tiles"].tolist() == [2]
    with pytest.raises(IndexError):
        plan.bins[3]


def test_a_plan_cannot_be_changed() -> None:
    lengths = np.array([256, 64])
    plan = plan_decode(lengths, num_kv_heads=1, num_ctas=3)
    lengths[0] = 1
    assert plan.lengths.tolist() == [256, 64]
    for name in ("lengths", "bin_offsets", "kv_head", "request", "first_tile", "num_tiles", "descriptors"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(plan, name)[0] = 0
    with pytest.raises(AttributeError):
        plan.policy = "other"


@settings(max_examples=100)
@given(problems(), st.data())
def test_json_round_trip(problem: DecodeProblem, data: st.DataObject) -> None:
    plan = data.draw(policies(problem.tile)).plan(problem)
    again = DecodePlan.from_json(plan.to_json())
    assert again.to_json() == plan.to_json()
    assert again.as_lists() == plan.as_lists()
    assert again.metrics() == plan.metrics()
    assert (again.static_grid, again.policy) == (plan.static_grid, plan.policy)


def test_numpy_arguments_reach_json() -> None:
    plan = plan_decode(
        np.array([300], np.uint16), num_kv_heads=np.int64(1), num_ctas=np.int32(2), tile=np.int64(64), q_len=np.int8(2)
    )
    assert DecodePlan.from_json(plan.to_json()).as_lists() == plan.as_lists()


VALID = json.loads(plan_decode([300, 5], num_kv_heads=1, num_ctas=2).to_json())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a plan written by to_json"),
        ("[]", "not a plan written by to_json"),
        ("null", "not a plan written by to_json"),
        ("{}", "KeyError 'format'"),
        ("[" * 100_000, "RecursionError"),
        (None, "TypeError"),
        ({"format": "other"}, "format 'other' version 1 is not known"),
        ({"version": 2}, "version 2 is not known"),
        ({"lengths": ["a"]}, "Give integers"),
        ({"lengths": [1.5, 5]}, "request 0 has length 1.5"),
        ({"lengths": [-1, 5]}, "request 0 has length -1"),
        ({"lengths": {}}, "lengths"),
        ({"num_ctas": 0}, "num_ctas is 0. It must be from 1"),
        ({"num_ctas": 2.0}, "num_ctas is 2.0. Give a whole number"),
        ({"tile": 64.0}, "tile is 64.0. Give a whole number"),
        ({"tile": 50}, "Tiles of 32, 64, 128 tokens exist"),
        ({"static_grid": "false"}, "static_grid is 'false'"),
        ({"policy": None}, "policy is None"),
        ({"bins": None}, "the result is None"),
        ({"bins": [[[0, 0, 0, 5]]]}, "request 1: tile 0 assigned to no CTA"),
        ({"bins": [[[0, 0, 0, 5], [0, 1, 0, 1.0]]]}, "four whole numbers"),
        ({"bins": [[[0, 0, 0, 5], [0, 1, 0, 1e400]]]}, "four whole numbers"),
        ({"bins": [[], [], [[0, 0, 0, 5]]]}, "the CTAs are 0-1"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_hostile_json(text: object, words: str) -> None:
    if isinstance(text, dict) and text:
        text = json.dumps(VALID | text)
    with pytest.raises(InvalidPlan) as caught:
        DecodePlan.from_json(text)
    assert words in str(caught.value)


@pytest.mark.parametrize("field", [name for name in VALID if name != "format" and name != "version"])
def test_a_missing_field_is_named(field: str) -> None:
    with pytest.raises(InvalidPlan, match=f"the field '{field}' is missing"):
        DecodePlan.from_json(json.dumps({k: v for k, v in VALID.items() if k != field}))


def test_chunks_are_numbered_by_position_whatever_the_bins() -> None:
    problem = DecodeProblem([64 * 5], 1, 3)
    plan = plan_from_bins(problem, "mine", [[(0, 0, 3, 2)], [(0, 0, 2, 1), (0, 0, 0, 1)], [(0, 0, 1, 1)]]).validate()
    assert plan.chunk.tolist() == [3, 2, 0, 1]
    assert plan.chunk_counts.tolist() == [[4]]


def test_scheduling_needs_no_torch() -> None:
    code = (
        "import sys; from workbench.schedule import plan_decode; p = plan_decode([5], num_kv_heads=1, num_ctas=2);"
        "p.metrics(); p.encode(); p.problems();"
        "print([name for name in ('torch', 'triton', 'cuda', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
