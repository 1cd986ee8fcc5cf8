"""Output files are whole or absent."""

from __future__ import annotations

import os

import pytest

from workbench.cli import files
from workbench.errors import InvalidArgument


def test_writes_and_replaces_with_the_usual_mode(tmp_path):
    target = tmp_path / "out.bin"
    files.write_whole(target, b"one")
    files.write_whole(target, b"two")
    assert target.read_bytes() == b"two"
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert target.stat().st_mode == plain.stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.bin", "plain"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")], ids=["ctrl-c", "full"])
def test_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, error):
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")

    def fail(_):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((KeyboardInterrupt, InvalidArgument)) as raised:
        files.write_whole(target, b"new")
    assert isinstance(raised.value, KeyboardInterrupt) or "No space left" in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["out.bin"]
    assert target.read_bytes() == b"old"


def test_what_cannot_be_written_is_told_before(tmp_path):
    with pytest.raises(InvalidArgument, match="no folder"):
        files.check_writable(tmp_path / "absent" / "out")
    with pytest.raises(InvalidArgument, match="is a folder"):
        files.check_writable(tmp_path)
    files.check_writable(tmp_path / "out")
    for name in ("x" * 300, "a\0b"):
        with pytest.raises(InvalidArgument, match="cannot be written"):
            files.check_writable(tmp_path / name)


def test_what_must_not_be_replaced_is_refused(tmp_path, monkeypatch):
    """A device above all: root could put a file in the place of /dev/null."""
    pipe, kept = tmp_path / "pipe", tmp_path / "kept"
    os.mkfifo(pipe)
    kept.write_bytes(b"old")
    for path, said in ((pipe, "a device, a pipe"), (tmp_path / "link", "a device, a pipe")):
        if not path.exists():
            path.symlink_to(pipe)
        with pytest.raises(InvalidArgument, match=said):
            files.write_whole(path, b"new")
    assert pipe.is_fifo()
    with pytest.raises(InvalidArgument, match="is the file that is read"):
        files.check_writable(kept, source=tmp_path / "." / "kept")
    monkeypatch.setattr(os, "access", lambda path, mode: path != kept)  # root may write everything
    with pytest.raises(InvalidArgument, match="it is read-only"):
        files.write_whole(kept, b"new")
    assert kept.read_bytes() == b"old"


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "folder").mkdir()
    link, target = tmp_path / "link", tmp_path / "folder" / "target"
    target.write_bytes(b"old")
    link.symlink_to(target)
    files.write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_the_longest_name_can_be_written(tmp_path):
    target = tmp_path / ("\U0001f600" * 63)  # 252 bytes of the 255 that file systems allow
    files.write_whole(target, b"new")
    assert target.read_bytes() == b"new"
