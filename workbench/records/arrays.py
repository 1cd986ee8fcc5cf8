"""Arrays of a timeline as the bytes of a side file (.npz), and back. Never pickled."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.errors import RecordError

MAX_UNPACKED_BYTES = 1 << 30
"""Largest size of all arrays of a file together."""


def pack_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """The arrays as a compressed .npz; equal arrays give equal bytes.

    Raises
    ------
    RecordError
        An array holds Python objects.
    """
    buffer = io.BytesIO()
    try:
        np.savez_compressed(buffer, allow_pickle=False, **dict(sorted(arrays.items())))
    except ValueError as error:
        raise RecordError(f"the arrays cannot be kept: {error}. Give arrays of numbers.") from None
    return buffer.getvalue()


def unpack_arrays(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a .npz by name.

    Raises
    ------
    RecordError
        It is not such a file, holds Python objects, or would need too much memory.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > MAX_UNPACKED_BYTES:
            raise RecordError(f"its arrays have {size:,} bytes; at most {MAX_UNPACKED_BYTES:,} are read")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except RecordError:
        raise
    except Exception as error:  # damaged bytes reach numpy's header parser, zip and zlib, each with errors of its own
        raise RecordError(f"it is no .npz of plain arrays: {error}") from None
