"""Resources of compiled configurations: what the compiler says, residency, waves; failures are rows; machine code."""

from __future__ import annotations

import dataclasses
import os

import pytest

from workbench.errors import CompileError, InvalidArgument
from workbench.gpu.ahead import Job
from workbench.gpu.compile import forget, is_compiled
from workbench.records import Store
from workbench.tune.resources import record_of, resources, table
from workbench.tune.resources_sass import listing, machine_code
from workbench.tune.spaces import attention_space, router_space

ATTENTION = attention_space("64x4K")
ROUTER = router_space(1024, 192, 4096)
CONFIGS = [ROUTER.config(tile_m=64, tile_n=32, stages=s, split_k=k, multicast=1) for s in (4, 6) for k in (1, 2)]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Four configurations of the router, compiled into a cache of their own."""
    old = os.environ.get("WORKBENCH_CACHE_DIR")
    os.environ["WORKBENCH_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    steps: list[tuple[int, int]] = []
    yield resources(ROUTER, CONFIGS, progress=lambda done, total: steps.append((done, total))), steps
    os.environ.pop("WORKBENCH_CACHE_DIR") if old is None else os.environ.update(WORKBENCH_CACHE_DIR=old)


def test_facts_are_the_compilers_and_progress_counts_up(found):
    rows, steps = found
    assert steps == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    for each, config in zip(rows, CONFIGS, strict=True):
        facts = ROUTER.job(config).compile().facts
        row = each.to_row()
        assert {name: row[name] for name in config.to_dict()} == config.to_dict()
        assert row["registers"] == facts.registers > 0
        assert row["spill_store_bytes"] == 0
        assert row["shared_bytes"] == facts.shared_bytes + config.shared_bytes(2)
        assert (row["threads"], row["problem"]) == (160, "")
        resident = 233_472 // (row["shared_bytes"] + 1024)
        assert row["resident_ctas"] == min(resident, 65536 // (row["registers"] * 160))
        assert row["limited_by"] == "shared memory"
        assert row["waves"] == pytest.approx(row["ctas"] / (132 * row["resident_ctas"]))
        assert row["modelled_us"] == ROUTER.modelled_us(config)


def test_the_second_time_comes_from_the_cache(found):
    rows, _ = found
    forget()
    steps: list[tuple[int, int]] = []
    again = resources(ROUTER, CONFIGS, progress=lambda *at: steps.append(at))
    assert steps == [(4, 4)], "one was compiled again"
    assert [each.to_row() for each in again] == [each.to_row() for each in rows]
    job = ROUTER.job(CONFIGS[0])
    assert is_compiled(job.source, job.entry, defines=job.defines)
    assert not is_compiled(job.source, job.entry, defines={**job.defines, "STAGES": 5})


def test_a_table_has_a_row_a_configuration(found):
    frame = table(found[0])
    assert list(frame["stages"]) == [4, 4, 6, 6]
    assert list(frame["split_k"]) == [1, 2, 1, 2]
    assert frame["registers"].dtype.kind == "i"


def test_records_hold_the_same(found, tmp_path):
    store = Store(tmp_path)
    for each in found[0]:
        record = record_of(each, ROUTER)
        assert record is not None
        store.add(record)
    (row, *others) = store.rows(operator="router_gemm", kind="resources", gpu="H200")
    assert len(others) == 3
    assert row["case"] == "K4096-N192-M1024"


def test_a_configuration_that_is_given_twice_has_two_rows(found):
    twice = [CONFIGS[0], CONFIGS[1], CONFIGS[0]]
    steps: list[tuple[int, int]] = []
    rows = resources(ROUTER, twice, progress=lambda *at: steps.append(at))
    assert [each.config for each in rows] == twice
    assert rows[0].to_row() == rows[2].to_row()
    assert steps == [(2, 2)], "kernels are counted, not configurations"


def test_what_does_not_compile_is_a_row_of_its_own(monkeypatch, found):
    class Broken(Job):
        def compile(self):
            raise CompileError("router.cu with STAGES=6", "error: no")

    job = type(ROUTER).job

    def some_broken(space, config):
        made = job(space, config)
        return (
            Broken(**{f.name: getattr(made, f.name) for f in dataclasses.fields(made)}) if config.stages == 6 else made
        )

    monkeypatch.setattr(type(ROUTER), "job", some_broken)
    monkeypatch.setattr("workbench.tune.resources.compile_ahead", lambda jobs, **_: None)
    rows = resources(ROUTER, CONFIGS)
    assert [bool(each.problem) for each in rows] == [False, False, True, True]
    bad = rows[-1].to_row()
    assert "STAGES=6 does not compile" in bad["problem"]
    assert bad["registers"] is None
    assert bad["waves"] != bad["waves"]
    assert record_of(rows[-1], ROUTER) is None
    assert list(table(rows)["problem"].astype(bool)) == [False, False, True, True]


def test_configurations_that_map_differently_share_a_kernel(monkeypatch):
    jobs: list[Job] = []
    monkeypatch.setattr("workbench.tune.resources.compile_ahead", lambda some, **_: jobs.extend(some))
    monkeypatch.setattr("workbench.tune.resources._of", lambda *_: None)
    monkeypatch.setattr("workbench.tune.resources.is_compiled", lambda *_, **__: False)
    space = ATTENTION.restrict(warps=8, stages=(2, 3), ctas_per_sm=1, prefetch=1)
    resources(space)
    assert len(space) == 6
    assert [job.defines["STAGES"] for job in jobs] == [2, 3]


def test_a_gpu_of_another_architecture_is_refused():
    with pytest.raises(
        InvalidArgument, match=r"B200 is sm_100a, and the kernel is written for sm_90a.*H20, H100, H200"
    ):
        resources(ROUTER, CONFIGS, gpu="B200")


def test_machine_code_is_counted_by_what_it_does(found):
    pytest.importorskip("triton")
    code = machine_code(found[0][0].kernel)
    summary = code.summary()
    assert summary["instructions"] > 300
    assert summary["tensor_core"] == code.tensor_core.total() > 0
    assert all(name.startswith("HGMMA") for name in code.tensor_core)
    assert any(name.startswith("UTMALDG") for name in code.copy_engine)
    assert summary["spills"] == 0
    lines = listing(found[0][0].kernel).splitlines()
    assert sum(line.startswith("tensor ") for line in lines) == summary["tensor_core"]
    assert sum(line.startswith("copy ") for line in lines) == summary["copy_engine"]
    assert not any(line.startswith("spill ") for line in lines)
