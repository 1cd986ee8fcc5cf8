"""A store of records: what it keeps, finds and says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.records.samples import records, reference, timeline, timing
from workbench import paths
from workbench.errors import InvalidArgument, RecordError
from workbench.records import Attachment, NsightRecord, Store, Workload, pack_arrays
from workbench.records.layout import location

COLUMNS = {
    "gpu", "operator", "provider", "case", "dtype", "policy", "config", "median_us", "low_us", "high_us", "rel_error",
    "date", "kind", "path", "k", "n", "m", "model", "tp", "ep", "tokens", "method", "origin",
}  # fmt: skip


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def test_whether_it_can_be_written_is_known_before(store, tmp_path):
    store.check_writable()
    assert not (tmp_path / "store").exists()
    store.add(timing())
    store.check_writable()
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="is no folder"):
        Store(tmp_path / "file" / "store").check_writable()


def test_a_store_that_is_read_only(store, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(RecordError, match="read-only"):
        store.check_writable()


def test_what_is_added_is_found_again(store):
    path = store.add(timing())
    assert path.relative_to(path.parents[4]).parts == location(timing(), timing().encode()).parts
    assert path.read_bytes() == timing().encode()
    assert store.read(path) == timing()
    assert list(store.records()) == [(path, timing())]


# Not shrunk: every attempt writes files, which takes minutes.
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=30,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(st.lists(records.filter(lambda record: record.attachment is None), max_size=5))
def test_any_records_come_back_unchanged(tmp_path_factory, drawn):
    store = Store(tmp_path_factory.mktemp("store"))
    files = {store.add(record): record for record in drawn}
    assert dict(store.records()) == files
    assert len(store.query()) == len(files)
    assert store.problems == ()


def test_same_content_is_one_file_that_is_not_touched(store):
    path = store.add(timing())
    before = path.stat()
    assert store.add(timing()) == path
    after = path.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert len(store.query()) == 1


def test_other_content_is_another_file(store):
    first, second = store.add(timing()), store.add(timing(rel_error=0.002))
    assert first != second
    assert first.parent == second.parent
    assert first.read_bytes() == timing().encode()


def test_a_row_has_every_column(store):
    moe = Workload(case="hy3-tp8-T64", dtype="fp8", model="hy3", tp=8, ep=1, tokens=64)
    store.add(timing())
    store.add(reference())
    store.add(reference(operator="fused_moe", provider="hpc", workload=moe, rel_error=0.01))
    table = store.query()
    assert set(table.columns) == COLUMNS
    by_operator = {row["operator"]: row for row in table.to_dict("records")}
    row = by_operator["attention_decode"]
    assert (row["gpu"], row["case"], row["dtype"], row["policy"]) == ("NVIDIA H200", "64x4K", "fp8", "balanced")
    assert (row["median_us"], row["low_us"], row["high_us"], row["rel_error"]) == (21.0, 20.5, 22.0, 0.0017)
    assert json.loads(row["config"]) == {"pdl": True, "stages": 3}
    assert row["date"] == pd.Timestamp("2026-11-29")
    assert row["origin"] == "recorded (NVIDIA H200, 2026-11-29)"
    assert pd.isna(row["tokens"])
    assert Store(store.add(timing()).parents[4]).read(row["path"]) == timing()
    row = by_operator["router_gemm"]
    assert (row["m"], row["k"], row["n"]) == (1, 4096, 192)
    assert row["origin"] == "reference (somebody, NVIDIA H200, 2026-11-29)"
    assert pd.isna(row["low_us"])
    assert pd.isna(row["policy"])
    row = by_operator["fused_moe"]
    assert (row["model"], row["tp"], row["ep"], row["tokens"], row["rel_error"]) == ("hy3", 8, 1, 64, 0.01)


def test_whole_numbers_stay_exact_beside_missing_ones(store):
    store.add(timing())
    store.add(reference(workload=Workload(case="large", m=2**63 - 1, n=2**53 + 1)))
    row = store.query(case="large").iloc[0]
    assert (int(row["m"]), int(row["n"])) == (2**63 - 1, 2**53 + 1)
    table = store.query()
    assert int(table["m"].dropna().iloc[0]) == 2**63 - 1


def test_an_empty_store_has_the_same_columns_and_types(store):
    empty = store.query()
    assert len(empty) == 0
    store.add(timing())
    assert (store.query().dtypes == empty.dtypes).all()
    assert set(empty.columns) == COLUMNS


@pytest.mark.parametrize(
    ("wanted", "operators"),
    [
        ({}, {"attention_decode", "router_gemm"}),
        ({"operator": None}, {"attention_decode", "router_gemm"}),
        ({"operator": "router_gemm"}, {"router_gemm"}),
        ({"provider": ["workbench", "nobody"]}, {"attention_decode"}),
        ({"kind": "timing", "policy": "balanced"}, {"attention_decode"}),
        ({"kind": "timing", "policy": "lpt"}, set()),
        ({"gpu": "H200"}, {"attention_decode", "router_gemm"}),
        ({"gpu": "nvidia-h200", "m": 1}, {"router_gemm"}),
        ({"gpu": ("H20", "Some GPU")}, set()),
        ({"m": {1, 2}}, {"router_gemm"}),
        ({"case": []}, set()),
    ],
)
def test_filters(store, wanted, operators):
    store.add(timing())
    store.add(reference())
    assert set(store.query(**wanted)["operator"]) == operators
    assert {record.operator for _, record in store.records(**wanted)} == operators


def test_an_unknown_column_is_told_with_the_known_ones(store):
    with pytest.raises(InvalidArgument, match=r"no column speed.*median_us"):
        store.query(speed=3)


def test_without_a_path_shipped_records_come_first_and_are_only_read(tmp_path, monkeypatch):
    shipped = tmp_path / "profiles"
    Store(shipped).add(reference())
    before = sorted(shipped.rglob("*"))
    monkeypatch.setattr(paths, "profiles_dir", lambda: shipped)
    store = Store()
    assert len(store.query()) == 1  # one's own folder does not exist yet
    own = store.add(timing())
    assert own.is_relative_to(tmp_path / "own")
    store.add(reference())  # also shipped: one record, not two
    assert [Path(path).is_relative_to(shipped) for path in store.query()["path"]] == [False, True]
    assert sorted(shipped.rglob("*")) == before


def test_a_store_is_a_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="not a folder"):
        Store(tmp_path / "file")


def test_arrays_of_a_timeline(store):
    arrays = {"start_ns": np.arange(5, dtype=np.int64), "sm": np.arange(5, dtype=np.int32)}
    content = pack_arrays(arrays)
    path = store.add(timeline(content), content)
    again = store.arrays(path)
    assert again.keys() == arrays.keys()
    assert all((again[name] == values).all() and again[name].dtype == values.dtype for name, values in arrays.items())
    assert [file.suffix for file in path.parent.iterdir()] in ([".json", ".npz"], [".npz", ".json"])
    assert store.query()["kind"].tolist() == ["timeline"]


def test_report_of_nsight(store):
    fields = {name: getattr(timing(), name) for name in ("operator", "provider", "environment", "workload")}
    report = b"a report"
    record = NsightRecord(**fields, metrics={"dram__bytes_read.sum": 1e6}, attachment=Attachment.of(report, ".ncu-rep"))
    path = store.add(record, report)
    assert store.attachment(path) == report
    without = store.add(NsightRecord(**fields, metrics={"dram__bytes_read.sum": 1e6}))
    with pytest.raises(RecordError, match="without a side file"):
        store.attachment(without)


def test_side_file_has_to_be_the_one_that_is_named(store):
    content = pack_arrays({"a": np.arange(3)})
    for record, attachment in ((timeline(content), None), (timeline(content), b"other"), (timing(), b"more")):
        with pytest.raises(RecordError, match="side file"):
            store.add(record, attachment)
    assert len(store.query()) == 0
    path = store.add(timeline(content), content)
    beside = next(path.parent.glob("*.npz"))
    beside.write_bytes(content[:-1] + b"x")
    with pytest.raises(RecordError, match="damaged"):
        store.arrays(path)
    beside.unlink()
    with pytest.raises(RecordError, match="No such file"):
        store.arrays(path)


def test_what_pydantic_did_not_check_is_not_kept(store):
    for wrong in (timing().model_copy(update={"median_us": -1.0}), timing().model_copy(update={"provider": "../up"})):
        with pytest.raises(RecordError, match="it is no record"):
            store.add(wrong)
    assert not store.query().size


def test_pandas_is_loaded_by_a_query_only():
    code = (
        "import sys; from workbench.records import Store; s = Store(); assert s.rows();"
        "assert not {'pandas', 'torch', 'pickle5'} & set(sys.modules); s.query(); assert 'pandas' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
