"""Captures on a GPU: with counters where ncu and nsight-python are, and without any permission."""

from __future__ import annotations

import pytest

from workbench import settings
from workbench.capture import capture, find_tools
from workbench.errors import CountersForbidden, WorkbenchError
from workbench.records import NsightRecord, Store, TimelineRecord, TimingRecord

pytestmark = pytest.mark.gpu

CASE = "32x0.125K+32x4K"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def test_attention_with_counters(store):
    try:
        find_tools()
    except WorkbenchError as error:
        pytest.skip(str(error))
    try:
        captured = capture("attention_decode", None, CASE, metrics=("overview", "schedule"), store=store).result()
    except CountersForbidden as error:
        pytest.skip(str(error))
    assert isinstance(captured.record, NsightRecord)
    kv_bytes = (32 * 128 + 32 * 4096) * 2 * 128
    assert kv_bytes < captured.metrics["dram__bytes_read.sum"] < 1.5 * kv_bytes
    assert 1e3 < captured.metrics["gpu__time_duration.sum"] < 1e6
    assert len(captured.record.kernels) == 1
    assert captured.report.stat().st_size < 4 << 20
    assert captured.agreement is not None
    assert isinstance(store.read(captured.timeline), TimelineRecord)


def test_attention_without_counters(store, monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_NCU", str(tmp_path / "absent"))
    captured = capture("attention_decode", None, CASE, counters=False, store=store).result()
    record = captured.record
    assert isinstance(record, TimingRecord)
    assert record.method.startswith("Reduced capture, no hardware counters")
    assert 1 < record.median_us < 1000
    assert any("attention" in kernel["name"] for kernel in record.kernels)
    assert isinstance(store.read(captured.timeline), TimelineRecord)
    assert captured.report is None
    assert settings.ncu() == tmp_path / "absent"
