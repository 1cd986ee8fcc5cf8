"""Which headers a source depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workbench.errors import InvalidArgument
from workbench.gpu.source import Source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "op/kernel.cu": '#include "tile.h"\n#  include <common/ptx.h>\n#include <cuda/std/cstdint>\n',
        "op/tile.h": "// tile",
        "common/ptx.h": '#include "deep.h"\n#include "ptx.h"\n',
        "common/deep.h": "// deep",
        "common/unused.h": "// unused",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def source(folder: Path) -> Source:
    return Source("op/kernel.cu", (folder / "op/kernel.cu").read_text(), (folder / "op", folder))


def test_headers_are_followed_through_each_other(folder: Path) -> None:
    assert set(source(folder).digests()) == {"op/kernel.cu", "op/tile.h", "common/ptx.h", "common/deep.h"}


def test_a_header_beside_its_includer_comes_first(folder: Path) -> None:
    (folder / "deep.h").write_text("// another header of the same name")
    assert "common/deep.h" in source(folder).digests()
    assert "deep.h" not in source(folder).digests()


@pytest.mark.parametrize("changed", ["op/kernel.cu", "op/tile.h", "common/ptx.h", "common/deep.h"])
def test_a_change_anywhere_changes_one_digest(folder: Path, changed: str) -> None:
    before = source(folder).digests()
    with (folder / changed).open("a") as file:
        file.write("\n// changed")
    after = source(folder).digests()
    assert {name for name in before if before[name] != after[name]} == {changed}


def test_an_unused_header_does_not_matter(folder: Path) -> None:
    before = source(folder).digests()
    (folder / "common/unused.h").write_text("// changed")
    assert source(folder).digests() == before


def test_an_include_of_a_macro_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="includes HEADER"):
        Source("k.cu", "#define HEADER <x>\n#include HEADER\n").headers()


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"no_such/kernel\.cu"):
        Source.file("no_such/kernel.cu")


def test_a_file_outside_kernels_keeps_its_own_folder(folder: Path) -> None:
    found = Source.file(folder / "op/kernel.cu")
    assert found.name == "kernel.cu"
    assert folder / "op" in found.folders


@pytest.mark.parametrize(
    "text", [None, 3, "int x;\0 int y;", "// \ud800"], ids=["None", "number", "NUL", "half a pair"]
)
def test_what_is_no_text_is_refused(text: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"source of k\.cu"):
        Source.inline(text, "k.cu")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_bytes(b"int x; // \xff\xfe")
    with pytest.raises(InvalidArgument, match=r"k.cu cannot be read: .*Give a UTF-8 text file"):
        Source.file(tmp_path / "k.cu")
    with pytest.raises(InvalidArgument, match="name of a source is"):
        Source.inline("", "two\nlines")
