import pytest

from workbench.widgets import text


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0.0"), (34.64, "34.6"), (999.94, "999.9"), (999.96, "1,000"), (12345.6, "12,346")],
)
def test_microseconds(value, words):
    assert text.us(value) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0"), (1023, "1,023"), (1024, "1.0K"), (118_784, "116.0K"), (1024 * 1024, "1.00M"), (3_240_000, "3.09M")],
)
def test_tokens(count, words):
    assert text.tokens(count) == words


@pytest.mark.parametrize(
    ("share", "words"), [(0, "0 %"), (0.001, "<1 %"), (0.34, "34 %"), (0.996, ">99 %"), (1, "100 %")]
)
def test_percent(share, words):
    assert text.percent(share) == words


def test_sizes_signs_and_ordinals():
    assert [text.size(n) for n in (0, 999, 16_384, 2_300_000, 134_000_000)] == [
        "0 B",
        "999 B",
        "16.4 KB",
        "2.3 MB",
        "134 MB",
    ]
    assert text.signed("0.0", -0.01) == "0.0"
    assert text.signed("1.5", -1.5) == "\u22121.5"
    assert [text.ordinal(n) for n in (1, 2, 3, 4, 11, 12, 21, 112)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "21st", "112th",
    ]  # fmt: skip
    assert text.plural(1, "chunk") == "1 chunk"
    assert text.plural(2000, "chunk") == "2,000 chunks"
