from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import LengthsError, WorkloadError
from workbench.workloads import MAX_REQUESTS, MAX_TOKENS, MIXES, as_lengths, format_lengths, parse_lengths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("512", [512]),
        ("512, 1024 77", [512, 1024, 77]),
        ("512,1024;77\n8\t9", [512, 1024, 77, 8, 9]),
        ("2x4K + 1x32K", [4096, 4096, 32768]),
        ("2 x 4k+1X32K", [4096, 4096, 32768]),
        ("3*0.5K", [512] * 3),
        ("2\u00d71M", [1 << 20] * 2),
        ("0.125K", [128]),
        ("[512, 1024]", [512, 1024]),
        ("  (7)  ", [7]),
        ("\ufeff512\r\n77", [512, 77]),
        ("4K, + 5,", [4096, 5]),
        (str(MAX_TOKENS), [MAX_TOKENS]),
    ],
)
def test_reads(text: str, expected: list[int]) -> None:
    lengths = parse_lengths(text)
    assert lengths.tolist() == expected
    assert lengths.dtype == np.int64


@pytest.mark.parametrize(
    ("text", "token", "position", "expected"),
    [
        ("", "", 0, "a length such as"),
        ("  \n ", "", 4, "a length such as"),
        ("[]", "", 2, "a length such as"),
        ("64x4K + 2xfoo", "2xfoo", 8, "a length such as"),
        ("64x4K + ", "+", 6, "both sides of a plus"),
        ("+ 64x4K", "+", 0, "both sides of a plus"),
        ("1 + + 2", "+", 4, "both sides of a plus"),
        ("512 -3", "-3", 4, "a length such as"),
        ("512 12.5", "12.5", 4, "a whole number of tokens, and this is 12.5"),
        ("0.3K", "0.3K", 0, "a whole number of tokens, and this is 307.2"),
        ("512 0", "0", 4, "between 1 and"),
        ("0x4K", "0x4K", 0, "a count of at least 1"),
        ("1,024", "024", 2, "does not begin with 0"),
        (str(MAX_TOKENS + 1), str(MAX_TOKENS + 1), 0, "between 1 and"),
        ("9" * 400, "9" * 400, 0, "at most"),
        ("1e3", "1e3", 0, "a length such as"),
        ("1_000", "1_000", 0, "a length such as"),
        ("\u0664\u0665", "\u0664\u0665", 0, "a length such as"),
        ("nan", "nan", 0, "a length such as"),
        ("4KK", "4KK", 0, "a length such as"),
        (f"1 {MAX_REQUESTS}x1", f"{MAX_REQUESTS}x1", 2, "requests in all"),
        ("9999999999x1", "9999999999x1", 0, "at most"),
    ],
)
def test_points_at_the_bad_token(text: str, token: str, position: int, expected: str) -> None:
    with pytest.raises(LengthsError) as caught:
        parse_lengths(text)
    assert caught.value.token == token
    assert caught.value.position == position
    assert expected in str(caught.value)


def test_error_underlines_the_token_on_its_line() -> None:
    with pytest.raises(LengthsError) as caught:
        parse_lengths("1 2\n3 oops 4\n5")
    *_, shown, underline = str(caught.value).splitlines()
    assert shown.strip() == "3 oops 4"
    assert shown[underline.index("^") : underline.rindex("^") + 1] == "oops"


def test_error_of_a_long_line_stays_short() -> None:
    with pytest.raises(LengthsError) as caught:
        parse_lengths("1 " * 5000 + "oops" + " 1" * 5000)
    *_, shown, underline = str(caught.value).splitlines()
    assert len(shown) < 140
    assert shown[underline.index("^") : underline.rindex("^") + 1] == "oops"


@given(st.lists(st.integers(1, MAX_TOKENS) | st.integers(1, 200).map(lambda n: 128 * n), min_size=1, max_size=30))
def test_format_is_read_back(lengths: list[int]) -> None:
    assert parse_lengths(format_lengths(lengths)).tolist() == lengths


def test_mixes_are_their_own_shortest_expression() -> None:
    for mix in MIXES:
        assert format_lengths(parse_lengths(mix)).replace(" ", "") == mix.removeprefix("1x")


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    try:
        lengths = parse_lengths(text)
    except LengthsError as error:
        assert text[error.position : error.position + len(error.token)] == error.token  # noqa: PT017
    else:
        assert lengths.min() >= 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "at least one"),
        ([[1, 2]], "shape [1, 2]"),
        ([1, 0], "length 1 is 0"),
        ([1, MAX_TOKENS + 1], f"length 1 is {MAX_TOKENS + 1}"),
        ([1.0, 2.5], "length 0 is 1.0"),
        ([True, False], "length 0 is True"),
        (["a"], "length 0 is 'a'"),
        (np.array([1, -5], dtype=np.int32), "length 1 is -5"),
    ],
)
def test_as_lengths_refuses(values: object, message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        as_lengths(values)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_as_lengths_takes_arrays_and_text() -> None:
    assert as_lengths(np.array([3, 4], dtype=np.uint16)).dtype == np.int64
    assert as_lengths("2x0.5K").tolist() == [512, 512]
