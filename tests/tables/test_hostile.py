"""Tables that lie elsewhere, come twice, or are changed by two at once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.tables.tables import table
from workbench.errors import InvalidArgument, TableError
from workbench.tables import Dispatch, find_table, load_table, module_source, read_sglang, save_table
from workbench.tables.dispatch import DispatchTable, _digest
from workbench.tables.tuned import read_tuned


def test_two_tables_of_one_shape_and_class_are_refused():
    with pytest.raises(InvalidArgument, match="two tables are of one shape and precision class: K 4096 N 192 split"):
        Dispatch("H200", [table(), table(level=0.9)])


@pytest.mark.parametrize(("gpu", "tables", "match"), [(5, None, "gpu is 5"), ("H200", ["x.json"], "a table is a str")])
def test_a_dispatch_takes_a_name_and_tables(gpu, tables, match):
    with pytest.raises(InvalidArgument, match=match):
        Dispatch(gpu, tables)


def test_a_table_in_a_wrong_place_is_named(tmp_path):
    path = save_table(table())
    wrong = path.with_name("router_gemm-K6144-N768-split.json")
    path.rename(wrong)
    with pytest.raises(TableError, match=rf"{wrong}: .*made for K 4096, N 192.*Remove the file"):
        find_table("H200", 6144, 768, "split")


def test_paths_that_no_system_takes():
    with pytest.raises(TableError, match="embedded null"):
        load_table("a\0b")
    with pytest.raises(TableError, match="cannot be read"):
        find_table("x" * 5000, 4096, 192, "split")


def test_a_table_says_its_schema():
    document = json.loads(table().encode())
    del document["schema_version"], document["digest"]
    document["digest"] = _digest(document)
    with pytest.raises(TableError, match="does not say its schema_version"):
        DispatchTable.decode(json.dumps(document).encode())


@pytest.mark.parametrize("m", [1.5, float("nan"), "5", None])
def test_the_exported_module_takes_whole_numbers_of_rows(m):
    module: dict = {}
    exec(module_source([table()]), module)
    assert module["choose"](True, k=4096, n=192) == "cuda"
    with pytest.raises(TypeError, match="integer"):
        module["choose"](m, k=4096, n=192)


def test_a_byte_order_mark_is_no_fault(tmp_path):
    (tmp_path / "router.py").write_text("\ufeffTABLE = {(6144, 768): 64}\n", encoding="utf-8")
    assert read_sglang(tmp_path / "router.py") == {(6144, 768): 64}


ADD = """
import sys
from datetime import date
from workbench.tables.tuned import TunedEntry, TunedTable, read_tuned, save_tuned, tuned_lock
for i in range(20):
    entry = TunedEntry(key={"m": i, "who": sys.argv[1]}, config={"tile_m": 64}, cases=("case",), gain=0.1, gain_low=0.1,
                       gain_high=0.1, source_digest="0" * 64, date=date(2026, 11, 30))
    with tuned_lock("H200", "router_gemm"):
        found = read_tuned("H200", "router_gemm") or TunedTable(gpu="NVIDIA H200", sms=132, operator="router_gemm")
        save_tuned(found.with_entry(entry))
"""


def test_two_who_change_one_table_lose_nothing():
    both = [subprocess.Popen([sys.executable, "-c", ADD, who]) for who in "ab"]
    assert [one.wait() for one in both] == [0, 0]
    assert len(read_tuned("H200", "router_gemm").entries) == 40
