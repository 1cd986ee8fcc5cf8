"""Reports of Nsight Compute: read whole, refused with the reason where they are not."""

from __future__ import annotations

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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def test_a_damaged_report_leaves_no_store(tmp_path):
    path = tmp_path / "bad.ncu-rep"
    path.write_bytes(report(LAUNCHES)[:-3])
    with pytest.raises(ReportDamaged):
        import_report(path, store=tmp_path / "store")
    assert not (tmp_path / "store").exists()
