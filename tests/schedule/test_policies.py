"""Policies: every plan is right, and each is what its name says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule import oracle
from tests.schedule.strategies import costs, policies, problems
from workbench.errors import InvalidArgument, InvalidPlan
from workbench.schedule import (
    DecodePlan,
    DecodeProblem,
    balanced,
    cost_model,
    fixed_chunk,
    fixed_splits,
    hpc_ops,
    lpt,
    plan_decode,
    policy_names,
    resolve,
)

COST = cost_model("A100", cache="bf16")


@settings(max_examples=300)
@given(problems(), st.data())
def test_every_policy_reads_every_tile_once(problem: DecodeProblem, data: st.DataObject) -> None:
    plan = data.draw(policies(problem.tile)).plan(problem)
    assert plan.problems() == []
    assert oracle.is_partition(problem.lengths.tolist(), problem.num_kv_heads, problem.tile, plan.as_lists())
    assert plan.bin_tiles.sum() == problem.total_tiles


@settings(max_examples=300)
@given(problems(), costs())
def test_balanced_is_never_predicted_slower_than_hpc_ops(problem: DecodeProblem, cost: object) -> None:
    ours = balanced(cost).plan(problem).metrics(cost)
    upstream = hpc_ops().plan(problem).metrics(cost)
    assert ours.makespan_us <= upstream.makespan_us
    assert ours.call_us <= upstream.call_us


@pytest.mark.parametrize("tile", [32, 64, 128])
@pytest.mark.parametrize("heads", [1, 2, 8])
@pytest.mark.parametrize(("num_ctas", "q_len"), [(528, 1), (396, 2), (312, 1), (148, 4), (7, 3)])
def test_balanced_on_batches_of_serving_size(tile: int, heads: int, num_ctas: int, q_len: int) -> None:
    rng = np.random.default_rng([tile, heads, num_ctas])
    batches = [
        np.full(64, 4096),
        rng.integers(1, 8192, 48),
        np.minimum(rng.lognormal(8, 1.5, 96), 131_072).astype(int),
        np.maximum(131_072 // np.arange(1, 65), 128),
        np.append(np.full(31, 4096), 131_072),
        rng.choice([1, 63, 64, 65, 32_768], 40),
        np.zeros(5, int),
    ]
    cost = cost_model("H200", cache="bf16", group=4)
    for lengths in batches:
        arguments = {"num_kv_heads": heads, "num_ctas": num_ctas, "tile": tile, "q_len": q_len}
        ours = plan_decode(lengths, policy=balanced(cost), **arguments).validate()
        upstream = plan_decode(lengths, policy="hpc-ops", **arguments).validate()
        assert ours.metrics(cost).makespan_us <= upstream.metrics(cost).makespan_us


@settings(max_examples=150)
@given(problems(most=1200), st.data())
def test_lpt_keeps_grahams_bound_on_its_pieces(problem: DecodeProblem, data: st.DataObject) -> None:
    """The fullest bin holds at most 4/3 - 1/(3 m) of the least possible; small cases, so that can be searched."""
    plan = lpt().plan(problem)
    sizes = sorted(plan.num_tiles.tolist(), reverse=True)[:9]
    m = min(problem.num_ctas, 4)
    # The same rule on the first pieces and few bins: one-tile-per-token requests make pieces of exactly these sizes.
    small = DecodeProblem([s * problem.tile for s in sizes], 1, m, problem.tile, 1 << 20)
    fullest = int(lpt().plan(small).bin_tiles.max(initial=0))
    best = oracle.least_makespan(sizes, m)
    assert 3 * m * fullest <= (4 * m - 1) * best


@settings(max_examples=150)
@given(problems())
def test_lpt_gives_each_piece_to_the_least_loaded_bin(problem: DecodeProblem) -> None:
    plan = lpt().plan(problem)
    budget = max(-(-problem.total_tiles // problem.num_ctas), problem.min_process_len // problem.tile, 1)
    pieces = []
    for head in range(problem.num_kv_heads):
        for request, length in enumerate(problem.lengths.tolist()):
            tiles = oracle.tiles_of(length, problem.tile)
            pieces += [(head, request, at, min(budget, tiles - at)) for at in range(0, tiles, budget)]
    pieces.sort(key=lambda piece: -piece[3])
    bins: list[list[tuple[int, int, int, int]]] = [[] for _ in range(problem.num_ctas)]
    for piece in pieces:
        min(bins, key=lambda own: sum(p[3] for p in own)).append(piece)
    assert plan.as_lists() == bins


@settings(max_examples=150)
@given(problems(), st.integers(1, 20))
def test_fixed_splits_cuts_every_request_into_n(problem: DecodeProblem, n: int) -> None:
    plan = fixed_splits(n).plan(problem)
    assert plan.num_bins == n * problem.batch * problem.num_kv_heads
    expected = []
    for head in range(problem.num_kv_heads):
        for request, length in enumerate(problem.lengths.tolist()):
            tiles = oracle.tiles_of(length, problem.tile)
            each = -(-tiles // n)
            for split in range(n):
                size = max(0, min(each, tiles - split * each))
                expected.append([(head, request, split * each, size)] if size else [])
    assert plan.as_lists() == expected
    assert plan.waves == -(-plan.num_bins // problem.num_ctas)


@settings(max_examples=150)
@given(problems(), st.integers(1, 20))
def test_fixed_chunk_reserves_the_longest_requests_grid_for_all(problem: DecodeProblem, chunk: int) -> None:
    plan = fixed_chunk(chunk * problem.tile).plan(problem)
    tiles = [oracle.tiles_of(length, problem.tile) for length in problem.lengths.tolist()]
    grid = -(-max(tiles, default=0) // chunk)
    expected = []
    for head in range(problem.num_kv_heads):
        for request, count in enumerate(tiles):
            for at in range(0, grid * chunk, chunk):
                size = max(0, min(chunk, count - at))
                expected.append([(head, request, at, size)] if size else [])
    assert plan.as_lists() == expected


def test_names_resolve_to_the_policies_they_name() -> None:
    assert resolve(" lpt ") == lpt()
    assert resolve("fixed_splits(8)") == fixed_splits(8)
    assert resolve("fixed_chunk( 4096 )") == fixed_chunk(4096)
    for policy in (hpc_ops(), balanced(), lpt(), fixed_splits(3), fixed_chunk(128)):
        assert resolve(policy.name) == policy
        assert resolve(policy) is policy
        assert resolve(policy, COST) is policy
    assert policy_names() == ["hpc-ops", "balanced", "lpt", "fixed_splits(n)", "fixed_chunk(n)"]


def test_a_cost_model_decides_for_the_name_balanced_alone() -> None:
    assert resolve("balanced", COST) == balanced(COST)
    assert resolve("balanced") == balanced()
    assert resolve(balanced(cost_model("H20")), COST) == balanced(cost_model("H20"))
    for name in ("hpc-ops", "lpt", "fixed_splits(8)", "fixed_chunk(4096)"):
        assert resolve(name, COST) == resolve(name)


def test_plan_decode_is_told_of_a_cost_model() -> None:
    lengths = [200] * 60 + [9000] * 5
    told = plan_decode(lengths, num_kv_heads=1, num_ctas=132, cost=COST)
    assert told.as_lists() == plan_decode(lengths, num_kv_heads=1, num_ctas=132, policy=balanced(COST)).as_lists()
    assert told.as_lists() != plan_decode(lengths, num_kv_heads=1, num_ctas=132).as_lists()
    with pytest.raises(InvalidArgument, match="cost is 'H100'"):
        plan_decode(lengths, num_kv_heads=1, num_ctas=132, cost="H100")


def test_makespans_beyond_32_bits_count_as_equal() -> None:
    slow = replace(COST, constants=replace(COST.constants, merge_ns=1 << 33, descriptor_ns=1 << 33))
    lengths = [300, 5000, 70, 12_000]
    ours = plan_decode(lengths, num_kv_heads=2, num_ctas=12, cost=slow)
    assert ours.as_lists() == plan_decode(lengths, num_kv_heads=2, num_ctas=12, policy="hpc-ops").as_lists()


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("greedy", "policy 'greedy' is not known. Use one of hpc-ops, balanced"),
        ("", "is not known"),
        ("lpt(3)", "is not known"),
        ("fixed_splits", "is not known"),
        ("fixed_splits(-1)", "is not known"),
        ("fixed_splits(" + "9" * 5000 + ")", "is not known"),
        ("fixed_splits(\u0663)", "is not known"),
        ("fixed_splits(0)", r"fixed_splits\(n\): n is 0. It must be from 1"),
        ("fixed_chunk(100)", "a whole number of 64-token tiles"),
        ("fixed_splits(60000)", "needs a grid of"),
        (3, "policy is a int. Give a name"),
        (None, "policy is a NoneType"),
        (lpt, r"policy is the class lpt; call it"),
    ],
    ids=str,
)
def test_policies_that_do_not_exist(policy: object, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        plan_decode([4096] * 300, num_kv_heads=1, num_ctas=8, policy=policy)


def test_balanced_takes_a_cost_model_and_nothing_else() -> None:
    with pytest.raises(InvalidArgument, match=r"cost is 'H100'\. Give a cost model"):
        balanced("H100")


def everything_to_cta_0(lengths: np.ndarray, num_kv_heads: int, num_ctas: int, tile: int) -> list[list[tuple]]:
    rows = [(h, b, 0, -(-int(n) // tile)) for h in range(num_kv_heads) for b, n in enumerate(lengths) if n]
    lengths[:] = 0  # the plan must not see this
    return [rows]


def test_a_users_function_is_a_policy() -> None:
    plan = plan_decode([100, 0, 300], num_kv_heads=2, num_ctas=4, policy=everything_to_cta_0)
    assert plan.policy == "everything_to_cta_0"
    assert plan.as_lists() == [[(0, 0, 0, 2), (0, 2, 0, 5), (1, 0, 0, 2), (1, 2, 0, 5)], [], [], []]
    assert plan.lengths.tolist() == [100, 0, 300]


def test_a_users_function_that_leaves_work_out_is_refused() -> None:
    with pytest.raises(InvalidPlan, match="request 1: tiles 0-3 assigned to no CTA"):
        plan_decode([64, 256], num_kv_heads=1, num_ctas=2, policy=lambda *_: [[(0, 0, 0, 1)]])


def test_what_a_users_function_raises_comes_through() -> None:
    def broken(*_: object) -> list[list[tuple[int, int, int, int]]]:
        yield [(0, 0, 0, 1)]
        return 1 + "one"

    with pytest.raises(TypeError, match="unsupported operand"):
        plan_decode([64], num_kv_heads=1, num_ctas=2, policy=broken)


class Stranger:
    """A policy object of the user's that answers something else."""

    name = "stranger"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def plan(self, problem: DecodeProblem) -> object:
        return self.answer(problem) if callable(self.answer) else self.answer


def test_a_users_policy_object() -> None:
    mine = plan_decode([300], num_kv_heads=1, num_ctas=2, policy=Stranger(lpt().plan))
    assert isinstance(mine, DecodePlan)
    with pytest.raises(InvalidPlan, match=r"stranger: not a valid plan:\n.*returned NoneType, not a DecodePlan"):
        plan_decode([300], num_kv_heads=1, num_ctas=2, policy=Stranger(None))
    with pytest.raises(InvalidPlan, match="not a DecodePlan of that problem"):
        plan_decode([301], num_kv_heads=1, num_ctas=2, policy=Stranger(mine))
