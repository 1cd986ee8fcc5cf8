"""The cache on disk: whole entries or none, whatever happens to the files or runs at the same time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workbench.errors import CacheWarning
from workbench.gpu.cache import CacheEntry, DiskCache

KEY = "ab" * 32
ENTRY = CacheEntry(b"\x7fELF machine code", "ptxas info\n", {"symbol": "f", "facts": {"registers": 10}})


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "kernels")


def test_an_entry_comes_back_as_it_was(cache: DiskCache) -> None:
    assert cache.load(KEY) is None
    cache.store(KEY, ENTRY)
    assert cache.load(KEY) == ENTRY
    assert cache.load("cd" * 32) is None


def test_an_entry_is_one_folder_and_nothing_else_is_left(cache: DiskCache) -> None:
    cache.store(KEY, ENTRY)
    assert [path.name for path in (cache.root / "ab").iterdir()] == [KEY]
    assert len(list(cache.entries())) == 1
    assert cache.size_bytes() > len(ENTRY.cubin)


def test_storing_again_keeps_the_first(cache: DiskCache) -> None:
    cache.store(KEY, ENTRY)
    before = (cache.root / "ab" / KEY).stat().st_ino
    cache.store(KEY, ENTRY)
    assert (cache.root / "ab" / KEY).stat().st_ino == before


@pytest.mark.parametrize("name", ["kernel.cubin", "compiler.log", "entry.json"])
@pytest.mark.parametrize("damage", ["truncate", "flip", "delete", "empty"])
def test_a_damaged_entry_is_absent_and_replaced(cache: DiskCache, name: str, damage: str) -> None:
    cache.store(KEY, ENTRY)
    file = cache.root / "ab" / KEY / name
    content = file.read_bytes()
    if damage == "delete":
        file.unlink()
    else:
        file.write_bytes({"truncate": content[:-3], "flip": content[:-2] + b"?" + content[-1:], "empty": b""}[damage])
    assert cache.load(KEY) is None
    cache.store(KEY, ENTRY)
    assert cache.load(KEY) == ENTRY
    assert [path.name for path in (cache.root / "ab").iterdir()] == [KEY]


@pytest.mark.parametrize("content", ["[" * 200_000, "[]", "{}", '{"checksum": 1}', "null"], ids=lambda text: text[:9])
def test_an_entry_of_other_json_is_absent_and_replaced(cache: DiskCache, content: str) -> None:
    cache.store(KEY, ENTRY)
    (cache.root / "ab" / KEY / "entry.json").write_text(content)
    assert cache.load(KEY) is None
    cache.store(KEY, ENTRY)
    assert cache.load(KEY) == ENTRY


def test_what_is_no_entry_is_not_counted(cache: DiskCache) -> None:
    cache.store(KEY, ENTRY)
    size = cache.size_bytes()
    (cache.root / "ab" / "file").write_text("no folder")
    (cache.root / "ab" / "folder").mkdir()
    assert (len(list(cache.entries())), cache.size_bytes()) == (1, size)
    too_long = DiskCache(cache.root / ("x" * 300))
    assert (list(too_long.entries()), too_long.size_bytes(), too_long.load(KEY)) == ([], 0, None)


def test_what_a_killed_process_left_is_removed_a_day_later(cache: DiskCache) -> None:
    left = cache.root / "ab" / ".tmp-left"
    left.mkdir(parents=True)
    (left / "kernel.cubin").write_bytes(b"half")
    cache.store(KEY, ENTRY)
    assert left.exists()  # a process may be writing there
    os.utime(left, (time.time() - 2 * 24 * 3600,) * 2)
    cache.store("ab" + "cd" * 31, ENTRY)
    assert not left.exists()
    assert len(list(cache.entries())) == 2


def test_an_edited_fact_is_damage(cache: DiskCache) -> None:
    cache.store(KEY, ENTRY)
    file = cache.root / "ab" / KEY / "entry.json"
    document = json.loads(file.read_text())
    document["details"]["facts"]["registers"] = 11
    file.write_text(json.dumps(document))
    assert cache.load(KEY) is None


def test_clear_removes_everything(cache: DiskCache) -> None:
    cache.store(KEY, ENTRY)
    cache.clear()
    assert cache.load(KEY) is None
    assert cache.size_bytes() == 0


def test_a_root_that_cannot_be_a_folder_warns_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    cache = DiskCache(tmp_path / "file" / "kernels")
    with pytest.warns(CacheWarning, match="WORKBENCH_CACHE_DIR"):
        cache.store(KEY, ENTRY)
    assert cache.load(KEY) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes into any folder")
def test_a_read_only_cache_is_read(cache: DiskCache) -> None:
    cache.store(KEY, ENTRY)
    (cache.root / "ab").chmod(0o500)
    try:
        with pytest.warns(CacheWarning, match="Permission denied"):
            cache.store("ab" + "cd" * 31, ENTRY)
        assert cache.load(KEY) == ENTRY
    finally:
        (cache.root / "ab").chmod(0o700)


def test_a_failed_write_leaves_no_entry(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(CacheWarning, match="No space left"):
        cache.store(KEY, ENTRY)
    assert list((cache.root / "ab").iterdir()) == []


WORKER = """
import sys
from pathlib import Path
from workbench.gpu.cache import CacheEntry, DiskCache
cache, key = DiskCache(Path(sys.argv[1])), "ab" * 32
entry = CacheEntry(b"code" * 100_000, "log", {"symbol": "f"})
sys.stdin.readline()
for turn in range(16):
    found = cache.load(key)
    assert found is None or found == entry
    cache.store(key, entry)
    if turn % 4 == int(sys.argv[2]):
        try:
            (cache.root / "ab" / key / "kernel.cubin").write_bytes(b"damaged")
        except FileNotFoundError:
            pass
cache.store(key, entry)
"""


def test_processes_that_write_read_and_damage_at_the_same_time(tmp_path: Path) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(tmp_path / "kernels"), str(number)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    errors = [worker.communicate("go\n")[1] for worker in workers]
    assert errors == [""] * 4
    cache = DiskCache(tmp_path / "kernels")
    cache.store(KEY, CacheEntry(b"code" * 100_000, "log", {"symbol": "f"}))
    assert cache.load(KEY) is not None
    assert [path.name for path in (tmp_path / "kernels" / "ab").iterdir()] == [KEY]


KILLED = """
import sys
from pathlib import Path
from workbench.gpu.cache import CacheEntry, DiskCache
cache = DiskCache(Path(sys.argv[1]))
print("started", flush=True)
number = 0
while True:
    key = "ab" + "%062x" % number
    cache.store(key, CacheEntry(b"code" * 100_000, "log", {"number": number}))
    number += 1
"""


def test_processes_killed_in_the_middle_leave_whole_entries(tmp_path: Path) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for _ in range(2)
    ]
    cache = DiskCache(tmp_path)
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    for _ in range(600):  # until both are in the middle of it
        if len(list(cache.entries())) > 5:
            break
        time.sleep(0.05)
    for worker in workers:
        worker.kill()
        worker.communicate()
    kept = list(cache.entries())
    assert len(kept) > 5
    for folder in kept:
        number = int(folder.name[2:], 16)
        assert cache.load(folder.name) == CacheEntry(b"code" * 100_000, "log", {"number": number})
    lost = f"ab{len(kept):062x}"  # what was being written is written again
    cache.store(lost, ENTRY)
    assert cache.load(lost) is not None
