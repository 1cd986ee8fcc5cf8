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
