"""Documents keep what they are given, and refuse what is none."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.records.samples import records, reference, timing
from workbench.errors import RecordError
from workbench.records import Record, TimingRecord, Workload, decode
from workbench.records.layout import folder, location


@given(records)
def test_round_trip_keeps_every_field_and_every_byte(record):
    again = decode(record.encode())
    assert type(again) is type(record)
    assert again == record
    assert again.model_extra == record.model_extra
    assert again.encode() == record.encode()
    assert folder(again) == folder(record)


@given(records)
def test_encoded_is_one_line_of_plain_json_with_kind_and_version(record):
    content = record.encode()
    assert content.endswith(b"\n")
    assert content.count(b"\n") == 1
    document = json.loads(content)
    assert document["kind"] == record.kind
    assert document["schema_version"] == record.schema_version


def edited(record: Record, **changes: Any) -> bytes:
    return json.dumps({**json.loads(record.encode()), **changes}).encode()


def test_unknown_fields_at_any_depth_survive():
    document = json.loads(timing().encode())
    document["later"] = {"deep": [1, None, {"x": 2.5}]}
    document["environment"]["power_limit_w"] = None
    document["workload"]["beams"] = 4
    again = json.loads(decode(json.dumps(document).encode()).encode())
    assert again == document


def test_unknown_kind_is_read_as_a_plain_record_and_kept():
    record = decode(edited(timing(), kind="power", schema_version=7))
    assert type(record) is Record
    assert json.loads(record.encode())["samples_us"] == [21.0, 20.5, 22.0]
    assert record.schema_version == 7


def test_a_field_that_an_older_writer_did_not_know_has_its_default():
    document = json.loads(timing().encode())
    for name in ("policy", "rel_error", "configuration"):
        del document[name]
    record = decode(json.dumps(document).encode())
    assert isinstance(record, TimingRecord)
    assert (record.policy, record.rel_error, record.configuration) == (None, None, {})
    assert json.loads(record.encode()) == document


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"median_us": "21"}, "median_us"),
        ({"median_us": 25.0}, "samples' median"),
        ({"median_us": -1}, "median_us"),
        ({"low_us": 21.5}, "interval"),
        ({"high_us": 20.9}, "interval"),
        ({"samples_us": []}, "samples_us"),
        ({"samples_us": [1, None]}, "samples_us.1"),
        ({"samples_us": {"a": 1}}, "samples_us"),
        ({"workload": None}, "workload"),
        ({"workload": {"case": "64x4K", "tokens": "8"}}, "workload.tokens"),
        ({"workload": {"case": "64x4K", "tokens": True}}, "workload.tokens"),
        ({"workload": {"case": "64x4K", "tokens": 2**63}}, "workload.tokens"),
        ({"environment": {"gpu": "NVIDIA H200", "date": "yesterday"}}, "environment.date"),
        ({"environment": {"gpu": "///", "date": "2026-11-29"}}, "environment.gpu"),
        ({"operator": "../../etc"}, "operator"),
        ({"provider": ".."}, "provider"),
        ({"workload": {"case": "a/b"}}, "workload.case"),
        ({"workload": {"case": ".hidden"}}, "workload.case"),
        ({"kind": ["timing"]}, "kind"),
        ({"kind": "../timing"}, "kind"),
        ({"schema_version": 0}, "schema_version"),
        ({"source_digest": "abc"}, "source_digest"),
        ({"attachment": {"suffix": ".pkl", "sha256": "0" * 64, "size_bytes": 1}}, "attachment.suffix"),
        ({"rel_error": math.nan}, "rel_error"),
        ({"later": math.inf}, "JSON"),
        ({"configuration": {"x": math.nan}}, "JSON"),
    ],
)
def test_a_wrong_field_is_named(changes, place):
    with pytest.raises(RecordError) as raised:
        decode(edited(timing(), **changes))
    assert place in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        timing().encode()[:200],
        b"[]",
        b"null",
        b"3",
        b"\xff\xfe",
        b"\x00" * 100,
        b"[" * 100_000,
        b'{"a":' * 5000,
    ],
    ids=["empty", "brace", "half", "list", "null", "number", "not-utf8", "zeros", "deep-list", "deep-object"],
)
def test_what_is_no_document_is_refused(content):
    with pytest.raises(RecordError, match="it is no record"):
        decode(content)


@given(st.binary(max_size=60), st.integers(0, 400), st.integers(0, 400))
def test_any_damage_is_refused_or_read_as_a_record(noise, start, length):
    content = timing().encode()
    damaged = content[:start] + noise + content[start + length :]
    try:
        record = decode(damaged)
    except RecordError:
        return
    assert decode(record.encode()) == record


def test_documents_are_frozen_and_strict_in_python_too():
    record = timing()
    with pytest.raises(ValidationError):
        record.median_us = 1.0
    with pytest.raises(ValidationError):
        Workload(case="a", tokens="8")
    with pytest.raises(ValidationError, match="pattern"):
        Workload(case="a b")


def test_place_tells_apart_what_differs_and_only_that():
    base = timing()
    assert folder(base) == folder(timing(rel_error=None))
    others = [timing(policy="lpt"), timing(provider="fa3"), timing(configuration={"stages": 2, "pdl": True})]
    assert len({folder(record) for record in [base, *others]}) == 4
    assert timing(configuration={"pdl": True, "stages": 3}).configuration_digest == base.configuration_digest
    path = location(base, base.encode())
    assert path.parts[:3] == ("nvidia-h200", "attention_decode", "64x4K")
    assert path.name.startswith("timing-")
    assert location(reference(), reference().encode()).parts[:3] == ("nvidia-h200", "router_gemm", "M1-K4096-N192")
