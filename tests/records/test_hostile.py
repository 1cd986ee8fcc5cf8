"""Stores that something went wrong with: the fault is told, and everything else opens."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.records.samples import reference, timing
from workbench.errors import RecordError, RecordWarning
from workbench.records import Store, files
from workbench.records import store as store_module

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "store")
    made.add(timing())
    return made


def faults(store: Store) -> list[str]:
    """What a query says was skipped; the good record must be there all the same."""
    with pytest.warns(RecordWarning, match="skipped"):
        table = store.query()
    assert table["operator"].tolist() == ["attention_decode"]
    return [str(problem) for problem in store.problems]


@pytest.fixture
def victim(store):
    """A second record's file, to be damaged."""
    return store.add(reference())


@pytest.mark.parametrize("content", [b"", b'{"kind": "refer', b"[1, 2]", b"\x00\xff" * 50, b"{}"])
def test_half_or_other_content(store, victim, content):
    victim.write_bytes(content)
    (fault,) = faults(store)
    assert str(victim) in fault
    assert "no record" in fault


def test_an_edited_document(store, victim):
    victim.write_bytes(victim.read_bytes().replace(b"6.7", b"6.6"))
    (fault,) = faults(store)
    assert "edited or damaged" in fault
    with pytest.raises(RecordError, match="edited or damaged"):
        store.read(victim)


def test_wrong_types_with_a_right_name(store):
    content = json.dumps({**json.loads(reference().encode()), "median_us": "fast"}).encode()
    files.create(store.add(timing()).parents[4], "nvidia-h200/router_gemm/a/b/reference-0.json", content)
    (fault,) = faults(store)
    assert "median_us" in fault


def test_too_large(store, victim, monkeypatch):
    with victim.open("r+b") as file:
        file.truncate(1 << 33)  # a hole: takes no room
    tracemalloc.start()
    (fault,) = faults(store)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "at most" in fault
    assert most < 1 << 24, "it was read"
    monkeypatch.setattr(store_module, "MAX_DOCUMENT_BYTES", 100)
    with pytest.raises(RecordError, match="may have 100"):
        store.add(timing(rel_error=0.1))


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_folder_of_another_name(store, victim, depth):
    folder = victim.parents[depth - 1]
    folder.rename(folder.with_name("elsewhere"))
    if depth == 4:  # the good record's GPU folder too
        store.add(timing())
        moved = [str(problem) for problem in _problems(store)]
        assert len(moved) == 2
    else:
        moved = faults(store)
    assert all("its place is nvidia-h200/" in fault for fault in moved)


def _problems(store):
    with pytest.warns(RecordWarning):
        store.query()
    return store.problems


def test_documents_too_high_and_too_deep(store, victim):
    root = victim.parents[4]
    deep = victim.parent / "deeper"
    deep.mkdir()
    (root / victim.name).write_bytes(victim.read_bytes())
    victim.rename(deep / victim.name)
    assert sum("its place is" in fault for fault in faults(store)) == 2


def test_links_are_told_and_not_followed(store, victim, tmp_path):
    outside = tmp_path / "outside"
    other = Store(outside).add(reference(provider="outsider"))
    root = victim.parents[4]
    content = victim.read_bytes()
    victim.unlink()
    (outside / "copy.json").write_bytes(content)
    victim.symlink_to(outside / "copy.json")
    (root / "more").symlink_to(outside)
    (root / "loop").symlink_to(root)
    (root / "dangling.json").symlink_to(outside / "nowhere")
    told = faults(store)
    assert len(told) == 4
    assert all("symbolic link" in fault for fault in told)
    assert other.exists()


def test_nothing_is_written_through_a_link(store, tmp_path):
    root, outside = tmp_path / "store", tmp_path / "outside"
    outside.mkdir()
    (root / "nvidia-h200" / "router_gemm").symlink_to(outside)
    with pytest.raises(RecordError, match="link"):
        store.add(reference())
    assert not list(outside.iterdir())


def test_a_link_or_another_content_in_place_of_the_file(store, victim, tmp_path):
    content = victim.read_bytes()
    victim.write_bytes(b"something else")
    with pytest.raises(RecordError, match=r"damaged.*Remove it"):
        store.add(reference())
    assert victim.read_bytes() == b"something else"
    victim.unlink()
    victim.symlink_to(tmp_path / "new.json")
    with pytest.raises(RecordError, match="in the way"):
        store.add(reference())
    assert not (tmp_path / "new.json").exists()
    victim.unlink()
    assert store.add(reference()).read_bytes() == content


