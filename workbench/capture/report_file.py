"""Reading reports of Nsight Compute (.ncu-rep) on any machine, and refusing damaged ones.

NVIDIA's reader takes a file of garbage for a report without content, and reads what is left of one that was cut off. So
the file's own structure is checked before: after the letters NVR come a header and blocks, each with its length before
it, and the last block ends where the file does.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import Any

from workbench.errors import MissingDependency, ReportDamaged

MAGIC = b"NVR\0"
NSIGHT_DOMAIN = "nsight-python"
_MOST_HEADER = 64 << 20
"""A header has the names of all metrics and little else, bytes."""

_PAYLOAD_SIZE, _VARINT, _BYTES, _WIDTHS = 5, 0, 2, {1: 8, 5: 4}
"""Field of a block's header with the length of what follows, and wire types of protobuf."""


@dataclass(frozen=True)
class KernelCounters:
    """Counters of one kernel launch.

    Attributes
    ----------
    name : str
        Demangled.
    annotation : str or None
        The innermost range of nsight-python that it ran in, or else of any NVTX domain.
    gpu : str or None
        Name the driver gives the GPU.
    grid, block : tuple of int
        CTAs, and threads a CTA.
    metrics : dict of str to float
        Every metric with a number, by Nsight Compute's name. It writes NaN for a share of nothing; those are left out.
    units : dict of str to str
        Unit of each that has one.
    """

    name: str
    annotation: str | None
    gpu: str | None
    grid: tuple[int, ...]
    block: tuple[int, ...]
    metrics: dict[str, float]
    units: dict[str, str]


def read_report(path: str | os.PathLike[str]) -> list[KernelCounters]:
    """Every kernel launch in a report, in order.

    Raises
    ------
    ReportDamaged
        It is absent, empty, cut off, or no report; the message says which.
    MissingDependency
        NVIDIA's reader is not installed.
    """
    path = Path(path)
    check_structure(path)
    try:
        import ncu_report
    except ImportError:
        raise MissingDependency(
            "ncu_report",
            needed_for="reading reports of Nsight Compute",
            install="pip install 'hpc-ops-workbench[ncu-report]'",
        ) from None
    try:
        report = ncu_report.load_report(str(path))
        kernels = [_kernel(action) for range_ in _ranges(report) for action in _actions(range_)]
    except Exception as error:  # the reader's own errors are of many types
        raise ReportDamaged(f"{path}: NVIDIA's reader refuses it: {error}. Make the report again.") from None
    if not kernels:
        raise ReportDamaged(f"{path} has no kernel in it. Profile something that launches one.")
    return kernels


def check_structure(path: Path) -> None:
    """Pass where a file has the structure of a report from its first byte to its last.

    Raises
    ------
    ReportDamaged
        It has not.
    """
    try:
        # Without waiting, for a pipe's other end may never come. Payloads may be large and are passed over.
        with open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ReportDamaged(f"{path} is no regular file. Give a .ncu-rep file.")
            _check_blocks(path, file, status.st_size)
    except OSError as error:
        raise ReportDamaged(f"{path} cannot be read: {error.strerror}. Give a .ncu-rep file.") from None


def _check_blocks(path: Path, file: RawIOBase, size: int) -> None:
    begin = file.read(len(MAGIC))
    if not begin:
        raise ReportDamaged(f"{path} is empty: what made it ended before it wrote. Make the report again.")
    if begin != MAGIC:
        raise ReportDamaged(f"{path} is no report of Nsight Compute: it begins with {begin!r}, not {MAGIC!r}.")
    blocks = 0
    _, at = _sized(path, file, len(MAGIC), size)
    while at < size:
        header, at = _sized(path, file, at, size)
        at += _payload_bytes(path, header)
        blocks += 1
        if at > size:
            raise _cut_off(path, size, at)
    if not blocks:
        raise ReportDamaged(f"{path} ends after its header: no kernel was profiled, or its end is missing.")


def _cut_off(path: Path, size: int, needed: int) -> ReportDamaged:
    return ReportDamaged(
        f"{path} is cut off: it has {size:,} bytes and needs {needed:,} or more. Copy or make it again."
    )


def _sized(path: Path, file: RawIOBase, at: int, size: int) -> tuple[bytes, int]:
    """A piece with its length before it, and where it ends."""
    begin = at + 4
    file.seek(at)
    length = int.from_bytes(file.read(4) or b"", "little")
    end = begin + length
    if begin > size or end > size:
        raise _cut_off(path, size, max(begin, end))
    if length > _MOST_HEADER:
        raise ReportDamaged(f"{path} is damaged: a header of {length:,} bytes. Make the report again.")
    return file.read(length) or b"", end


def _payload_bytes(path: Path, header: bytes) -> int:
    try:
        return sum(value for number, value in _numbers(header) if number == _PAYLOAD_SIZE)
    except (IndexError, KeyError):
        raise ReportDamaged(f"{path} is damaged: a block's header cannot be read. Make the report again.") from None


def _numbers(message: bytes) -> Iterator[tuple[int, int]]:
    """Field and value of each whole number in a protobuf message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
        elif kind == _BYTES:
            length, at = _varint(message, at)
            at += length
        else:
            at += _WIDTHS[kind]


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _ranges(report: Any) -> Iterator[Any]:
    for index in range(report.num_ranges()):
        yield report.range_by_idx(index)


def _actions(range_: Any) -> Iterator[Any]:
    for index in range(range_.num_actions()):
        yield range_.action_by_idx(index)


def _kernel(action: Any) -> KernelCounters:
    metrics: dict[str, float] = {}
    units: dict[str, str] = {}
    gpu = None
    for name in sorted(action.metric_names()):
        metric = action.metric_by_name(name)
        value = metric.value() if metric is not None and metric.has_value() else None
        if name == "device__attribute_display_name":
            gpu = None if value is None else str(value)
        elif isinstance(value, (int, float)) and math.isfinite(value) and not name.startswith("device__"):
            metrics[name] = float(value)
            if unit := metric.unit():
                units[name] = unit
    sizes = [tuple(int(metrics.get(f"launch__{what}_dim_{axis}", 0)) for axis in "xyz") for what in ("grid", "block")]
    return KernelCounters(action.name(), _annotation(action), gpu, sizes[0], sizes[1], metrics, units)


def _annotation(action: Any) -> str | None:
    """Innermost NVTX range, nsight-python's own first."""
    state = action.nvtx_state()
    if state is None:
        return None
    domains = [state.domain_by_id(index) for index in state.domains()]
    domains.sort(key=lambda domain: domain.name() != NSIGHT_DOMAIN)
    for domain in domains:
        # nsight-python 0.9.6 pushes and pops its ranges, 1.x starts and ends them.
        if ranges := [*domain.start_end_ranges(), *domain.push_pop_ranges()]:
            return str(ranges[-1])
    return None
