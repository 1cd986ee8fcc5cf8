"""A provider for every M."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import InvalidArgument
from workbench.tables import Choice

choices = st.lists(st.integers(1, 50), unique=True, max_size=6).flatmap(
    lambda starts: st.lists(st.sampled_from("abc"), min_size=len(starts) + 1, max_size=len(starts) + 1).map(
        lambda names: Choice((0, *sorted(starts)), tuple(names), "drawn")
    )
)


@given(choices)
def test_every_m_has_the_provider_of_the_last_start(choice):
    for m in range(60):
        last = max(i for i, start in enumerate(choice.starts) if start <= m)
        assert choice.at(m) == choice.providers[last]
    assert [choice.providers[i] for i in choice.pieces_at(np.arange(60))] == [choice.at(m) for m in range(60)]
    merged = choice.merged()
    assert [merged.at(m) for m in range(60)] == [choice.at(m) for m in range(60)]
    assert all(a != b for a, b in zip(merged.providers, merged.providers[1:], strict=False))


def test_threshold_and_constant():
    rule = Choice.threshold("a", 64, "b", "rule")
    assert (rule.at(63), rule.at(64), rule.at(np.int64(1 << 40))) == ("a", "b", "b")
    assert Choice.threshold("a", 0, "b", "rule").providers == ("b",)
    assert Choice.always("a").at(0) == "a"


@pytest.mark.parametrize("m", [-1, 1.5, "8", None])
def test_rows_that_are_refused(m):
    with pytest.raises(InvalidArgument, match="whole number of rows"):
        Choice.always("a").at(m)


@pytest.mark.parametrize(
    ("starts", "providers"), [((), ()), ((1,), ("a",)), ((0, 5, 5), ("a", "b", "c")), ((0, 5), ("a",))]
)
def test_pieces_that_are_refused(starts, providers):
    with pytest.raises(InvalidArgument, match="ascending"):
        Choice(starts, providers, "wrong")
