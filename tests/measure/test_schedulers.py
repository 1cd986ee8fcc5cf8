"""Whether the kernel can run here is told in words, and schedulers that run on it are checked, timed and named."""

import dataclasses

import numpy as np
import pytest

from workbench.errors import NoGpu
from workbench.gpu.driver import Device, DriverStatus, probe
from workbench.measure import schedulers
from workbench.measure.attention_case import AttentionCase
from workbench.measure.schedulers import Named, kernel_problem, measure_schedulers
from workbench.schedule import hpc_ops, plan_decode, resolve
from workbench.workloads import parse_lengths

H200 = Device(0, "NVIDIA H200", (9, 0), 132, 150 << 30, 60 << 20, 228 << 10, 227 << 10, 65536, 2048)


def one_cta(lengths, num_kv_heads, num_ctas, tile):
    """Everything on the last CTA."""
    tiles = -(-lengths // tile)
    work = [(head, r, 0, int(n)) for head in range(num_kv_heads) for r, n in enumerate(tiles) if n]
    return [[] for _ in range(num_ctas - 1)] + [work]


def broken(lengths, num_kv_heads, num_ctas, tile):
    raise ZeroDivisionError("nothing to share")


def forgetful(lengths, num_kv_heads, num_ctas, tile):
    return one_cta(lengths, num_kv_heads, num_ctas, tile)[:-1]


def pretend(monkeypatch, device):
    monkeypatch.setattr(schedulers.driver, "probe", lambda: DriverStatus((13, 0), 1, None))
    monkeypatch.setattr(schedulers.driver, "device", lambda: device)


def test_no_gpu_is_told_as_the_driver_tells_it(monkeypatch):
    monkeypatch.setattr(schedulers.driver, "probe", lambda: DriverStatus(None, 0, "There is none. Buy one."))
    assert kernel_problem() == "There is none. Buy one."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "NVIDIA L40S", "compute_capability": (8, 9)}, "NVIDIA L40S (compute capability 8.9) is here"),
        ({"name": "NVIDIA H100 PCIe"}, "needs a GPU of the catalogue: H100, H200 or H20"),
    ],
)
def test_a_gpu_that_does_not_do(monkeypatch, changes, words):
    pretend(monkeypatch, dataclasses.replace(H200, **changes))
    assert words in kernel_problem()


def test_torch_is_missing_or_cannot(monkeypatch):
    pretend(monkeypatch, H200)
    monkeypatch.setattr(schedulers, "find_spec", lambda name: None)
    assert kernel_problem().startswith("torch is not installed")
    monkeypatch.undo()
    pretend(monkeypatch, H200)
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "is not built for CUDA, so it cannot use NVIDIA H200" in kernel_problem()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert kernel_problem() == ""


def test_a_named_policy_plans_the_same_under_its_name():
    arguments = {"num_kv_heads": 2, "num_ctas": 12}
    plain = plan_decode([900, 0, 70], policy="hpc-ops", **arguments)
    named = plan_decode([900, 0, 70], policy=Named("theirs", hpc_ops()), **arguments)
    assert named.policy == "theirs"
    assert named.as_lists() == plain.as_lists()


def test_built_in_policies_keep_their_type():
    """By which the GPU knows that it can build their map."""
    assert schedulers._named("hpc-ops", resolve("hpc-ops")) == hpc_ops()
    assert schedulers._named("mine", resolve(one_cta)).name == "mine"


@pytest.mark.skipif(not probe().problem, reason="a GPU is here")
def test_measuring_needs_a_gpu():
    with pytest.raises(NoGpu):
        measure_schedulers(AttentionCase("2x1K", np.array([1024, 1024])), {"hpc-ops": "hpc-ops"})


@pytest.mark.gpu
def test_right_schedulers_are_timed_and_wrong_ones_told():
    case = AttentionCase("40x2K", parse_lengths("40x2K"))
    asked = {"one": one_cta, "broken": broken, "forgetful": forgetful, "hpc-ops": "hpc-ops", "balanced": "balanced"}
    read, *figures = measure_schedulers(case, asked, rounds=5)
    found = dict(zip(asked, figures, strict=True))
    assert read.is_read
    assert {figure.policy for figure in figures} == set(asked)
    assert {name: figure.state for name, figure in found.items()} == {
        "one": "timed", "broken": "failed", "forgetful": "failed", "hpc-ops": "timed", "balanced": "timed",
    }  # fmt: skip
    assert found["broken"].reason == "ZeroDivisionError: nothing to share"
    assert "assigned to no CTA" in found["forgetful"].reason
    assert all(f.origin.startswith("measured now") and f.rel_error < 0.004 for f in figures if f.state == "timed")
    assert found["one"].median_us > 10 * found["hpc-ops"].median_us > 10 * read.median_us / 3
