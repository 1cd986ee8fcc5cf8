"""The records that come with the workbench: complete, in their places, and what their sources say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from workbench import paths
from workbench.capture import read_report
from workbench.errors import InvalidArgument
from workbench.measure.busy import BusyComparison, stamped_busy
from workbench.measure.timeline_records import read_timeline
from workbench.records import Store, is_alone
from workbench.records.layout import attachment_location
from workbench.schedule import plan_decode
from workbench.workloads import MIXES, workload

ROOT = Path(__file__).resolve().parents[2]
MEASURED = json.loads((ROOT / "docs" / "performance" / "attention.json").read_text())
TIMELINES = ("balanced", "hpc-ops", *(f"fixed_splits({n})" for n in (2, 4, 8, 32)))
FIGURES = ("median_us", "low_us", "high_us")
MAX_FILES, MAX_BYTES = 2500, 4_000_000


def script(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def shipped():
    return Store(paths.profiles_dir())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_shipped_record_opens(shipped):
    table = shipped.query()
    assert shipped.problems == ()
    assert len(table) == len(list(paths.profiles_dir().rglob("*.json")))


def test_the_shipped_tree_is_small():
    files = [path for path in paths.profiles_dir().rglob("*") if path.is_file()]
    assert len(files) <= MAX_FILES
    assert sum(path.stat().st_size for path in files) <= MAX_BYTES


def test_attention_records_are_what_was_measured(shipped):
    """Every figure of ``docs/performance/attention.json`` has its record."""
    table = shipped.query(kind="timing", gpu="H200").fillna({"dtype": ""})
    assert set(table[table["operator"] == "attention_decode"]["case"]) == set(MIXES)
    found: dict[tuple, set[tuple[float, float, float]]] = {}
    for row in table.to_dict("records"):
        policy = row["policy"] if isinstance(row["policy"], str) else None
        key = (row["operator"], row["case"], row["dtype"], row["provider"], policy, row["config"])
        found.setdefault(key, set()).add(tuple(row[name] for name in FIGURES))
    timed = [each for each in MEASURED["figures"] if each["state"] == "timed" and "measured now" in each["origin"]]
    assert {(each["case"], each["dtype"]) for each in timed} >= {
        (case, dtype) for case in MIXES for dtype in ("fp8", "bf16")
    }
    for each in timed:
        config = json.dumps(each["configuration"], sort_keys=True)
        key = (each["operator"], each["case"], each["dtype"], each["provider"], each["policy"], config)
        assert tuple(round(each[name], 3) for name in FIGURES) in found[key]


def test_maps_of_both_sizes_are_there(shipped):
    maps = shipped.query(operator="task_map", provider="cuda")
    assert set(maps["case"]) >= {"64x4K", "2048x4K"}


@pytest.mark.parametrize("case", MIXES)
def test_timelines_of_each_case_are_of_one_kernel_and_of_the_plans_they_name(shipped, case):
    kept = list(shipped.records(operator="attention_decode", kind="timeline", case=case))
    assert {(record.workload.dtype, record.policy) for _, record in kept} == {
        (cache, policy) for cache in ("fp8", "bf16") for policy in TIMELINES
    }
    assert len({record.source_digest for _, record in kept}) == 1
    for path, record in kept:
        _, timeline = read_timeline(shipped, path)  # checks the stamps against their plan
        assert timeline.makespan_us == record.makespan_us
        assert timeline.plan.lengths.tolist() == workload(case).tolist()
        if record.policy != "balanced":  # which decides by a cost model that may change
            ctas = 132 * record.configuration["ctas_per_sm"]
            again = plan_decode(workload(case), num_kv_heads=1, num_ctas=ctas, policy=record.policy)
            assert again.to_json() == timeline.plan.to_json()


@pytest.mark.parametrize("case", MIXES)
def test_each_case_was_captured_under_dynamic_and_static_maps(shipped, case):
    """Counters with the noise of their runs, three configurations a policy, beside the stamps of a launch of each."""
    captured = [
        (path, record)
        for path, record in shipped.records(operator="attention_decode", kind="nsight", case=case)
        if record.runs >= 3
    ]
    made = {(record.policy, json.dumps(record.configuration, sort_keys=True)) for _, record in captured}
    assert {policy for policy, _ in made} == {"balanced", "hpc-ops", "fixed_splits(8)"}
    assert len(made) == len(captured) == 9
    for path, record in captured:
        assert record.deviations["gpu__time_duration.sum"] > 0
        compared = BusyComparison.from_dict(record.agreement)
        stamps = [
            read_timeline(shipped, other)
            for other in sorted(path.parent.glob("timeline-*.json"))
            if is_alone(shipped.read(other).method)
        ]
        assert [stamped_busy(timeline, sms=132) for _, timeline in stamps] == [compared.stamped]
        assert stamps[0][0].source_digest == record.source_digest


def test_the_router_of_three_models_was_captured_beside_cublas(shipped):
    captured = list(shipped.records(operator="router_gemm", kind="nsight"))
    for provider in ("cuda", "cublas-tf32"):
        shapes = {(one.workload.k, one.workload.n, one.workload.m) for _, one in captured if one.provider == provider}
        assert shapes == {(k, n, m) for k, n in ((4096, 192), (6144, 768), (3072, 384)) for m in (1, 64, 512, 4096)}


def test_reports_are_small_and_say_what_their_records_say(shipped):
    kept = [(path, record) for path, record in shipped.records(kind="nsight") if record.attachment is not None]
    assert {record.operator for _, record in kept} == {"attention_decode", "router_gemm"}
    sizes = [len(shipped.attachment(path)) for path, _ in kept]
    assert max(sizes) <= 1 << 20
    assert sum(sizes) <= 10 << 20
    pytest.importorskip("ncu_report")
    for path, record in kept:
        (launch,) = read_report(path.with_name(attachment_location(record, record.attachment).name))
        assert {name: launch.metrics[name] for name in record.metrics} == record.metrics


def test_reference_records_are_those_of_the_reference_data(shipped, reference_data, tmp_path, monkeypatch):
    script_ = script("tools/import_reference.py")
    monkeypatch.setattr("sys.argv", ["import_reference.py", str(tmp_path / "made")])
    script_.main()
    made = contents(tmp_path / "made")
    assert made.items() <= contents(paths.profiles_dir()).items()
    rows = [json.loads(line) for line in (reference_data / "reference" / script_.FILE).read_text().splitlines()]
    assert len(made) == len(rows) == len(shipped.query(kind="reference"))
    table = shipped.query(kind="reference")
    for row in rows:
        operator = "task_map" if row["provider"] == "hpc-assign" else script_.record_of(row).operator
        same = table[(table["operator"] == operator) & (table["provider"] == row["provider"])]
        if row["op"] == "attn":
            same = same[(same["case"] == row["case"]) & (same["dtype"] == row["dtype"])]
        elif row["op"] == "router":
            same = same[(same["m"] == row["m"]) & (same["n"] == row["n"]) & (same["k"] == row["k"])]
        else:
            parallel = "ep" if row["model"].endswith("ep8") else "tp"
            same = same[(same["tokens"] == row["m"]) & (same[parallel] == 8) & (same["model"] == "hy3")]
        assert same["median_us"].tolist() == [row["us"]]
        assert same["origin"].str.startswith("reference (outside this project").all()


def test_reference_import_refuses_a_shape_it_does_not_know():
    row = {"op": "moe", "model": "hy3-tp8", "m": 1, "experts": 64, "provider": "hpc", "us": 1.0}
    with pytest.raises(ValueError, match="64"):
        script("tools/import_reference.py").record_of(row)


def test_default_store_reads_the_shipped_records(shipped):
    assert len(Store().query()) == len(shipped.query())
    with pytest.raises(InvalidArgument):
        Store().query(nothing=1)