def test_pipes_and_folders_named_like_documents(store, victim):
    victim.unlink()
    os.mkfifo(victim)
    victim.with_name("timing-1.json").mkdir()
    assert ["regular file" in fault for fault in faults(store)] == [True]
    with pytest.raises(RecordError):
        store.read(victim.with_name("timing-1.json"))


def test_other_files_are_passed_over(store, victim):
    for name in (".DS_Store", ".workbench-1.part", "README.md", "timing-1.npz", ".hidden.json"):
        (victim.parent / name).write_bytes(b"{")
    assert len(store.query()) == 2
    assert store.problems == ()


def test_a_folder_that_cannot_be_listed(store, victim, monkeypatch):
    real = os.scandir

    def scandir(path):
        if Path(path) == victim.parents[2]:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert faults(store) == [f"{victim.parents[2]}: Permission denied"]


def test_many_faults_are_one_warning(store, tmp_path):
    for i in range(5):
        (tmp_path / "store" / f"{i}.json").write_text("{")
    with pytest.warns(RecordWarning, match="and 4 more") as warned:
        store.query()
    assert len(warned) == 1


def test_a_document_that_goes_bad_while_it_is_iterated(store):
    path = store.add(timing(rel_error=0.5))
    found = store.records()
    first, _ = next(found)
    rest = path if first != path else next(other for other in path.parent.iterdir() if other != path)
    rest.write_bytes(b"{")
    with pytest.warns(RecordWarning, match="skipped"):
        assert list(found) == []
    assert [problem.path for problem in store.problems] == [rest]


def test_a_store_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match=r"cannot be written.*WORKBENCH_RECORDS_DIR"):
        Store(tmp_path / "file" / "store").add(timing())

    def refuse(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    store = Store(tmp_path / "store")
    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(RecordError, match="Read-only file system"):
        store.add(timing())
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_store_is_read(store, tmp_path):
    folders = [tmp_path / "store", *(path for path in (tmp_path / "store").rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert len(store.query()) == 1
        with pytest.raises(RecordError, match="Permission denied"):
            store.add(reference())
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_a_file_system_without_hard_links(store, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = store.add(reference())
    assert path.read_bytes() == reference().encode()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("content", [reference().encode(), b"something else"], ids=["same", "other"])
def test_a_file_that_appears_just_before_naming_is_kept(store, monkeypatch, content):
    real, inodes = os.link, []

    def link(source, target):
        Path(target).write_bytes(content)
        inodes.append(Path(target).stat().st_ino)
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    if content == reference().encode():
        path = store.add(reference())
        assert [path.stat().st_ino] == inodes
    else:
        with pytest.raises(RecordError, match="damaged"):
            store.add(reference())
        (path,) = (path for path in store._own.rglob("reference-*.json"))
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_nothing(store, tmp_path, monkeypatch, fault):
    def fail(_):
        raise fault

    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((RecordError, KeyboardInterrupt)):
        store.add(reference())
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


def test_killed_in_the_middle(store, tmp_path):
    """The process is killed between writing and naming: no document, and the next attempt succeeds."""
    code = f"""
    import os, signal, sys
    sys.path.insert(0, {str(ROOT)!r})
    from tests.records.samples import reference
    from workbench.records import Store
    os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    Store({str(tmp_path / "store")!r}).add(reference())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = [path for path in (tmp_path / "store").rglob("*") if path.name.startswith(files.TEMPORARY)]
    assert len(left) == 1
    assert len(store.query()) == 1
    assert store.problems == ()
    store.add(reference())
    assert len(store.query()) == 2


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from tests.records.samples import timing
from workbench.records import Store
store = Store(sys.argv[1])
for i in range(40):
    store.add(timing(configuration={"number": i}))
assert len(store.query()) >= 40 and store.problems == ()
"""


def test_processes_that_write_the_same_records(tmp_path):
    target = tmp_path / "store"
    command = [sys.executable, "-c", WRITER, target, ROOT]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    for writer in writers:
        _, said = writer.communicate(timeout=120)
        assert writer.returncode == 0, said
    assert len(Store(target).query()) == 40
    assert len([path for path in target.rglob("*") if path.is_file()]) == 40


def test_threads_that_write_one_record(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: Store(tmp_path / "store").add(timing()), range(32)))
    (path,) = paths
    assert path.read_bytes() == timing().encode()
    assert list(path.parent.iterdir()) == [path]
