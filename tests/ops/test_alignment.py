from __future__ import annotations

import pytest

from workbench.errors import InvalidArgument
from workbench.ops.alignment import ALIGNMENT, check_addresses


def test_addresses_are_multiples_of_a_copy() -> None:
    check_addresses(q=0, k_cache=256, out=ALIGNMENT)
    with pytest.raises(InvalidArgument, match=r"k_cache begins at address 0x108, which is not a multiple of 16"):
        check_addresses(q=0, k_cache=264)
