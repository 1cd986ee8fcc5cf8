"""Side files of arrays: exact, reproducible, and never pickled."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from workbench.errors import RecordError
from workbench.records import arrays, pack_arrays, unpack_arrays


@given(hnp.arrays(hnp.integer_dtypes() | hnp.floating_dtypes(), hnp.array_shapes(min_dims=0, min_side=0)))
def test_round_trip(values):
    content = pack_arrays({"b": values, "a": np.arange(3)})
    again = unpack_arrays(content)
    assert list(again) == ["a", "b"]
    assert again["b"].dtype == values.dtype
    np.testing.assert_array_equal(again["b"], values)
    assert pack_arrays({"a": np.arange(3), "b": values}) == content


def test_python_objects_are_neither_written_nor_read():
    with pytest.raises(RecordError, match="arrays of numbers"):
        pack_arrays({"a": np.array([{}], dtype=object)})
    buffer = io.BytesIO()
    np.savez(buffer, a=np.array([{}], dtype=object))
    with pytest.raises(RecordError, match="pickle"):
        unpack_arrays(buffer.getvalue())


def test_a_file_that_unpacks_to_too_much_is_refused_before(monkeypatch):
    monkeypatch.setattr(arrays, "MAX_UNPACKED_BYTES", 1000)
    with pytest.raises(RecordError, match="at most 1,000"):
        unpack_arrays(pack_arrays({"a": np.zeros(10_000)}))


def broken_stream() -> bytes:
    content = bytearray(pack_arrays({"a": np.random.default_rng(0).random(1000)}))
    content[200:400] = bytes(200)
    return bytes(content)


def not_an_array() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00\xff\xff{")
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04", b"x" * 100, broken_stream(), not_an_array()],
    ids=["empty", "head", "x", "zlib", "npy"],
)
def test_what_is_no_npz_is_refused(content):
    with pytest.raises(RecordError, match="npz"):
        unpack_arrays(content)
