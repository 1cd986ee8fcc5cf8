"""Units: one base a dimension, written so that a row can be compared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.widgets.profiles.units import UNITS, in_base_unit, number, scale_of


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (21.5, "usecond", (21_500, "ns")),
        (21.5, "us", (21_500, "ns")),
        (2.0, "msecond", (2e6, "ns")),
        (48.2, "Mbyte", (48.2e6, "byte")),
        (4.1, "Tbyte/second", (4.1e12, "byte/second")),
        (2.0, "byte/nsecond", (2e9, "byte/second")),
        (1.755, "cycle/nsecond", (1.755e9, "cycle/second")),
        (1.755, "Ghz", (1.755e9, "cycle/second")),
        (7.0, "Kcycle", (7000, "cycle")),
        (61.0, "%", (61.0, "%")),
        (168.0, "register/thread", (168.0, "register/thread")),
        (1.5, "", (1.5, "")),
    ],
)
def test_base_units(value, unit, expected):
    found = in_base_unit(value, unit, value / 10)
    assert (found.value, found.unit) == (pytest.approx(expected[0]), expected[1])
    assert found.deviation == pytest.approx(found.value / 10)


def test_every_base_unit_is_its_own():
    for base, _ in UNITS.values():
        assert in_base_unit(1.0, base).unit == base
        assert in_base_unit(1.0, base).value == 1.0


@given(st.floats(1e-3, 1e15), st.floats(1e-3, 1e15), st.sampled_from(sorted({base for base, _ in UNITS.values()})))
def test_one_scale_keeps_the_order(a, b, unit):
    scale = scale_of(unit, [a, b])
    parse = lambda text: float(text.replace(",", "").replace("\u2212", "-"))  # noqa: E731
    first, second = parse(scale.write(a)), parse(scale.write(b))
    assert (first <= second) if a <= b else (first >= second)
    assert first * scale.factor == pytest.approx(a, rel=6e-3, abs=1e-4 * scale.factor)


WORDS = [
    (21.53, "21.5"),
    (3.0, "3"),
    (1234567.0, "1,234,567"),
    (0.0123, "0.0123"),
    (-2.5, "\u22122.50"),
    (float("nan"), "\u2013"),
    (1e-9, "1.00e\u221209"),
]


@pytest.mark.parametrize(("value", "words"), WORDS)
def test_numbers(value, words):
    assert number(value) == words


def test_kernels_are_spoken_of_in_microseconds():
    scale = scale_of("ns", [3_200_000.0])
    assert (scale.name, scale.write(3_200_000.0)) == ("\u00b5s", "3,200")
