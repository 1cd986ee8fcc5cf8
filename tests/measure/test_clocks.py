from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from tests.measure.fakes import FakeClocks
from workbench.gpu.driver import probe
from workbench.measure import clocks
from workbench.measure.clocks import ClockLog, ClocksUnreadable, reasons_in_words


class NvmlError(Exception):
    pass


@pytest.fixture
def nvml(monkeypatch):
    """A management library with one GPU at full clock."""
    made = SimpleNamespace(
        NvmlError=NvmlError,
        ClockType=SimpleNamespace(CLOCK_SM=1, CLOCK_MEM=2),
        TemperatureSensors=SimpleNamespace(TEMPERATURE_GPU=0),
        reasons=0,
        asked=[],
        init_v2=lambda: None,
        system_get_driver_version=lambda: "580.159.04",
        device_get_max_clock_info=lambda handle, kind: 1980,
        device_get_clock_info=lambda handle, kind: {1: 1755, 2: 3201}[kind],
        device_get_power_usage=lambda handle: 412_345,
        device_get_temperature_v=lambda handle, sensor: 61,
    )
    made.device_get_handle_by_uuid = lambda uuid: made.asked.append(uuid) or 7
    made.device_get_current_clocks_event_reasons = lambda handle: made.reasons
    package = ModuleType("cuda.bindings")
    package.nvml = made
    monkeypatch.setitem(sys.modules, "cuda.bindings", package)
    clocks._nvml.cache_clear()
    yield made
    clocks._nvml.cache_clear()


def test_a_reading_says_clocks_power_temperature_and_reasons(nvml):
    read = clocks.reader("abc")
    nvml.reasons = 0x4 | 0x40
    reading = read("during")
    assert nvml.asked == ["GPU-abc"]
    assert (reading.sm_mhz, reading.memory_mhz, reading.max_sm_mhz) == (1755, 3201, 1980)
    assert (reading.power_w, reading.temperature_c) == (412.345, 61)
    assert reading.reasons == ("power cap", "hardware thermal slowdown")


def test_what_a_gpu_does_not_tell_is_left_open(nvml):
    def refuse(*_):
        raise NvmlError("not supported")

    nvml.device_get_power_usage = refuse
    del nvml.device_get_temperature_v
    reading = clocks.reader("GPU-abc")("before")
    assert (reading.power_w, reading.temperature_c, reading.sm_mhz) == (None, None, 1755)


def test_a_library_that_refuses_is_told(nvml):
    def refuse(*_):
        raise NvmlError("insufficient permissions")

    nvml.device_get_handle_by_uuid = refuse
    with pytest.raises(ClocksUnreadable, match="insufficient permissions"):
        clocks.reader("abc")


@pytest.mark.skipif(not probe().problem, reason="there is a driver here")
def test_without_a_driver_it_says_so():
    clocks._nvml.cache_clear()
    with pytest.raises(ClocksUnreadable, match="NVML cannot be used"):
        clocks.driver_release()


@pytest.mark.gpu
def test_the_clocks_of_this_gpu_can_be_read():
    from workbench.measure.environment import clocks_here

    reading = clocks_here()("before")
    assert 0 < reading.sm_mhz <= reading.max_sm_mhz
    assert reading.memory_mhz > 0
    assert clocks.driver_release().count(".") >= 1


def test_reasons_in_words_name_every_bit():
    assert reasons_in_words(0) == ()
    assert reasons_in_words(0x1) == ("idle",)
    assert reasons_in_words(0x8 | 0x80 | 0x2) == ("application clocks", "hardware slowdown", "power brake")
    assert reasons_in_words(1 << 20) == ("reason 0x100000",)


def test_only_what_holds_the_clocks_down_during_the_work_is_throttling():
    log = ClockLog(FakeClocks(held=("sync boost", "power brake")))
    for when in ("before", "during", "during", "after"):
        log.take(when)
    assert log.throttled == ("power brake",)


def test_a_log_keeps_the_lowest_and_the_median_clock():
    given = iter([1980, 1900, 1200, 1850, 1700])
    log = ClockLog(lambda when: FakeClocks(sm_mhz=next(given))(when))
    for when in ("before", "during", "during", "during", "after"):
        log.take(when)
    assert [(r.when, r.sm_mhz) for r in log.kept()] == [
        ("before", 1980), ("during", 1200), ("during", 1850), ("after", 1700),
    ]  # fmt: skip
    assert log.clocks.sm_mhz == 1850


def test_without_a_reader_nothing_is_kept():
    log = ClockLog(None)
    log.take("during")
    assert (log.kept(), log.clocks, log.throttled) == ((), None, ())
