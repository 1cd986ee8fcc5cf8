"""The cover holds every possible pair, and is far smaller than everything."""

from __future__ import annotations

import itertools
from typing import Any

from tests.pairwise import pairwise

PARAMETERS = {"a": range(5), "b": "xyz", "c": (True, False), "d": range(4)}


def possible(row: dict[str, Any]) -> bool:
    return not (row["a"] == 4 and row["c"]) and row["d"] != 3


def test_every_possible_pair_occurs_and_nothing_invalid() -> None:
    everything = [dict(zip(PARAMETERS, row, strict=True)) for row in itertools.product(*PARAMETERS.values())]
    cover = pairwise(PARAMETERS, possible)
    assert all(possible(row) for row in cover)
    for a, b in itertools.combinations(PARAMETERS, 2):
        wanted = {(row[a], row[b]) for row in everything if possible(row)}
        assert {(row[a], row[b]) for row in cover} == wanted
    assert len(cover) <= 25
