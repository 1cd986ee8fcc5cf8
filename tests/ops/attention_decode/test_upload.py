"""The device form of a plan: a CTA that follows it does what the plan says, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.attention_decode.cases import shuffled
from workbench.errors import InvalidArgument, InvalidPlan, NoGpu
from workbench.gpu import driver
from workbench.ops.attention_decode import TaskMap, upload_plan, write_dense
from workbench.ops.attention_decode.upload import descriptor_rows
from workbench.schedule import DecodePlan, plan_decode

POLICIES: list[Any] = ["hpc-ops", "balanced", "lpt", "fixed_splits(3)", "fixed_chunk(128)", shuffled]

plans = st.builds(
    plan_decode,
    st.lists(st.sampled_from([0, 1, 63, 64, 65, 500, 3000]), max_size=12),
    num_kv_heads=st.integers(1, 3),
    num_ctas=st.integers(1, 20),
    policy=st.sampled_from(POLICIES),
    tile=st.sampled_from([32, 64, 128]),
    min_process_len=st.sampled_from([0, 64, 512]),
    q_len=st.integers(1, 4),
)


def follow(rows: np.ndarray, num_bins: int) -> list[list[np.ndarray]]:
    """The descriptors that each CTA meets, in its order."""
    bins = []
    for cta in range(num_bins):
        at, met = (cta if rows[cta, 3] else -1), []
        while at >= 0:
            met.append(rows[at])
            at = int(rows[at, 8])
        bins.append(met)
    return bins


@given(plans)
def test_following_the_rows_is_the_plan(plan: DecodePlan) -> None:
    rows, empties, _ = descriptor_rows(plan)
    bins = follow(rows, plan.num_bins)
    assert [len(met) for met in bins] == np.diff(plan.bin_offsets).tolist()
    met = [row for each in bins for row in each]
    for row, descriptor in zip(met, plan.descriptors, strict=True):
        request, head, first, tokens, length, _, pieces, *_ = row.tolist()
        assert (request, head) == (descriptor["request"], descriptor["kv_head"])
        assert (first, tokens) == (descriptor["first_token"], descriptor["num_tokens"])
        assert (length, pieces) == (plan.lengths[request], plan.chunk_counts[head, request])
    assert empties.tolist() == np.flatnonzero(plan.lengths == 0).tolist()


@given(plans)
def test_pieces_have_slots_of_their_own_and_numbers_in_the_order_of_their_ctas(plan: DecodePlan) -> None:
    """Whoever has a higher number may wait for the lower ones, so these must lie in earlier CTAs or before it."""
    rows, _, num_slots = descriptor_rows(plan)
    slots: list[int] = []
    numbers: dict[tuple[int, int], list[int]] = {}
    for met in follow(rows, plan.num_bins):
        for request, head, _, _, _, number, pieces, base, *_ in (row.tolist() for row in met):
            numbers.setdefault((head, request), []).append(number)
            if pieces > 1:
                slots.append(base + number)
    assert all(found == list(range(len(found))) for found in numbers.values())
    assert len(set(slots)) == len(slots)
    assert all(0 <= slot < num_slots for slot in slots)


@given(plans)
def test_a_map_reads_back_as_its_plan(plan: DecodePlan) -> None:
    task_map = upload_plan(plan, "cpu")
    assert np.array_equal(task_map.plan(plan.lengths).descriptors, plan.descriptors)
    assert (task_map.batch, task_map.q_len) == (plan.problem.batch, plan.q_len)
    assert task_map.num_bins == max(plan.num_bins, 1)
    assert int(task_map.header[0]) == int((plan.lengths == 0).sum())


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"num_tiles": [1, 1]}, "request 0: tiles? 1 .*assigned to no CTA"),
        ({"first_tile": [0, 1]}, "request 0: tiles? 1 assigned twice, to CTA 0 and CTA 1"),
        ({"num_tiles": [2, 9]}, "reads past the end: request 0 has 4 tiles"),
        ({"request": [0, 7]}, "names something that does not exist"),
    ],
    ids=["left out", "twice", "outside", "no such request"],
)
def test_a_wrong_plan_is_refused_in_the_validators_words(columns: dict[str, list[int]], words: str) -> None:
    plan = plan_decode(
        [200], num_kv_heads=1, num_ctas=2, policy=lambda *_: [[(0, 0, 0, 2)], [(0, 0, 2, 2)]], min_process_len=0
    )
    upload_plan(plan, "cpu")
    wrong = replace(plan, **{name: np.array(values, np.int32) for name, values in columns.items()})
    with pytest.raises(InvalidPlan, match=words):
        upload_plan(wrong, "cpu")


def test_a_users_wrong_scheduler_never_gets_that_far() -> None:
    with pytest.raises(InvalidPlan, match="assigned to no CTA"):
        plan_decode([200], num_kv_heads=1, num_ctas=2, policy=lambda *_: [[(0, 0, 0, 2)], []])


def test_the_dense_format_is_upstreams_only() -> None:
    lengths = torch.tensor([100, 200], dtype=torch.int32)

    def uploaded(**arguments: Any) -> TaskMap:
        return upload_plan(plan_decode([100, 200], num_kv_heads=1, num_ctas=4, **arguments), "cpu")

    for task_map in (uploaded(policy="balanced"), uploaded(policy="hpc-ops", tile=32)):
        with pytest.raises(InvalidArgument, match="the dense format exists for policy hpc-ops with 64-token tiles"):
            write_dense(task_map, lengths)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, r"the map is on cpu.*DecodePlan.encode\(\)"),
        ({"lengths": torch.tensor([100], dtype=torch.int32)}, r"lengths has shape \(1,\); the map was built for 2 req"),
        ({"lengths": [100, 200]}, "lengths is a list; give the int32 tensor"),
        ({"task_map": "map"}, r"task_map is a str; give what build_task_map\(...\) returns"),
    ],
    ids=["on a CPU", "another batch", "no lengths", "no map"],
)
def test_the_dense_format_refuses(changes: dict[str, Any], message: str) -> None:
    made = upload_plan(plan_decode([100, 200], num_kv_heads=1, num_ctas=4, policy="hpc-ops"), "cpu")
    with pytest.raises(InvalidArgument, match=message):
        write_dense(**{"task_map": made, "lengths": torch.tensor([100, 200], dtype=torch.int32), **changes})


PLAN = plan_decode([100, 200], num_kv_heads=1, num_ctas=4)


@pytest.mark.parametrize("plan", [None, "plan", PLAN.as_lists(), PLAN.to_json()], ids=["None", "str", "lists", "JSON"])
def test_what_is_no_plan_is_refused(plan: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"plan is a \w+; give what plan_decode\(...\) or DecodePlan.from_json"):
        upload_plan(plan, "cpu")


@pytest.mark.parametrize("device", ["gpu", "cuda:x", None, "meta", [0]])
def test_what_is_no_device_is_refused(device: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"device is .*; give 'cuda', a GPU such as 'cuda:1', or 'cpu'"):
        upload_plan(PLAN, device)


@pytest.mark.skipif(driver.probe().problem is None, reason="this machine has a GPU")
@pytest.mark.parametrize("arguments", [(), ("cuda",), ("cuda:3",), (torch.device("cuda"),)], ids=str)
def test_without_a_gpu_an_upload_says_so(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(NoGpu, match="driver"):
        upload_plan(PLAN, *arguments)


def test_a_torch_without_cuda_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "require_gpu", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NoGpu, match=r"torch .* is not built for CUDA.*pip install torch==.*device='cpu'"):
        upload_plan(PLAN)


def test_lengths_of_another_batch_do_not_read_a_map_back() -> None:
    with pytest.raises(InvalidArgument, match="lengths has 1 requests, and the map was made for 2"):
        upload_plan(PLAN, "cpu").plan([100])
