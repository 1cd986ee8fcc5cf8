"""The index makes a store quick to list, and never changes what is listed."""

from __future__ import annotations

import json
import os

import pytest

from tests.records.samples import reference, timing
from workbench.errors import CacheWarning, RecordWarning
from workbench.records import Store
from workbench.records import store as store_module


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "store")
    made.add(timing())
    made.add(reference())
    return made


@pytest.fixture
def reads(monkeypatch):
    """Files whose content was read."""
    seen = []
    real = store_module.read_limited

    def read(path, limit):
        seen.append(path)
        return real(path, limit)

    monkeypatch.setattr(store_module, "read_limited", read)
    return seen


def index_file(tmp_path):
    (file,) = (tmp_path / "cache" / "records").iterdir()
    return file


def test_only_new_and_changed_files_are_read(store, reads, tmp_path):
    first = store.rows()
    assert len(reads) == 2
    assert Store(tmp_path / "store").rows() == first
    assert len(reads) == 2
    added = store.add(timing(rel_error=0.5))
    assert len(Store(tmp_path / "store").rows()) == 3
    assert reads[2:] == [added]
    added.write_bytes(added.read_bytes().replace(b"0.5", b"0.6"))
    os.utime(added, ns=(1, 1))
    with pytest.warns(RecordWarning, match="edited"):
        assert Store(tmp_path / "store").rows() == first
    added.unlink()
    assert Store(tmp_path / "store").rows() == first


def test_a_listing_without_changes_does_not_write(store, tmp_path):
    store.rows()
    before = index_file(tmp_path).stat()
    store.rows()
    after = index_file(tmp_path).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def another_version(text):
    return json.dumps({**json.loads(text), "format": 0})


def other_columns(text):
    return json.dumps({**json.loads(text), "columns": ["gpu"]})


def another_store(text):
    return json.dumps({**json.loads(text), "root": "0" * 64})


def wrong_row(text):
    document = json.loads(text)
    document["entries"] = {name: [1, 2, ["row"]] for name in document["entries"]}
    return json.dumps(document)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:100],
        lambda text: "[]",
        another_version,
        other_columns,
        another_store,
        wrong_row,
    ],
    ids=["empty", "half", "list", "version", "columns", "store", "row"],
)
def test_a_damaged_or_foreign_index_is_made_anew(store, tmp_path, damage):
    expected = store.rows()
    good = index_file(tmp_path).read_text()
    index_file(tmp_path).write_text(damage(good))
    assert Store(tmp_path / "store").rows() == expected
    assert sorted(json.loads(index_file(tmp_path).read_text())["entries"]) == sorted(json.loads(good)["entries"])


def test_a_cache_that_cannot_be_written_is_told(store, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(CacheWarning, match="WORKBENCH_CACHE_DIR"):
        assert len(store.query()) == 2


def test_a_path_that_is_not_text(tmp_path):
    store = Store(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    store.add(timing())
    assert len(store.rows()) == len(store.rows()) == 1
