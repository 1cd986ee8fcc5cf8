"""Ceilings come from records where there are any; points follow from work, bytes and isolated time."""

from __future__ import annotations

import pytest

from tests.widgets.profiles.samples import H100, H200, ceiling, environment, nsight, reduced, workload
from workbench import devices
from workbench.paths import profiles_dir
from workbench.records import Store, Workload
from workbench.widgets.profiles.captures import read_captures
from workbench.widgets.profiles.ceilings import BYTES, OPERATIONS, ceilings
from workbench.widgets.profiles.roofline import Standing, roofline, standing
from workbench.widgets.profiles.work import work_of

TRAFFIC = {"gpu__time_duration.sum": 20_000.0, "dram__bytes_read.sum": 50e6, "dram__bytes_write.sum": 1e6}
UNITS = {"gpu__time_duration.sum": "ns", "dram__bytes_read.sum": "byte", "dram__bytes_write.sum": "byte"}


def capture(store, record):
    path = store.add(record)
    return next(one for one in read_captures(store)[0] if one.path == path)


def test_the_fastest_recorded_reader_is_the_ceiling(empty):
    empty.add(ceiling("64x4K", 20.0))
    empty.add(ceiling("1x128K+31x4K", 16.0))
    found = ceilings(empty, H200)
    assert (found[0].unit, found[0].measured) == (BYTES, True)
    tokens = 128 * 1024 + 31 * 4096
    assert found[0].rate == pytest.approx(tokens * 256 / 16.0 * 1e6)
    assert "1x128K+31x4K" in found[0].words
    assert "recorded (NVIDIA H200" in found[0].words
    sheet = [one for one in found if not one.measured]
    assert {one.rate for one in sheet} == {4.8e12, 989e12, 1979e12}
    assert all("datasheet" in one.words for one in sheet)


def test_the_catalogues_measurement_stands_in(empty):
    found = ceilings(empty, H200)
    assert (found[0].rate, found[0].measured) == (devices.gpu("H200").measured_read_bandwidth, True)
    assert "catalogue" in found[0].words


def test_another_gpus_records_are_not_taken(empty):
    empty.add(ceiling("64x4K", 20.0))
    assert not any(one.measured for one in ceilings(empty, H100))


def test_shipped_records_give_both_ceilings():
    from workbench.records import Store

    measured = {one.unit: one for one in ceilings(Store(), H200) if one.measured}
    assert 3.5e12 < measured[BYTES].rate < 4.8e12
    assert 0.5e15 < measured[OPERATIONS].rate < 0.989e15
    assert "cuBLAS bf16" in measured[OPERATIONS].words


def test_a_gpu_that_nobody_knows_has_none(empty):
    one = capture(
        empty, nsight(environment=environment().model_copy(update={"gpu": "Toy GPU"}), metrics=TRAFFIC, units=UNITS)
    )
    assert ceilings(empty, "Toy GPU") == ()
    chart = roofline([one], {"Toy GPU": ()})
    assert len(chart.points) == 1
    assert chart.lines == ()
    assert any("no ceiling is known" in note for note in chart.notes)


def test_where_a_capture_stands(empty):
    one = standing(capture(empty, nsight(metrics=TRAFFIC, units=UNITS)))
    assert isinstance(one, Standing)
    operations = 4 * 64 * 4096 * 8 * 128
    assert one.intensity == pytest.approx(operations / 51e6)
    assert one.rate == pytest.approx(operations / 20e-6)
    assert one.traffic == pytest.approx(51e6 / 20e-6)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (reduced(), "no memory counters"),
        (nsight(operator="my_kernel", metrics=TRAFFIC, units=UNITS), "not known"),
        (nsight(workload=Workload(case="report", parameters={})), "not known"),
        (nsight(), "no memory traffic in the record"),
        (nsight(metrics={**TRAFFIC, "gpu__time_duration.sum": 0.0}, units=UNITS), "no duration"),
        (nsight(metrics={**TRAFFIC, **dict.fromkeys(list(TRAFFIC)[1:], 0.0)}, units=UNITS), "counted"),
        (nsight(metrics=TRAFFIC, units={**UNITS, "dram__bytes_read.sum": "sector"}), "no memory traffic"),
    ],
)  # fmt: skip
def test_what_has_no_place(empty, record, why):
    one = capture(empty, record)
    assert why in standing(one)
    chart = roofline([one], {H200: ceilings(empty, H200)})
    assert chart.points == ()
    assert why in chart.notes[0]


def test_points_lie_below_a_roof_that_is_above_them(empty):
    one = capture(empty, nsight(metrics=TRAFFIC, units=UNITS))
    chart = roofline([one], {H200: ceilings(empty, H200)})
    slope = next(line for line in chart.lines if line.style == "measured")
    (x0, y0), (x1, y1) = slope.places
    x, y = chart.points[0].place
    assert x0 < x < x1
    above = y0 + (x - x0) / (x1 - x0) * (y1 - y0)
    assert y < above, "2.55 TB/s of 4.37"
    assert "58 % of the measured rate" in chart.points[0].words


@pytest.mark.parametrize(
    ("provider", "configuration", "weight"),
    [
        ("cuda", {"terms": 2}, 4), ("cuda", {"terms": 3}, 6), ("cublas-bf16", {}, 2), ("cublas-tf32", {}, 4),
        ("cublas-fp32", {"terms": 1}, 4), ("mine", {}, None),
    ],
)  # fmt: skip
def test_router_work_is_that_of_the_product_and_of_the_weight_as_it_is_read(provider, configuration, weight):
    m, k, n = 64, 4096, 192
    work = Workload(case="M64-K4096-N192", m=m, k=k, n=n)
    found = work_of(nsight(operator="router_gemm", provider=provider, configuration=configuration, workload=work))
    assert found.operations == 2 * m * k * n
    assert found.needed_bytes == (None if weight is None else 2 * m * k + weight * n * k)


def test_shipped_router_captures_read_their_inputs():
    """Ours once, a part twice where the tiles of one product share them; cuBLAS also what it widened before."""
    for _, record in Store(profiles_dir()).records(operator="router_gemm", kind="nsight"):
        again = record.metrics["dram__bytes_read.sum"] / work_of(record).needed_bytes
        assert 0.99 < again < (1.4 if record.provider == "cuda" else 3), (record.workload.case, record.provider, again)


@pytest.mark.parametrize(
    "changes", [{"head_dim": "wide"}, {"q_len": 0}, {"num_kv_heads": 3}, {"lengths": [-1]}, {"lengths": "x" * 50}]
)
def test_damaged_workloads_have_no_work(changes):
    work = workload("64x4K")
    record = nsight(workload=work.model_copy(update={"parameters": {**work.parameters, **changes}}))
    assert work_of(record) is None
