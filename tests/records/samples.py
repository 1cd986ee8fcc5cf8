"""Records to test with: made by hand, and drawn by Hypothesis."""

from __future__ import annotations

import datetime
from statistics import median
from typing import Any

from hypothesis import strategies as st

from workbench.records import (
    Attachment,
    Clocks,
    Environment,
    NsightRecord,
    Provenance,
    Record,
    ReferenceRecord,
    ResourcesRecord,
    TimelineRecord,
    TimingRecord,
    Workload,
)

ENVIRONMENT = Environment(gpu="NVIDIA H200", date=datetime.date(2026, 11, 29), sms=132)


def timing(**changes: Any) -> TimingRecord:
    fields: dict[str, Any] = {
        "operator": "attention_decode",
        "provider": "workbench",
        "policy": "balanced",
        "configuration": {"stages": 3, "pdl": True},
        "environment": ENVIRONMENT,
        "workload": Workload(case="64x4K", dtype="fp8"),
        "samples_us": (21.0, 20.5, 22.0),
        "median_us": 21.0,
        "low_us": 20.5,
        "high_us": 22.0,
        "rel_error": 0.0017,
    }
    return TimingRecord(**{**fields, **changes})


def reference(**changes: Any) -> ReferenceRecord:
    fields: dict[str, Any] = {
        "operator": "router_gemm",
        "provider": "cublas-tf32",
        "environment": ENVIRONMENT,
        "workload": Workload(case="M1-K4096-N192", dtype="bf16", m=1, k=4096, n=192),
        "median_us": 6.7,
        "provenance": Provenance(measured_by="somebody", source="a paper"),
    }
    return ReferenceRecord(**{**fields, **changes})


def timeline(content: bytes, **changes: Any) -> TimelineRecord:
    return TimelineRecord(
        operator="attention_decode",
        provider="workbench",
        environment=ENVIRONMENT,
        workload=Workload(case="64x4K", dtype="fp8"),
        attachment=Attachment.of(content, ".npz"),
        **changes,
    )


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_mappings = st.dictionaries(st.text(), _values, max_size=3)
_unknown = st.dictionaries(st.text().map("later_{}".format), _values, max_size=3)
_names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._+=,()-]{0,20}\Z")
_words = st.none() | st.text(max_size=10)
_counts = st.none() | st.integers(0, 2**63 - 1)
_amounts = st.integers(0, 2**63 - 1)
_microseconds = st.floats(1e-3, 1e9)
_digests = st.from_regex(r"\A[0-9a-f]{64}\Z")
_attachments = st.builds(Attachment, suffix=st.sampled_from([".npz", ".ncu-rep"]), sha256=_digests, size_bytes=_amounts)

_environments = st.builds(
    lambda unknown, **known: Environment(**known, **unknown),
    unknown=_unknown,
    gpu=st.text(max_size=20).map("GPU {}".format),
    date=st.dates(),
    sms=st.none() | st.integers(1, 10_000),
    driver=_words,
    torch=_words,
    clocks=st.none() | st.builds(Clocks, sm_mhz=_counts, memory_mhz=_counts),
)
_workloads = st.builds(
    lambda unknown, **known: Workload(**known, **unknown),
    unknown=_unknown,
    case=_names,
    dtype=_words,
    model=_words,
    parameters=_mappings,
    **dict.fromkeys(("m", "n", "k", "tp", "ep", "tokens"), _counts),
)
_common: dict[str, Any] = {
    "operator": st.from_regex(r"\A[a-z][a-z0-9_]{0,20}\Z"),
    "provider": _names,
    "environment": _environments,
    "workload": _workloads,
    "policy": _words,
    "configuration": _mappings,
    "source_digest": st.none() | _digests,
    "method": _words,
}


def _of(made: type[Record], **own: Any) -> st.SearchStrategy[Record]:
    return st.builds(lambda unknown, **known: made(**known, **unknown), unknown=_unknown, **_common, **own)


@st.composite
def _timings(draw: st.DrawFn) -> Record:
    samples = tuple(draw(st.lists(_microseconds, min_size=1, max_size=5)))
    times = {"samples_us": samples, "median_us": median(samples), "low_us": min(samples), "high_us": max(samples)}
    own = {name: st.just(value) for name, value in times.items()}
    return draw(_of(TimingRecord, **own, rel_error=st.none() | st.floats(0, 1)))


records = st.one_of(
    _timings(),
    _of(
        ResourcesRecord,
        arch=st.text(),
        spill_store_bytes=_counts,
        **dict.fromkeys(("registers", "shared_bytes", "threads", "ctas_per_sm"), _amounts),
    ),
    _of(TimelineRecord, attachment=_attachments),
    _of(
        NsightRecord,
        metrics=st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=3),
        attachment=st.none() | _attachments,
    ),
    _of(
        ReferenceRecord,
        median_us=_microseconds,
        provenance=st.builds(Provenance, measured_by=st.text(min_size=1), source=st.text(), software=_words),
    ),
    _of(Record, kind=st.just("of_a_newer_version"), schema_version=st.integers(2, 9)),
)
