"""Dispatch tables: round trips, what they refuse, and where they lie."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.tables.tables import SPANS, table
from workbench.errors import InvalidArgument, TableError
from workbench.tables import DispatchTable, Span, find_table, load_table, save_table, table_path


def test_round_trip():
    made = table()
    again = DispatchTable.decode(made.encode())
    assert again == made
    assert again.encode() == made.encode()


def test_fields_of_a_later_version_are_kept():
    made = table(later={"clusters": 2})
    assert json.loads(DispatchTable.decode(made.encode()).encode())["later"] == {"clusters": 2}


@given(st.integers(0, 2000))
def test_choice_is_that_of_the_spans(m):
    (span,) = [s for s in SPANS if s.low <= m and (s.high is None or m <= s.high)]
    assert table().choose(m) == span.provider


def test_a_table_of_another_shape_or_gpu_is_refused():
    made = table()
    made.check(gpu="NVIDIA H200", k=4096, n=192)
    made.check(gpu="h200", k=4096, n=192)
    with pytest.raises(TableError, match="made for K 4096, N 192, and the weight has K 6144, N 192"):
        made.check(gpu="H200", k=6144, n=192)
    with pytest.raises(TableError, match=r"measured on NVIDIA H200, and the GPU here is H100.*other_gpu=True"):
        made.check(gpu="H100", k=4096, n=192)
    made.check(gpu="H100", k=4096, n=192, other_gpu=True)
    with pytest.raises(TableError, match="K 6144"):
        made.check(gpu="H100", k=6144, n=192, other_gpu=True)


def replaced(**changes):
    """The document with other content, and a digest that fits."""
    document = json.loads(table().encode())
    document |= changes
    document.pop("digest")
    from workbench.tables.dispatch import _digest

    return json.dumps(document | {"digest": _digest(document)}).encode()


SPAN = {"low": 0, "high": None, "provider": "cuda", "winner": None, "basis": "outside"}


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "no dispatch table"),
        (b"{", "no dispatch table"),
        (b"\xff\xfe", "no dispatch table"),
        (b"[]", "router-dispatch"),
        (b'{"kind": "timing"}', "router-dispatch"),
        (b"[" * 100_000, "no dispatch table"),
        (b'{"kind": "router-dispatch", "k": NaN}', "NaN"),
        (b'{"kind": "router-dispatch", "k": ' + b"9" * 10_000 + b"}", "no dispatch table"),
        (b'{"kind": "router-dispatch"}', "digest"),
        (table().encode().replace(b'"high": 64', b'"high": 63'), "edited or damaged"),
        (table().encode()[:-40], "no dispatch table"),
        (replaced(schema_version=2), "up to 1"),
        (replaced(schema_version="1"), "schema_version"),
        (replaced(operator="fused_moe"), "operator"),
        (replaced(k=-8), "k: "),
        (replaced(k=4096.0), "k: "),
        (replaced(spans=[]), "spans"),
        (replaced(spans=[SPAN | {"low": 1}]), "begins at 1"),
        (replaced(spans=[SPAN | {"high": 9}]), "ends at 9"),
        (replaced(spans=[SPAN, SPAN]), "only the last has no end"),
        (replaced(spans=[SPAN | {"provider": "nobody"}]), "was not compared"),
        (replaced(spans=[SPAN | {"provider": "../../x"}]), "provider"),
        (replaced(spans=[SPAN | {"winner": "cuda"}]), "winner"),
        (replaced(spans=[SPAN | {"basis": "guessed"}]), "basis"),
        (replaced(spans=[SPAN | {"measured": [4]}]), "measured at"),
        (replaced(providers={"cuda": "bf16"}), "'split' is allowed"),
        (replaced(precision="exact"), "allowed"),
        (replaced(providers={}), "providers"),
        (replaced(level=1.0), "level"),
        (replaced(evidence="x"), "evidence"),
    ],
)
def test_hostile_documents_are_refused(tmp_path, content, word):
    with pytest.raises(TableError, match=word):
        DispatchTable.decode(content)
    (tmp_path / "table.json").write_bytes(content)
    with pytest.raises(TableError, match=r"table\.json: "):
        load_table(tmp_path / "table.json")


def test_a_span_that_contradicts_itself_is_refused():
    with pytest.raises(ValidationError, match="ends at 3"):
        Span(low=4, high=3, provider="a", basis="undecided")
    with pytest.raises(ValidationError, match="measured at"):
        Span(low=4, high=8, provider="a", winner="a", basis="measured", measured=(9,))
    with pytest.raises(ValidationError, match="measured at"):
        Span(low=4, high=8, provider="a", winner="a", basis="measured")


def test_infinite_numbers_are_not_written():
    with pytest.raises(TableError, match="finite"):
        table(later=float("inf")).encode()


def test_saved_tables_are_found_by_any_name_of_the_gpu():
    assert find_table("NVIDIA H200", 4096, 192, "split") is None
    path = save_table(table())
    assert path == table_path("h200", 4096, 192, "split")
    assert find_table("H200", 4096, 192, "split") == table()
    assert find_table("NVIDIA H200", 4096, 192, "tf32") is None
    newer = table(made_by="hpc-ops-workbench 0.2.0")
    save_table(newer)
    assert find_table("H200", 4096, 192, "split") == newer
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_table_in_another_s_place_is_refused():
    path = table_path("H200", 6144, 768, "split")
    path.parent.mkdir(parents=True)
    save_table(table(), path)
    with pytest.raises(TableError, match="the weight has K 6144"):
        find_table("H200", 6144, 768, "split")
    other = table_path("H200", 4096, 192, "tf32")
    save_table(table(), other)
    with pytest.raises(TableError, match="precision 'split'"):
        find_table("H200", 4096, 192, "tf32")


def test_files_that_cannot_be_used_are_named(tmp_path):
    with pytest.raises(TableError, match=r"absent\.json: it cannot be read"):
        load_table(tmp_path / "absent.json")
    with pytest.raises(TableError, match="cannot be written"):
        save_table(table(), tmp_path / "nowhere" / "table.json")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TableError, match="not a regular file"):
        load_table(tmp_path / "pipe")
    large = tmp_path / "large.json"
    large.write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(TableError, match="at most 1,048,576"):
        load_table(large)


def test_rows_that_are_no_number_are_refused():
    with pytest.raises(InvalidArgument, match="whole number"):
        table().choose(-1)
