"""The GPU's clocks beside a measurement, and what held them down.

NVIDIA's management library tells the clocks, the temperature, the power and the reasons why the clocks are not at
their maximum. Reading needs no permission and takes microseconds. Nothing here changes a setting.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

from workbench.records import ClockReading, Clocks

Reader = Callable[[str], ClockReading]
"""Reads the clocks now; the argument says when that is: "before", "during" or "after"."""

IDLE = "idle"
THROTTLING = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Bits of NVML's clocks-event reasons that mean: slower than the GPU could be, and not by anybody's choice."""

CHOSEN = {0x1: IDLE, 0x2: "application clocks", 0x10: "sync boost", 0x100: "display clock"}
"""The other bits: nothing to do, or a setting."""


class ClocksUnreadable(Exception):
    """The management library is absent or refuses; the message says which."""


@cache
def _nvml() -> ModuleType:
    try:
        from cuda.bindings import nvml

        nvml.init_v2()
        module: ModuleType = nvml
    except Exception as error:  # ImportError, a library that is not found, NvmlError: they share no base of their own
        raise ClocksUnreadable(f"NVML cannot be used: {error}") from error
    return module


@contextlib.contextmanager
def _asking(what: str) -> Iterator[ModuleType]:
    nvml = _nvml()
    try:
        yield nvml
    except (nvml.NvmlError, AttributeError) as error:
        raise ClocksUnreadable(f"NVML does not tell {what}: {error}") from error


def driver_release() -> str:
    """Release of the driver, such as "580.159.04".

    Raises
    ------
    ClocksUnreadable
    """
    with _asking("the driver's release") as nvml:
        return str(nvml.system_get_driver_version())


def reasons_in_words(bits: int) -> tuple[str, ...]:
    """NVML's bit mask of clocks-event reasons in words; a bit that is not known is given as a number."""
    known = THROTTLING | CHOSEN
    words = [known.get(1 << i, f"reason {1 << i:#x}") for i in range(bits.bit_length()) if bits >> i & 1]
    return tuple(words)


def reader(uuid: str) -> Reader:
    """What reads the clocks of one GPU.

    Parameters
    ----------
    uuid : str
        As torch tells it, with or without "GPU-" before it.

    Raises
    ------
    ClocksUnreadable
    """
    with _asking(f"about GPU {uuid}") as nvml:
        handle = nvml.device_get_handle_by_uuid(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
        max_sm = int(nvml.device_get_max_clock_info(handle, nvml.ClockType.CLOCK_SM))

    def read(when: str) -> ClockReading:
        with _asking("the clocks") as nvml:
            return ClockReading(
                when=when,
                reasons=reasons_in_words(int(nvml.device_get_current_clocks_event_reasons(handle))),
                sm_mhz=int(nvml.device_get_clock_info(handle, nvml.ClockType.CLOCK_SM)),
                memory_mhz=int(nvml.device_get_clock_info(handle, nvml.ClockType.CLOCK_MEM)),
                max_sm_mhz=max_sm,
                power_w=_told(nvml, lambda: nvml.device_get_power_usage(handle) / 1000),
                temperature_c=_told(
                    nvml, lambda: int(nvml.device_get_temperature_v(handle, nvml.TemperatureSensors.TEMPERATURE_GPU))
                ),
            )

    return read


def _told(nvml: ModuleType, ask: Callable[[], Any]) -> Any:
    """An answer that not every GPU gives, or None."""
    try:
        return ask()
    except (nvml.NvmlError, AttributeError):
        return None


@dataclass
class ClockLog:
    """Readings around and during one measurement.

    Attributes
    ----------
    read : callable, optional
        See :data:`Reader`; None where the clocks cannot be read.
    readings : list of ClockReading
        In the order taken.
    problem : str
        Why no more could be read; "" while reading works.
    """

    read: Reader | None
    readings: list[ClockReading] = field(default_factory=list)
    problem: str = ""

    def take(self, when: str) -> None:
        """Read the clocks now; where that fails, `problem` says why and the measurement goes on."""
        if self.read is None or self.problem:
            return
        try:
            self.readings.append(self.read(when))
        except ClocksUnreadable as error:
            self.problem = str(error)

    def kept(self) -> tuple[ClockReading, ...]:
        """What a record keeps: the reading before, the lowest SM clock and the median during, and the one after.

        The two during are those readings that have these clocks.
        """
        during = sorted((r for r in self.readings if r.when == "during"), key=lambda r: r.sm_mhz or 0)
        middle = [during[0], during[len(during) // 2]] if during else []
        around = {when: [r for r in self.readings if r.when == when] for when in ("before", "after")}
        return (*around["before"][:1], *middle, *around["after"][-1:])

    @property
    def throttled(self) -> tuple[str, ...]:
        """Reasons read during the measurement that held the clocks down, each once."""
        return throttling([r for r in self.readings if r.when == "during"])

    @property
    def clocks(self) -> Clocks | None:
        """Median clocks during the measurement."""
        during = sorted((r for r in self.readings if r.when == "during"), key=lambda r: r.sm_mhz or 0)
        if not during:
            return None
        middle = during[len(during) // 2]
        return Clocks(sm_mhz=middle.sm_mhz, memory_mhz=middle.memory_mhz, max_sm_mhz=middle.max_sm_mhz)


def throttling(readings: Sequence[ClockReading]) -> tuple[str, ...]:
    """Reasons in the readings that held the clocks down, each once, in the order in which they appeared."""
    holding = set(THROTTLING.values())
    return tuple(dict.fromkeys(reason for r in readings for reason in r.reasons if reason in holding))
