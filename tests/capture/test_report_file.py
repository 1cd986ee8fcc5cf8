"""Reports of Nsight Compute: read whole, refused with the reason where they are not."""

from __future__ import annotations

import math
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.capture.report_bytes import GPU, Launch, report
from workbench.capture import import_report, read_report
from workbench.capture.report_file import check_structure
from workbench.errors import InvalidArgument, ReportDamaged
from workbench.records import Store

pytest.importorskip("ncu_report", reason="pip install 'hpc-ops-workbench[ncu-report]'")

LAUNCHES = [
    Launch("void attend<128, 8>(Params)", "case0", {"gpu__time_duration.sum": 1000.0, "sm__cycles_active.max": 7}),
    Launch("void attend<128, 8>(Params)", "case0", {"gpu__time_duration.sum": 3000.0, "sm__cycles_active.max": 9}),
    Launch("merge", None, {"gpu__time_duration.sum": 5.0, "note": "text"}),
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "two kernels.ncu-rep"
    path.write_bytes(report(LAUNCHES))
    return path


def test_kernels_of_a_report(file):
    kernels = read_report(file)
    assert [kernel.name for kernel in kernels] == [launch.name for launch in LAUNCHES]
    assert [kernel.annotation for kernel in kernels] == ["case0", "case0", None]
    assert {(kernel.gpu, kernel.grid, kernel.block) for kernel in kernels} == {(GPU, (132, 1, 1), (256, 1, 1))}
    assert kernels[0].metrics["gpu__time_duration.sum"] == 1000
    assert kernels[1].metrics["sm__cycles_active.max"] == 9
    assert "note" not in kernels[2].metrics


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(length=st.integers(0, len(report(LAUNCHES)) - 1))
def test_a_report_that_is_cut_off_anywhere_is_refused(tmp_path, length):
    path = tmp_path / "cut.ncu-rep"
    path.write_bytes(report(LAUNCHES)[:length])
    with pytest.raises(ReportDamaged):
        check_structure(path)


def test_why_the_structure_is_checked(tmp_path):
    """NVIDIA's reader opens what is left of a report as if it were whole."""
    import ncu_report

    path = tmp_path / "cut.ncu-rep"
    path.write_bytes(report(LAUNCHES)[:-1])
    assert ncu_report.load_report(str(path)).num_ranges() == 1
    with pytest.raises(ReportDamaged, match="cut off"):
        read_report(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(content=st.binary(max_size=200))
def test_garbage_is_refused(tmp_path, content):
    path = tmp_path / "garbage.ncu-rep"
    for beginning in (b"", b"NVR\0"):
        path.write_bytes(beginning + content)
        with pytest.raises(ReportDamaged):
            read_report(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"<html>", "no report of Nsight Compute"),
        (report([]), "no kernel"),
        (report([])[:10], "ends after its header"),
    ],
)
def test_reasons(tmp_path, content, says):
    path = tmp_path / "bad.ncu-rep"
    path.write_bytes(content)
    with pytest.raises(ReportDamaged, match=says):
        read_report(path)


def test_no_file(tmp_path):
    with pytest.raises(ReportDamaged, match="cannot be read"):
        read_report(tmp_path / "absent.ncu-rep")


def test_import_makes_a_record_of_each_kernel(file, tmp_path):
    store = Store(tmp_path / "store")
    paths = import_report(file, store=store, case="mine")
    records = [store.read(path) for path in paths]
    assert [(record.operator, record.runs, record.workload.case) for record in records] == [
        ("attend", 2, "mine"),
        ("merge", 1, "mine"),
    ]
    assert records[0].metrics["gpu__time_duration.sum"] == 2000
    assert records[0].deviations["gpu__time_duration.sum"] == pytest.approx(2000 / 2**0.5)
    assert records[1].deviations == {}
    assert records[0].configuration["kernel"] == LAUNCHES[0].name
    assert [store.attachment(path) for path in paths] == [file.read_bytes()] * 2
    assert store.query(kind="nsight").gpu.unique().tolist() == [GPU]
    assert import_report(file, store=store, case="mine") == paths


def test_import_takes_its_name_from_the_file(file, tmp_path):
    store = Store(tmp_path / "store")
    paths = import_report(file, store=store, operator="attention_decode", provider="fa3", keep_report=False)
    found = store.read(paths[0])
    assert (found.operator, found.provider, found.workload.case) == ("attention_decode", "fa3", "two-kernels")
    assert found.attachment is None


def test_names_that_records_do_not_take(file, tmp_path):
    with pytest.raises(InvalidArgument, match="Attention Decode"):
        import_report(file, store=tmp_path / "store", operator="Attention Decode")


def test_a_metric_that_is_no_number_is_left_out(tmp_path):
    path = tmp_path / "share.ncu-rep"
    shares = [{"l1tex__hit_rate.pct": value, "gpu__time_duration.sum": 4.0} for value in (math.nan, math.inf)]
    path.write_bytes(report([Launch("idle", None, share) for share in shares]))
    record = Store(tmp_path / "store").read(import_report(path, store=tmp_path / "store")[0])
    assert record.metrics["gpu__time_duration.sum"] == 4
    assert "l1tex__hit_rate.pct" not in record.metrics


@pytest.mark.parametrize(
    ("kernel", "operator"),
    [
        ("void at::native::(anonymous namespace)::copy_kernel<float, (int)3>(float *)", "at_native_copy_kernel"),
        ("void <unnamed>::attend<128>(Params)", "attend"),
        ("merge", "merge"),
        ("<>", "kernel"),
    ],
)
def test_operators_are_named_after_kernels(tmp_path, kernel, operator):
    path = tmp_path / "one.ncu-rep"
    path.write_bytes(report([Launch(kernel, None, {"gpu__time_duration.sum": 4.0})]))
    assert Store(tmp_path / "store").read(import_report(path, store=tmp_path / "store")[0]).operator == operator


def test_a_pipe_is_no_report(tmp_path):
    os.mkfifo(tmp_path / "pipe.ncu-rep")
    with pytest.raises(ReportDamaged, match="no regular file"):
        read_report(tmp_path / "pipe.ncu-rep")


def test_a_huge_file_is_looked_at_in_pieces(tmp_path):
    """Larger than this machine's memory: nothing may read it whole."""
    path = tmp_path / "huge.ncu-rep"
    with path.open("wb") as file:
        file.write(b"NVR\0\xff\xff\xff\x7f")
        file.truncate(1 << 40)
    with pytest.raises(ReportDamaged, match="header of 2,147,483,647 bytes"):
        check_structure(path)


def test_a_report_that_is_too_large_to_keep(file, tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.capture.importing.MAX_ATTACHMENT_BYTES", 100)
    with pytest.raises(InvalidArgument, match="keep_report=False"):
        import_report(file, store=tmp_path / "store")
    assert len(import_report(file, store=tmp_path / "store", keep_report=False)) == 2


def test_a_damaged_report_leaves_no_store(tmp_path):
    path = tmp_path / "bad.ncu-rep"
    path.write_bytes(report(LAUNCHES)[:-3])
    with pytest.raises(ReportDamaged):
        import_report(path, store=tmp_path / "store")
    assert not (tmp_path / "store").exists()
