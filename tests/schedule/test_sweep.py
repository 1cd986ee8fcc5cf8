"""A sweep gives the numbers of ``plan_decode(...).metrics(cost)``, step by step, to the last bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from workbench.errors import InvalidArgument, InvalidPlan
from workbench.schedule import balanced, cost_model, plan_decode, resolve
from workbench.schedule.sweep import BY_POLICY, Sweep, sweep, sweep_ranges

STATIC = ("fixed_splits(1)", "fixed_splits(5)", "fixed_splits(16)", "fixed_chunk(128)", "fixed_chunk(1024)")
POLICIES = ("hpc-ops", "balanced", "lpt", *STATIC)


def whole_requests(lengths, num_kv_heads, num_ctas, tile):
    """A user's policy: (KV head, request) after (KV head, request), to one CTA after the other."""
    bins = [[] for _ in range(num_ctas)]
    for i, (head, request) in enumerate((h, r) for h in range(num_kv_heads) for r in range(len(lengths))):
        if lengths[request]:
            bins[i % num_ctas].append((head, request, 0, -(-int(lengths[request]) // tile)))
    return bins


def expected(batches, policy, cost, **options):
    plans = [plan_decode(batch, policy=resolve(policy, cost), **options) for batch in batches]
    return [plan.metrics(cost) for plan in plans]


def assert_same(found: Sweep, batches, policies, cost, **options) -> None:
    assert found.policies == tuple(resolve(policy).name for policy in policies)
    for row, policy in enumerate(policies):
        metrics = expected(batches, policy, cost, **options)
        for name in BY_POLICY:
            wanted = np.array([m[name] for m in metrics], float)
            np.testing.assert_array_equal(getattr(found, name)[row], wanted, f"{found.policies[row]} {name}")
        np.testing.assert_array_equal(found.bound_us, [m.bound_us for m in metrics])
        np.testing.assert_array_equal(found.tiles, [m.tiles for m in metrics])
    np.testing.assert_array_equal(found.batch, [len(batch) for batch in batches])


# Lengths at which something happens: none, one token, tile edges, a straggler.
lengths = st.one_of(
    st.sampled_from([0, 1, 63, 64, 65, 512, 4096]),
    st.integers(0, 3000),
    st.integers(0, 60_000),
    st.integers(0, 300_000),
)
batch = st.one_of(
    st.lists(lengths, max_size=12),
    st.builds(lambda n, short, long: [short] * n + [long], st.integers(0, 40), lengths, lengths),
)


@settings(max_examples=150, deadline=None)
@given(
    batches=st.lists(batch, min_size=1, max_size=6),
    num_kv_heads=st.sampled_from([1, 1, 2, 8]),
    num_ctas=st.sampled_from([1, 2, 7, 33, 132, 528]),
    tile=st.sampled_from([32, 64, 128]),
    floor=st.sampled_from([0, 64, 512, 5000]),
    q_len=st.integers(1, 4),
    cache=st.sampled_from(["fp8", "bf16"]),
)
@example([[], [0, 0], [64] * 9], 1, 2, 64, 0, 1, "fp8")
@example([[131_072, *[4096] * 31], [65_536, *[4096] * 15]], 1, 528, 64, 512, 1, "fp8")
@example([[64, 128, 192], [64, 0, 128]], 2, 3, 64, 0, 1, "fp8")
def test_every_number_is_that_of_the_plan(batches, num_kv_heads, num_ctas, tile, floor, q_len, cache):
    options = {
        "num_kv_heads": num_kv_heads,
        "num_ctas": num_ctas,
        "tile": tile,
        "min_process_len": floor,
        "q_len": q_len,
    }
    cost = cost_model("H100", cache=cache)
    policies = [*POLICIES[:2], dataclasses.replace(balanced(cost), name="balanced for it"), *POLICIES[2:]]
    assert_same(sweep(batches, policies=policies, cost=cost, **options), batches, policies, cost, **options)


@pytest.mark.parametrize(
    "changes",
    [{"descriptor_ns": 0, "partial_ns": 0, "empty_ns": 0}, {"descriptor_ns": 90_000}, {"bytes_per_us": 1000}],
    ids=lambda changes: ",".join(changes),
)
def test_other_constants(changes):
    base = cost_model()
    cost = dataclasses.replace(base, constants=dataclasses.replace(base.constants, **changes))
    rng = np.random.default_rng(3)
    batches = [np.clip(rng.lognormal(7, 2, n), 0, 200_000).astype(int) for n in (1, 3, 17, 60, 200)]
    policies = (balanced(cost), "hpc-ops", "lpt", *STATIC)
    options = {"num_kv_heads": 2, "num_ctas": 96}
    assert_same(sweep(batches, policies=policies, cost=cost, **options), batches, policies, cost, **options)


def test_the_name_balanced_decides_by_the_cost_model_of_the_sweep():
    cost = cost_model("A100", cache="bf16")
    costly = dataclasses.replace(cost, constants=dataclasses.replace(cost.constants, descriptor_ns=40_000))
    rng = np.random.default_rng(5)
    batches = [rng.integers(1, 20_000, rng.integers(1, 30)) for _ in range(40)]
    default = dataclasses.replace(balanced(), name="by default")
    told = dataclasses.replace(balanced(costly), name="told")
    found = sweep(batches, policies=["balanced", told, default], num_kv_heads=1, num_ctas=432, cost=costly)
    assert (found.call_us[0] == found.call_us[1]).all()
    assert (found.call_us[0] != found.call_us[2]).any()


def test_ranges_are_the_sweep_and_a_user_policy_takes_part():
    rng = np.random.default_rng(0)
    batches = [rng.integers(0, 20_000, rng.integers(0, 30)) for _ in range(23)]
    options = {"policies": ["hpc-ops", whole_requests], "num_kv_heads": 1, "num_ctas": 132}
    found = list(sweep_ranges(batches, size=5, **options))
    assert [steps for steps, _ in found] == [range(a, min(a + 5, 23)) for a in range(0, 23, 5)]
    joined, whole = Sweep.join(part for _, part in found), sweep(batches, **options)
    pd_joined, pd_whole = joined.to_frame(), whole.to_frame()
    assert pd_joined.equals(pd_whole)
    assert_same(whole, batches, options["policies"], None, num_kv_heads=1, num_ctas=132)
    assert whole.source == cost_model().source


def test_progress_and_no_steps():
    seen = []
    none = sweep([], policies=["lpt"], num_kv_heads=1, num_ctas=4, progress=lambda *done: seen.append(done))
    assert none.num_steps == 0
    assert seen == [(0, 0)]
    sweep([[5]] * 600, policies=["lpt"], num_kv_heads=1, num_ctas=4, progress=lambda *done: seen.append(done))
    assert seen[1:] == [(256, 600), (512, 600), (600, 600)]


def test_worst_steps():
    batches = [[4096] * 8, [131_072, 64], [4096] * 8, [65_536, 64], [131_000, 64], [4096] * 8]
    found = sweep(batches, policies=["hpc-ops", "fixed_splits(1)"], num_kv_heads=1, num_ctas=64)
    ratio = found.call_us[1] / found.call_us.min(axis=0)
    assert found.worst("fixed_splits(1)", 3).tolist() == np.argsort(-ratio)[:3].tolist()
    apart = found.worst("fixed_splits(1)", 3, apart=3).tolist()
    assert apart[0] == int(np.argmax(ratio))
    assert all(abs(a - b) >= 3 for i, a in enumerate(apart) for b in apart[:i])
    assert found.worst(0, 99).size == len(batches)


def test_what_plan_decode_refuses_is_refused():
    def lazy(lengths, num_kv_heads, num_ctas, tile):
        return []

    options = {"num_kv_heads": 1, "num_ctas": 4}
    for policies, batches in (
        ([], [[1]]),
        (["lpt", "lpt"], [[1]]),
        (["nearest"], [[1]]),
        (["fixed_chunk(100)"], [[1]]),
        (["lpt"], [[1], [-1]]),
        (["lpt"], [[1], [1.5]]),
        (["fixed_splits(65536)"], [[1], [1] * 300]),
    ):
        with pytest.raises(InvalidArgument):
            sweep(batches, policies=policies, **options)
    with pytest.raises(InvalidPlan, match="assigned to no CTA"):
        sweep([[0], [1]], policies=[lazy], **options)
    with pytest.raises(InvalidArgument, match="hpc-ops"):
        sweep([[1]], policies=["hpc-ops"], **options).worst("lpt")
