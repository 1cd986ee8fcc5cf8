"""Records: what was observed, kept as small documents that open on any machine.

============== ========================================================================================
`store`        `Store`: add, query as a table, read, side files
`documents`    `TimingRecord`, `ResourcesRecord`, `TimelineRecord`, `NsightRecord`, `ReferenceRecord`
`parts`        `Environment`, `Workload`, `Provenance`, `Attachment`: what they are made of
`labels`       `origin_label`: where a figure comes from, in words
`methods`      `is_of_study`, `is_alone`: whether a tuning study measured it; whether one launch was stamped
`layout`       the path of a record, which follows from its content
`arrays`       arrays of a timeline as a side file
`rows`         a record as a row of a table
`index`        rows kept between processes
`files`        reading with care, writing whole or not at all
============== ========================================================================================
"""

from __future__ import annotations

from workbench.records.arrays import pack_arrays, unpack_arrays
from workbench.records.documents import (
    NsightRecord,
    Record,
    ReferenceRecord,
    ResourcesRecord,
    TimelineRecord,
    TimingRecord,
    decode,
)
from workbench.records.files import Problem
from workbench.records.labels import origin_label
from workbench.records.methods import is_alone, is_of_study
from workbench.records.parts import Attachment, ClockReading, Clocks, Environment, Provenance, Workload
from workbench.records.store import Store

__all__ = [
    "Attachment",
    "ClockReading",
    "Clocks",
    "Environment",
    "NsightRecord",
    "Problem",
    "Provenance",
    "Record",
    "ReferenceRecord",
    "ResourcesRecord",
    "Store",
    "TimelineRecord",
    "TimingRecord",
    "Workload",
    "decode",
    "is_alone",
    "is_of_study",
    "origin_label",
    "pack_arrays",
    "unpack_arrays",
]
