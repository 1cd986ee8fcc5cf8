"""Reports of Nsight Compute, written byte by byte: what the stand-in for ``ncu`` leaves and the reader is tested on.

The messages are those that NVIDIA publishes for its report format (ProfilerReport.proto), required fields and what a
reader looks at.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

GPU = "Stand-in GPU"
DOMAIN = "nsight-python"
THREAD = 1


class Launch(NamedTuple):
    """One kernel launch of a report."""

    name: str
    annotation: str | None
    metrics: Mapping[str, float | str]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def piece(field: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def value_of(value: float | str) -> bytes:
    if isinstance(value, str):
        return piece(1, value)
    if isinstance(value, int):
        return number(5, value)
    return varint(3 << 3 | 1) + struct.pack("<d", value)


def size3(x: int, y: int = 1, z: int = 1) -> bytes:
    return number(1, x) + number(2, y) + number(3, z)


def nvtx(annotation: str, started: bool) -> bytes:
    """A range around a launch: pushed, as nsight-python 0.9.6 does, or started, as 1.x does."""
    domain = number(1, 1) + piece(2, DOMAIN)
    if started:
        range_ = number(1, 1) + piece(2, annotation) + number(5, THREAD)
        return piece(1, domain) + piece(3, number(1, 1) + piece(3, range_))
    stack = number(1, 1) + piece(3, piece(1, annotation))
    return piece(1, domain) + piece(2, number(1, THREAD) + piece(2, stack))


def result(launch: Launch, names: Sequence[str], started: bool) -> bytes:
    attributes: dict[str, float | str] = {
        "device__attribute_display_name": GPU,
        "device__attribute_clock_rate": 1_980_000,
        "device__attribute_memory_clock_rate": 3_201_000,
        "launch__grid_dim_x": 132,
        "launch__grid_dim_y": 1,
        "launch__grid_dim_z": 1,
        "launch__block_dim_x": 256,
        "launch__block_dim_y": 1,
        "launch__block_dim_z": 1,
    }
    metrics = b"".join(
        piece(13, number(1, names.index(name)) + piece(2, value_of(value)))
        for name, value in {**attributes, **launch.metrics}.items()
    )
    body = number(1, THREAD) + b"".join(number(field, field) for field in (2, 3, 4))
    body += piece(5, launch.name) + piece(6, launch.name) + piece(7, launch.name) + number(8, 1)
    body += piece(9, size3(0, 0, 0)) + piece(10, size3(132)) + piece(11, size3(256)) + metrics + piece(15, b"")
    return body + (piece(21, nvtx(launch.annotation, started)) if launch.annotation else b"")


def report(launches: Sequence[Launch], started: bool = False) -> bytes:
    """A whole report."""
    names = sorted(
        {name for launch in launches for name in launch.metrics}
        | {"device__attribute_display_name", "device__attribute_clock_rate", "device__attribute_memory_clock_rate"}
        | {f"launch__{what}_dim_{axis}" for what in ("grid", "block") for axis in "xyz"}
    )
    entries = [result(launch, names, started) for launch in launches]
    payload = b"".join(struct.pack("<I", len(entry)) + entry for entry in entries)
    strings = b"".join(piece(1, name) for name in names)
    header = number(1, 0) + number(2, len(entries)) + piece(4, strings) + number(5, len(payload))
    file_header = number(1, 11)
    return (
        b"NVR\0" + struct.pack("<I", len(file_header)) + file_header + struct.pack("<I", len(header)) + header + payload
    )
