"""Sizes of a launch: what is allowed, and what each becomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workbench.errors import InvalidArgument
from workbench.gpu.sizes import launch_sizes


def test_sizes_have_three_dimensions() -> None:
    sizes = launch_sizes((6, np.int64(4)), 96, (3, 2), np.int32(1024))
    assert (sizes.grid, sizes.block, sizes.cluster) == ((6, 4, 1), (96, 1, 1), (3, 2, 1))
    assert (sizes.threads, sizes.cluster_ctas, sizes.shared_bytes) == (96, 6, 1024)
    assert all(type(part) is int for part in (*sizes.grid, sizes.shared_bytes))
    assert launch_sizes(1, (8, 4, 2), None, 0).threads == 64
    assert launch_sizes(1, 1, None, 0).cluster_ctas == 1


@pytest.mark.parametrize("size", [0, -1, 1.0, "1", None, True, (), (1, 1, 1, 1), [1, 2], (1, 2.5), (1, None)], ids=repr)
@pytest.mark.parametrize("what", ["grid", "block", "cluster"])
def test_what_is_no_size_is_refused(what: str, size: Any) -> None:
    if what == "cluster" and size is None:
        pytest.skip("no cluster")
    given = {"grid": 4, "block": 32, "cluster": None, "shared_bytes": 0, what: size}
    with pytest.raises(InvalidArgument, match=rf"{what} is .*; give one to three numbers of at least 1"):
        launch_sizes(**given)


@pytest.mark.parametrize("shared", [-1, 1.5, "48K", None, True], ids=repr)
def test_what_is_no_number_of_bytes_is_refused(shared: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"shared_bytes is .*; give a number of bytes from 0"):
        launch_sizes(1, 32, None, shared)
