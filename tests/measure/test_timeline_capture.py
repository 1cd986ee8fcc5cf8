"""What surrounds the launch: which row of the map is whose, and, on a GPU, the launch itself."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.errors import InvalidArgument
from workbench.measure.timeline_capture import rows_of
from workbench.schedule import plan_decode

torch = pytest.importorskip("torch")

from workbench.ops.attention_decode.upload import descriptor_rows  # noqa: E402

LENGTHS = [32768, 0, 4096, 100, 4096, 9000]


@pytest.mark.parametrize("policy", ["balanced", "hpc-ops", "lpt", "fixed_splits(8)"])
def test_each_row_holds_its_descriptor(policy):
    plan = plan_decode(LENGTHS, num_kv_heads=2, num_ctas=13, policy=policy)
    map_rows = descriptor_rows(plan)[0]
    rows = rows_of(plan, map_rows)
    assert np.unique(rows).size == plan.num_descriptors
    d = plan.descriptors
    for column, name in enumerate(("request", "kv_head", "first_token", "num_tokens")):
        np.testing.assert_array_equal(map_rows[rows, column], d[name])


def test_a_map_of_another_plan_is_refused():
    plan, other = (plan_decode(LENGTHS, num_kv_heads=2, num_ctas=13, policy=p) for p in ("hpc-ops", "fixed_splits(8)"))
    with pytest.raises(InvalidArgument, match="descriptors of the plan"):
        rows_of(plan, descriptor_rows(other)[0])


@pytest.mark.gpu
@pytest.mark.parametrize("cache", ["fp8", "bf16"])
@pytest.mark.parametrize("policy", ["balanced", "hpc-ops", "fixed_splits(8)"])
@pytest.mark.parametrize("alone", [False, True])
def test_a_call_leaves_stamps_that_fit_its_plan(cache, policy, alone):
    from workbench.measure.attention_case import AttentionCase
    from workbench.measure.timeline_capture import capture_timeline
    from workbench.measure.timeline_run import early_config, input_sets, plan_here
    from workbench.schedule import resolve

    case = AttentionCase("2x8K+6x1K", np.array([8192] * 2 + [1024] * 6), cache)
    sets, config = input_sets(case)[:3], early_config(case)
    plan = plan_here(case, resolve(policy), config)
    captured = capture_timeline(plan, sets, config, runs=6, alone=alone)
    assert len(captured.makespans_us) >= 6
    assert captured.timeline.makespan_us in captured.makespans_us
    assert 2 < captured.timeline.makespan_us < 200
    # Every SM holds what was planned for it, and the call reads no faster than the memory can.
    assert captured.timeline.by_sm()["ctas"].sum() == np.count_nonzero(np.diff(plan.bin_offsets))
    assert case.kv_bytes / (captured.timeline.makespan_us * 1e-6) < 20e12


@pytest.mark.gpu
def test_stamps_do_not_change_the_result():
    from workbench.measure.attention_inputs import make_inputs
    from workbench.measure.stamps import COLUMNS
    from workbench.measure.timeline_capture import stamped_call
    from workbench.ops.attention_decode import default_config, upload_plan
    from workbench.ops.attention_decode.checks import infer_shape

    inputs = make_inputs(LENGTHS, kv_heads=2)
    plan = plan_decode(LENGTHS, num_kv_heads=2, num_ctas=132, policy="hpc-ops")
    config = default_config(infer_shape(inputs.q, inputs.k_cache, 1, inputs.k_scale))
    task_map = upload_plan(plan)
    stamps = torch.zeros((task_map.map.shape[0], len(COLUMNS)), dtype=torch.int64, device="cuda")
    plain = stamped_call(inputs, task_map, config, None)()
    stamped = stamped_call(inputs, task_map, config, stamps)()
    torch.testing.assert_close(plain, stamped, rtol=0, atol=0)


@pytest.mark.gpu
def test_inputs_that_do_not_fit_are_refused():
    from workbench.measure.attention_inputs import make_inputs
    from workbench.measure.timeline_capture import capture_timeline

    plan = plan_decode(LENGTHS, num_kv_heads=2, num_ctas=132)
    sets = [make_inputs([5, 6], kv_heads=2) for _ in range(2)]
    with pytest.raises(InvalidArgument, match="other lengths"):
        capture_timeline(plan, sets)
    with pytest.raises(InvalidArgument, match="at least 2 sets"):
        capture_timeline(plan, sets[:1])


@pytest.fixture
def kernel_of_paper(monkeypatch):
    """The launch, acted: it writes the stamps of a call under the cost model, each call a little longer.

    Returns the list of lengths, microseconds, of the calls made so far.
    """
    from tests.measure.synthetic import stamps_of
    from workbench.measure import timeline_capture as module
    from workbench.schedule import cost_model

    made: list[float] = []

    def act(plan):
        rows = rows_of(plan, descriptor_rows(plan)[0])

        def launch(shape, config, *, timeline, **given):
            cost = cost_model(cache=shape.cache)
            written = stamps_of(plan, cost, noise=0.05, seed=len(made))
            whole = np.zeros(tuple(timeline.shape), np.uint64)
            whole[rows] = written
            timeline.copy_(torch.from_numpy(whole.view(np.int64)))
            made.append(float((written[:, [4, 9]].max() - written[:, 0].min()) / 1e3))
            assert given["num_bins"] == plan.num_bins

        monkeypatch.setattr(module, "launch", launch)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        return made

    return act


@pytest.mark.parametrize("policy", ["balanced", "hpc-ops", "fixed_splits(8)"])
def test_the_call_of_median_length_is_kept(kernel_of_paper, policy):
    from workbench.measure.attention_inputs import make_inputs
    from workbench.measure.timeline_capture import capture_timeline

    lengths = [2048, 0, 300, 900]
    plan = plan_decode(lengths, num_kv_heads=1, num_ctas=12, policy=policy)
    made = kernel_of_paper(plan)
    sets = [make_inputs(lengths, cache="bf16", query="bf16", seed=s, device="cpu") for s in range(3)]
    captured = capture_timeline(plan, sets, runs=7, alone=True)
    assert captured.makespans_us == tuple(made[-9:])  # whole rounds over the three sets
    assert captured.timeline.makespan_us == sorted(made[-9:])[4]
    assert captured.timeline.plan is plan


def test_a_call_that_stamps_nothing_is_an_error(kernel_of_paper, monkeypatch):
    from workbench.errors import TimelineError
    from workbench.measure import timeline_capture as module
    from workbench.measure.attention_inputs import make_inputs

    lengths = [2048, 900]
    plan = plan_decode(lengths, num_kv_heads=1, num_ctas=12)
    kernel_of_paper(plan)
    sets = [make_inputs(lengths, cache="bf16", query="bf16", seed=s, device="cpu") for s in range(2)]
    monkeypatch.setattr(module, "launch", lambda *_, **__: None)
    with pytest.raises(TimelineError, match="have no stamps"):
        module.capture_timeline(plan, sets, runs=1, alone=True)
