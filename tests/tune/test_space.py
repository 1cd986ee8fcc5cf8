"""Spaces: counted and filtered against plain loops, refusals with reasons, quick, and without torch."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from workbench.errors import InvalidArgument
from workbench.ops.attention_decode import cuda as attention_cuda
from workbench.ops.attention_decode import default_config as attention_default
from workbench.ops.attention_decode.config import PARAMETERS as ATTENTION
from workbench.ops.attention_decode.config import AttentionConfig
from workbench.ops.router_gemm import cuda as router_cuda
from workbench.ops.router_gemm import default_config as router_default
from workbench.ops.router_gemm.config import PARAMETERS as ROUTER
from workbench.ops.router_gemm.config import RouterConfig
from workbench.schedule import plan_decode
from workbench.tune.space import key_of
from workbench.tune.spaces import attention_space, router_space, space_from

ROOT = Path(__file__).resolve().parents[2]
SPACES = {
    "attention": attention_space("2x32K + 30x4K"),
    "bf16": attention_space("64x4K", cache="bf16", head_dim=256, group=16),
    "router": router_space(64, 192, 4096).restrict(stages=(2, 4, 12)),
    "three terms": router_space(300, 384, 3072, terms=3).restrict(stages=(2, 12)),
}


@pytest.mark.parametrize("name", SPACES)
def test_valid_and_refused_are_all_combinations_and_each_refusal_has_its_reason(name):
    space = SPACES[name]
    product = list(itertools.product(*space.parameters.values()))
    assert len(space) + len(space.refused) == len(product)
    listed = list(space)
    assert len(set(map(key_of, listed))) == len(listed)
    assert all(space.why_invalid(config) is None and config in space for config in listed)
    for refused in space.refused:
        assert space.why_invalid(space.make(refused.values)) == refused.reason
        assert space.make(refused.values) not in space


def test_reasons_are_those_of_the_operators():
    reasons = Counter(refused.reason for refused in SPACES["attention"].refused)
    assert "2 CTAs of 133,760 bytes of shared memory do not fit an SM" in reasons
    wide = router_space(64, 192, 4096).restrict(stages=12, tile_m=128, tile_n=128, split_k=1, multicast=1)
    (refused,) = wide.refused
    assert refused.reason == "shared memory 590,032 > 232,448 bytes"
    short = router_space(64, 192, 256).restrict(tile_m=64, tile_n=32, stages=2, split_k=(4, 5), multicast=(1, 2))
    assert {(r.values["split_k"], r.values["multicast"]): r.reason for r in short.refused} == {
        (4, 2): "multicast 2 shares among several tiles, and M 64 has one",
        (5, 1): "split_k 5 > 4 blocks of 64 in K 256",
        (5, 2): "split_k 5 > 4 blocks of 64 in K 256",
    }


def test_whole_spaces_are_what_the_kernels_declare():
    assert attention_space("64x4K", whole=True).parameters == ATTENTION
    assert router_space(64, 192, 4096, whole=True).parameters == ROUTER


def test_defaults_kernels_and_launches_are_those_of_the_operators():
    attention, router = SPACES["attention"], SPACES["router"]
    assert attention.default() == attention_default(attention.shape)
    assert type(attention.default()) is AttentionConfig
    assert router.default() == router_default(64, 192, 4096)
    assert type(router.default()) is RouterConfig
    for config in list(attention)[::17]:
        assert attention.job(config) == attention_cuda.job(attention.shape, config)
        assert attention.launch(config).shared_bytes == config.shared_bytes(attention.shape)
        assert attention.launch(config).ctas == 132 * config.ctas_per_sm
    for config in list(router)[::17]:
        assert router.job(config) == router_cuda.job(config)
        assert router.launch(config).ctas == router_cuda.grid(config, 64, 192, 132)
    many = router_space(8192, 192, 4096)
    assert all(many.launch(c).ctas == router_cuda.grid(c, 8192, 192, 132) for c in list(many)[::501])


def test_modelled_times_are_those_of_the_models():
    space = SPACES["attention"]
    config = space.config(tile=32, ctas_per_sm=2, warps=4)
    plan = plan_decode(space.case.lengths, num_kv_heads=1, num_ctas=264, tile=32)
    assert space.modelled_us(config) == plan.metrics().call_us
    assert space.modelled_us(config, "H20") > space.modelled_us(config)
    router = SPACES["router"]
    ranked = router.promising(5)
    assert ranked[0] == router.default()
    assert [router.modelled_us(c) for c in ranked[1:]] == sorted(router.modelled_us(c) for c in ranked[1:])
    assert router.modelled_us(ranked[1]) == min(map(router.modelled_us, router))


def test_restricting_and_single_configurations():
    space = SPACES["attention"]
    few = space.restrict(stages=(5, 3, 3), warps=8, prefetch=8)
    assert few.parameters["stages"] == (5, 3)
    assert {(c.warps, c.stages, c.prefetch) for c in few} == {(8, 5, 8), (8, 3, 8)}
    assert space.restrict(pdl=False).parameters["pdl"] == (False,)
    assert space.config(stages=5).stages == 5
    assert space.config(stages=5).warps == space.default().warps
    assert {(c.tile, c.ctas_per_sm) for c in space.applicable()} == {(64, 1)}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"tiles": 4}, "no parameter 'tiles'; it has warps, stages"),
        ({"stages": ()}, "stages is ()"),
        ({"stages": True}, "give int values such as 2"),
        ({"pdl": 1}, "give bool values such as True"),
        ({"tile": (64, "128")}, "give int values"),
    ],
)
def test_what_cannot_be_restricted(wanted, words):
    with pytest.raises(InvalidArgument) as told:
        SPACES["attention"].restrict(**wanted)
    assert words in str(told.value)


def test_a_configuration_that_cannot_run_says_why():
    with pytest.raises(InvalidArgument, match=r"cannot run 2x32K\+30x4K: shared memory 297,760 > 232,448"):
        SPACES["attention"].config(stages=8, warps=8)
    with pytest.raises(InvalidArgument, match="no parameter 'split'"):
        SPACES["router"].config(split=3)
    with pytest.raises(InvalidArgument, match="multiples of 8"):
        router_space(4, 100, 4096)
    with pytest.raises(InvalidArgument, match="has 4 terms"):
        router_space(4, 128, 4096, terms=4)


@pytest.mark.parametrize("name", SPACES)
def test_spaces_survive_json(name):
    space = SPACES[name]
    again = space_from(json.loads(json.dumps(space.to_dict())))
    assert type(again) is type(space)
    assert (again.to_dict(), list(again), again.workload) == (space.to_dict(), list(space), space.workload)


def test_what_describes_no_space():
    with pytest.raises(InvalidArgument, match="operator 'fused_moe' has no space"):
        space_from({"operator": "fused_moe"})
    with pytest.raises(InvalidArgument, match="describes no space: KeyError"):
        space_from({"operator": "router_gemm"})


def test_hundreds_of_configurations_are_listed_while_a_reader_waits():
    """A fifth of a second is meant; processor time, and five times that, whatever else this machine does."""
    space = attention_space("1x128K+31x4K").restrict(stages=(2, 3, 4, 5, 6, 7, 8))
    started = time.process_time()
    assert len(list(space)) >= 200
    assert all(refused.reason for refused in space.refused)
    assert time.process_time() - started < 1


def test_no_torch_is_needed():
    code = (
        "import sys; sys.modules['torch'] = None\n"  # None: Python finds no such package
        "from workbench.tune.spaces import attention_space, router_space\n"
        "a, r = attention_space('64x4K'), router_space(64, 192, 4096)\n"
        "print(len(a), len(r), a.modelled_us(a.default()), r.modelled_us(r.default()), a.default(), r.default())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "AttentionConfig(warps=8" in done.stdout
    assert "RouterConfig(tile_m=" in done.stdout
