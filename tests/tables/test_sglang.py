"""SGLang's form of a table, read and written."""

from __future__ import annotations

import ast

import pytest

from workbench.errors import TableError
from workbench.tables import SGLANG, format_sglang, read_sglang, sglang_choice


def test_the_table_in_use():
    assert dict(SGLANG) == {(6144, 768): 64, (3072, 384): 128}
    chat = sglang_choice(6144, 768)
    assert (chat.at(63), chat.at(64)) == ("cublas-fp32", "hpc")
    lite = sglang_choice(3072, 384)
    assert (lite.at(127), lite.at(128)) == ("cublas-fp32", "hpc")
    assert sglang_choice(4096, 192).providers == ("cublas-fp32",)


def test_round_trip(tmp_path):
    text = format_sglang(SGLANG)
    assert ast.literal_eval(text) == dict(SGLANG)
    (tmp_path / "table.py").write_text(text)
    assert read_sglang(tmp_path / "table.py") == dict(SGLANG)


def test_a_table_among_other_source_is_found_and_nothing_runs(tmp_path):
    source = """
import os
os.remove(__file__)
OTHER = {"a": 1}
_ROUTER: dict[tuple[int, int], int] = {
    (6144, 768): 64,  # Chat
    (3072, 384): 128,
}
"""
    path = tmp_path / "module.py"
    path.write_text(source)
    assert read_sglang(path) == dict(SGLANG)
    assert path.exists()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "holds 0 dicts"),
        ("x = 1", "holds 0 dicts"),
        ("{(1, 2): 3", "not Python"),
        ("{(8, 8): 1}\n{(8, 16): 1}", "holds 2 dicts"),
        ("{(8, 8): -1}", "holds 0 dicts"),
        ("{(8, 8): 1.5}", "holds 0 dicts"),
        ("{(8, 8): True}", "holds 0 dicts"),
        ("{(8, 8, 8): 1}", "holds 0 dicts"),
        ("{(8, 8): 1, 'x': 2}", "holds 0 dicts"),
        ("{(8, 8): open('/etc/passwd')}", "holds 0 dicts"),
        ("{(8, 8): 99999999999}", "holds 0 dicts"),
        ("{[8, 8]: 1}", "holds 0 dicts"),
        ("(" * 5000, "not Python"),
        ("\0", "not Python"),
    ],
)
def test_sources_that_are_refused(tmp_path, text, word):
    path = tmp_path / "table.py"
    path.write_text(text)
    with pytest.raises(TableError, match=word):
        read_sglang(path)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "table.py").write_bytes(b"\xff\xfe")
    with pytest.raises(TableError, match=r"table\.py"):
        read_sglang(tmp_path / "table.py")
    with pytest.raises(TableError, match="cannot be read"):
        read_sglang(tmp_path / "absent.py")
