"""What a GPU can do at most: measured in records where there are any, by its datasheet besides."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from workbench import devices
from workbench.errors import InvalidArgument, RecordWarning
from workbench.records import Store, TimingRecord
from workbench.widgets.profiles.work import ROUTER, attention_case

READER = "read"
"""Provider of the kernel that only reads."""

PRODUCT = "cublas-bf16"
"""Provider whose bf16 products stand for the tensor cores' measured rate."""

BYTES, OPERATIONS = "byte/s", "FLOP/s"


@dataclass(frozen=True)
class Ceiling:
    """One limit.

    Attributes
    ----------
    unit : str
        "byte/s" or "FLOP/s".
    rate : float
        In that unit.
    words : str
        What it is of, and where the figure comes from.
    measured : bool
        False: by the datasheet.
    """

    unit: str
    rate: float
    words: str
    measured: bool


def ceilings(store: Store, gpu: str) -> tuple[Ceiling, ...]:
    """All that is known of a GPU, measured ones first; empty where the GPU is neither in records nor the catalogue.

    The measured read rate is the highest of the records of a kernel that only reads; the catalogue's own measurement
    stands in where there is no such record. The measured rate of operations is the highest of cuBLAS' bf16 products.

    Parameters
    ----------
    store
        Where records are looked for.
    gpu
        As the record of the capture names it.
    """
    try:
        known: devices.Gpu | None = devices.gpu(gpu)
    except InvalidArgument:  # a GPU that the catalogue does not have: its records may still
        known = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)  # the browser tells of damaged records once, for all
        read = max(_read_rates(store, gpu), key=lambda one: one.rate, default=None)
        product = max(_product_rates(store, gpu), key=lambda one: one.rate, default=None)
    found = [one for one in (read, product) if one is not None]
    if known is not None:
        if read is None and known.measured_read_bandwidth:
            words = "a kernel that only reads 4 GB, measured (catalogue)"
            found.append(Ceiling(BYTES, known.measured_read_bandwidth, words, True))
        found.append(Ceiling(BYTES, known.memory_bandwidth, f"memory of the {known.name}, datasheet", False))
        for name, rate in (("bf16", known.bf16_flops), ("FP8", known.fp8_flops)):
            if rate:
                found.append(Ceiling(OPERATIONS, rate, f"{name} tensor cores, datasheet", False))
    return tuple(found)


def _read_rates(store: Store, gpu: str) -> Iterator[Ceiling]:
    for _, record in store.records(gpu=gpu, kind="timing", provider=READER):
        case = attention_case(record.workload)
        if isinstance(record, TimingRecord) and case is not None:
            where = f"recorded ({record.environment.gpu}, {record.environment.date.isoformat()})"
            words = f"a kernel that only reads {record.workload.case}, {record.workload.dtype}, {where}"
            yield Ceiling(BYTES, case.kv_bytes / record.median_us * 1e6, words, True)


def _product_rates(store: Store, gpu: str) -> Iterator[Ceiling]:
    for row in store.rows(gpu=gpu, operator=ROUTER, provider=PRODUCT, kind=("timing", "reference")):
        sizes = [row["m"], row["n"], row["k"], row["median_us"]]
        if all(sizes):
            m, n, k, us = (float(size or 0) for size in sizes)
            yield Ceiling(OPERATIONS, 2 * m * n * k / us * 1e6, f"cuBLAS bf16, {row['case']}, {row['origin']}", True)
