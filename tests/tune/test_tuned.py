"""From a study to the default: kept, found by the operators, refused where it is not surely faster."""

from __future__ import annotations

import pytest

from tests.tune.fake_bench import GPU, FakeFactory, small_space
from workbench.errors import InvalidArgument, TableError
from workbench.gpu import tuned as gpu_tuned
from workbench.ops.attention_decode.config import AttentionShape
from workbench.ops.attention_decode.config import default_config as attention_default
from workbench.ops.attention_decode.tuned import chosen_config
from workbench.ops.router_gemm import default as router_default
from workbench.tables.tuned import load_tuned, tuned_path
from workbench.tune.measure import Effort
from workbench.tune.spaces import attention_space
from workbench.tune.study import Result, Study
from workbench.tune.study_trials import Finalist
from workbench.tune.tuned import applicable, apply, withdraw
from workbench.tune.workers_local import LocalPool

EFFORT = Effort(first=1, rounds=3, finalists=8, final_rounds=9)


def forget():
    for cached in (load_tuned, gpu_tuned.own_table, router_default.own, router_default.default_config):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def on_an_h200(tmp_path, monkeypatch):
    """The driver shows one H200; tables lie in a folder of the test."""
    monkeypatch.setenv("WORKBENCH_TABLES_DIR", str(tmp_path / "tables"))
    monkeypatch.setattr(gpu_tuned, "probe", lambda: type("Status", (), {"problem": None, "device_count": 2}))
    monkeypatch.setattr(gpu_tuned, "device", lambda index: type("Device", (), {"name": GPU}))
    forget()
    yield
    forget()


def run(space, path, **ill):
    with Study(space, path, gpu=GPU, effort=EFFORT) as study, LocalPool(FakeFactory(**ill)) as pool:
        study.run(pool)
        return study, study.finals(pool)


def test_the_routers_best_is_what_runs_next(tmp_path):
    space = small_space()
    study, result = run(space, tmp_path / "s")
    before = router_default.default_config(64, 192, 4096)
    path = apply(study, result, sms=132)
    assert path == tuned_path(GPU, "router_gemm")
    assert path.parent.name == "h200"
    forget()
    chosen = router_default.default_config(64, 192, 4096)
    assert chosen.to_dict() == result.best.config != before.to_dict()
    assert router_default.default_config(64, 192, 4096, terms=3).to_dict() != chosen.to_dict()
    entry = load_tuned(GPU, "router_gemm").find({"m": 64, "n": 192, "k": 4096, "terms": 2})
    assert entry.gain_low > 0
    assert entry.cases == ("K4096-N192-M64",)
    assert apply(study, result, sms=132) == path  # again: one entry a key
    assert len(load_tuned(GPU, "router_gemm").entries) == 1
    assert withdraw(space, GPU)
    assert not withdraw(space, GPU)
    forget()
    assert router_default.default_config(64, 192, 4096) == before


def test_attention_takes_what_a_default_may_set(tmp_path):
    space = attention_space("64x4K").restrict(stages=(3, 4), tile=(32, 64), ctas_per_sm=(1, 2), prefetch=(0, 1))
    study, result = run(space, tmp_path / "s")
    shape = AttentionShape()
    assert result.best.config["tile"] == 32  # the fastest of all is for callers who say so
    best = applicable(space, result)
    apply(study, result, sms=132)
    forget()
    chosen = chosen_config(shape)
    assert chosen.to_dict() == best.config
    assert (chosen.tile, chosen.ctas_per_sm, chosen.early_map) == (64, 1, False)
    assert chosen != attention_default(shape)
    assert chosen_config(AttentionShape(group=4)) == attention_default(AttentionShape(group=4))


def test_no_finalist_that_could_be_the_default(tmp_path):
    space = attention_space("64x4K").restrict(stages=3, tile=(32, 128), prefetch=1)
    study, result = run(space, tmp_path / "s")
    with pytest.raises(InvalidArgument, match="no finalist could be a default: each changes ctas_per_sm, tile"):
        apply(study, result, sms=132)


def test_what_is_not_surely_faster_stays(tmp_path):
    space = small_space(tile_n=16, stages=2, split_k=(1, 2))
    study, result = run(space, tmp_path / "s")
    with pytest.raises(InvalidArgument, match="clearly slower than the default"):
        apply(study, result, sms=132)
    near = small_space(tile_n=32, stages=(7, 8), split_k=8)
    study, result = run(near, tmp_path / "near")
    slower = Result(result.finalists, Finalist(result.default.config, (4.0,) * 9, (4.0,) * 9))
    others = tuple(Finalist(each.config, each.samples_us, (4.0,) * 9) for each in slower.finalists)
    with pytest.raises(InvalidArgument, match="not surely faster"):
        apply(study, Result(others, slower.default), sms=132)
    assert not tuned_path(GPU, "router_gemm").exists()
    assert apply(study, Result(others, slower.default), sms=132, force=True).exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "no table of tuned configurations"),
        (b'{"gpu": "NVIDIA H200", "sms": 132, "operator": "router_gemm", "entries": [{}]}', "entries.0.key"),
        (b'{"gpu": "NVIDIA H200", "sms": 132, "operator": "attention_decode"}', "holds a table of attention_decode"),
        (b'{"gpu": "NVIDIA H20", "sms": 78, "operator": "router_gemm"}', "on NVIDIA H20"),
    ],
)
def test_a_damaged_table_is_named(content, words):
    path = tuned_path(GPU, "router_gemm")
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(TableError, match=words) as told:
        router_default.default_config(64, 192, 4096)
    assert str(path) in str(told.value)


def test_a_configuration_that_no_longer_runs_is_told(tmp_path):
    study, result = run(small_space(), tmp_path / "s")
    path = apply(study, result, sms=132)
    path.write_text(path.read_text().replace('"tile_n": 32', '"tile_n": 40'))
    forget()
    with pytest.raises(TableError, match=r"a tuned configuration of the router cannot be used: .*tile_n is 40"):
        router_default.default_config(64, 192, 4096)


def test_gpus_of_several_models_have_no_table_of_their_own(monkeypatch):
    names = iter(("NVIDIA H200", "NVIDIA H20"))
    monkeypatch.setattr(gpu_tuned, "device", lambda index: type("Device", (), {"name": next(names)}))
    assert gpu_tuned.own_table("router_gemm") is None
