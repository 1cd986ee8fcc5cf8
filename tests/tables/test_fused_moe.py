"""Fused-MoE files: exact content, in the place where each engine reads it, and the entry that it uses."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables.moe import BLOCK, NAMES, PLAIN, TILE
from workbench.errors import InvalidArgument, TableError
from workbench.tables.fused_moe import MoeTable, place, read_moe, write_moe


def test_content_is_what_each_engine_loads(tmp_path):
    table = MoeTable(BLOCK, {64: TILE, 1: {**TILE, "BLOCK_SIZE_M": 16}})
    sglang = write_moe(table, tmp_path, "sglang", "3.6.0")
    vllm = write_moe(table, tmp_path, "vllm", "3.6.0")
    assert sglang == tmp_path / "configs" / "triton_3_6_0" / NAMES["block", "sglang"]
    assert vllm == tmp_path / NAMES["block", "vllm"]
    # What the engines do with it: every key of SGLang's is a number; vLLM takes triton_version off first.
    loaded = {int(key): value for key, value in json.loads(sglang.read_bytes()).items()}
    assert list(loaded) == [1, 64]
    said = json.loads(vllm.read_bytes())
    assert said.pop("triton_version") == "3.6.0"
    assert {int(key): value for key, value in said.items()} == loaded
    assert read_moe(sglang).tiles == read_moe(vllm).tiles == loaded
    assert not list(tmp_path.rglob("*.part"))


@given(st.lists(st.integers(1, 300), min_size=1, max_size=8, unique=True))
def test_spans_are_what_nearest_gives_for_every_number_of_tokens(keys):
    table = MoeTable(PLAIN, dict.fromkeys(keys, TILE))
    chosen = [min(keys, key=lambda key: abs(key - tokens)) for tokens in range(1, 400)]  # what both engines compute
    assert [table.nearest(tokens) for tokens in range(1, 400)] == chosen
    spans = table.spans()
    assert spans[0].first == 1
    assert spans[-1].last is None
    for tokens in range(1, 400):
        (span,) = [s for s in spans if s.first <= tokens and (s.last is None or tokens <= s.last)]
        assert span.key == chosen[tokens - 1]


def test_reading_names_the_file(tmp_path):
    path = tmp_path / NAMES["plain", "vllm"]
    with pytest.raises(TableError, match=r"E=128.*cannot be read"):
        read_moe(path)
    path.write_text("{")
    with pytest.raises(TableError, match=r"E=128.*no JSON"):
        read_moe(path)
    with pytest.raises(TableError, match="is no name of a fused-MoE file"):
        read_moe(tmp_path / "config.json")


def test_arguments_are_checked(tmp_path):
    with pytest.raises(InvalidArgument, match="folders are by version"):
        place(tmp_path, PLAIN, "sglang")
    with pytest.raises(InvalidArgument, match="no entry"):
        MoeTable(PLAIN, {}).nearest(3)


ENTRY = json.dumps(TILE)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xef\xbb\xbf" + json.dumps({"1": TILE}).encode(), "no JSON.*BOM"),
        (json.dumps({"1": TILE}).encode("utf-16"), "no JSON"),
        (f'{{"1": {ENTRY}, "1": {ENTRY}}}'.encode(), "key '1' is there 2 times"),
        (f'{{"1": {ENTRY}, "01": {ENTRY}}}'.encode(), "'01' is of 1 tokens, which are there already"),
        (json.dumps({"1": {**TILE, "num_warps": True}}).encode(), "expected numbers by name"),
    ],
    ids=["byte-order mark", "UTF-16", "key twice", "number twice", "truth value"],
)
def test_what_an_engine_reads_otherwise_is_refused(content, words):
    with pytest.raises(TableError, match=words):
        MoeTable.decode(BLOCK, content)
