"""Notes: in the user's own store, text and nothing else."""

from __future__ import annotations

import errno

import pytest

from tests.widgets.profiles.samples import nsight
from workbench import paths
from workbench.errors import InvalidArgument, RecordError
from workbench.records import Store
from workbench.widgets.profiles.notes import MOST_CHARACTERS, Notes

KEY = "nsight-" + "ab" * 16


def test_written_read_replaced_removed(own):
    notes = Notes()
    assert notes.texts == {}
    notes.write(KEY, "  waits for request 0\nagain ")
    assert Notes().texts == {KEY: "waits for request 0\nagain"}
    notes.write(KEY, "no more")
    assert Notes().texts == {KEY: "no more"}
    notes.write(KEY, "  ")
    assert Notes().texts == notes.texts == {}
    assert list((own / ".notes").iterdir()) == []


def test_a_store_passes_over_them(own):
    store = Store(own)
    store.add(nsight())
    Notes().write(KEY, "a note")
    assert len(store.rows()) == 1
    assert store.problems == ()


def test_a_full_disk_leaves_the_note_as_it_was(own, monkeypatch):
    notes = Notes()
    notes.write(KEY, "first")
    monkeypatch.setattr("tempfile._TemporaryFileWrapper.flush", full, raising=False)
    with pytest.raises(RecordError, match="No space left"):
        notes.write(KEY, "second")
    assert notes.texts == Notes().texts == {KEY: "first"}
    assert [file.name for file in (own / ".notes").iterdir()] == [f"{KEY}.txt"]


def full(_file):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_never_among_the_shipped_records(monkeypatch):
    before = sorted(paths.profiles_dir().rglob("*"))
    monkeypatch.setenv("WORKBENCH_RECORDS_DIR", str(paths.profiles_dir() / "mine"))
    with pytest.raises(RecordError, match="WORKBENCH_RECORDS_DIR"):
        Notes().write(KEY, "a note")
    assert sorted(paths.profiles_dir().rglob("*")) == before


@pytest.mark.parametrize(
    "key", ["", "../../evil", "nsight-..", "/etc/passwd", KEY + "/x", KEY[:-1], "nsight-" + "G" * 32]
)
def test_a_key_is_no_path(own, key):
    with pytest.raises(InvalidArgument, match="names no record"):
        Notes().write(key, "text")
    assert not own.exists()


def test_what_cannot_be_kept():
    with pytest.raises(InvalidArgument, match="characters"):
        Notes().write(KEY, "x" * (MOST_CHARACTERS + 1))
    with pytest.raises(InvalidArgument, match="plain text"):
        Notes().write(KEY, "\ud800")


def test_a_folder_that_cannot_be_written(own):
    own.write_text("a file where the folder should be")
    with pytest.raises(RecordError, match="cannot be kept"):
        Notes().write(KEY, "text")


def test_damaged_notes_are_told(own):
    Notes().write(KEY, "fine")
    folder = own / ".notes"
    other = "timing-" + "cd" * 16
    (folder / f"{other}.txt").write_bytes(b"\xff\xfe\x00")
    (folder / "unrelated.txt").write_text("not a note")
    (folder / f"timing-{'ef' * 16}.txt").symlink_to("/etc/hostname")
    notes = Notes()
    assert notes.texts == {KEY: "fine"}
    assert len(notes.problems) == 2
