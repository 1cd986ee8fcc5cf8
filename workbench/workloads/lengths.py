"""KV lengths of a decode batch, as a person writes them: "64x4K + 2x32K" or a pasted column of numbers."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable
from decimal import Decimal
from itertools import groupby

import numpy as np
import numpy.typing as npt

from workbench.errors import LengthsError, WorkloadError

#: Tokens in "1K".
K = 1024
#: The longest context accepted: 2^24 tokens. A larger number is a slip of the pen, and would not fit a descriptor.
MAX_TOKENS = 1 << 24
#: The largest batch accepted.
MAX_REQUESTS = 1_000_000

_SEPARATOR = re.compile(r"[\s,;+]+")
_TOKEN = re.compile(r"[^\s,;+]+")
_TERM = re.compile(
    r"(?:(?P<count>[0-9]+)\s*[xX*\u00d7]\s*)?(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[kKmM]?)(?=[\s,;+]|$)"
)
_UNITS = {"": 1, "K": K, "M": K * K}
_EXAMPLES = "a length such as 512, 4K (4096 tokens) or 0.5K, or COUNTxLENGTH such as 64x4K"


def parse_lengths(text: str) -> npt.NDArray[np.int64]:
    """Read KV lengths from an expression or from pasted numbers.

    Parameters
    ----------
    text
        Terms between commas, semicolons, plus signs or white space. A term is a length, or a count, ``x`` and a
        length. A length is a number with an optional K (1024 tokens) or M (1024 * 1024): ``512``, ``4K``, ``0.5K``.
        One pair of brackets around the whole is ignored, so a printed Python list can be pasted.

    Returns
    -------
    numpy.ndarray
        int64 [B], tokens, in the order of the text.

    Raises
    ------
    LengthsError
        A term is not as above, is not a whole number of tokens, is below 1 or above `MAX_TOKENS`, or the batch
        would exceed `MAX_REQUESTS`. The message underlines the term.

    Examples
    --------
    >>> parse_lengths("2x0.5K + 77").tolist()
    [512, 512, 77]
    """
    if not isinstance(text, str):
        raise WorkloadError(f"lengths are {reprlib.repr(text)}, not text; as_lengths checks numbers")
    parts: list[npt.NDArray[np.int64]] = []
    total = 0
    for count, length, token, position in _terms(text):
        total += count
        if total > MAX_REQUESTS:
            raise LengthsError(text, token, position, expected=f"at most {MAX_REQUESTS:,} requests in all")
        parts.append(np.full(count, length, dtype=np.int64))
    if not parts:
        raise LengthsError(text, "", len(text), expected=_EXAMPLES)
    return np.concatenate(parts)


def _terms(text: str) -> Iterable[tuple[int, int, str, int]]:
    """Yield (count, length, token, position) of each term."""
    body = text.strip().removeprefix("\ufeff").strip()  # some editors begin a file with a byte order mark
    start = text.find(body)
    if body[:1] + body[-1:] in ("[]", "()"):
        start, body = start + 1, body[1:-1]
    position, end = start, start + len(body)
    plus = -1  # where a plus sign stands that no term has followed yet
    first = True
    while position < end:
        if gap := _SEPARATOR.match(text, position, end):
            signs = [gap.start() + i for i, sign in enumerate(gap.group()) if sign == "+"]
            if len(signs) > 1 or (signs and first):
                raise LengthsError(text, "+", signs[-1], expected=f"{_EXAMPLES} on both sides of a plus sign")
            plus = signs[0] if signs else -1
            position = gap.end()
            continue
        match = _TERM.match(text, position, end)
        if match is None:
            token = _TOKEN.match(text, position, end)
            raise LengthsError(text, token.group() if token else "", position, expected=_EXAMPLES)
        yield (*_value(text, match), match.group(), position)
        position, plus, first = match.end(), -1, False
    if plus >= 0:
        raise LengthsError(text, "+", plus, expected=f"{_EXAMPLES} on both sides of a plus sign")


def _value(text: str, match: re.Match[str]) -> tuple[int, int]:
    """Count and length of one matched term."""

    def fail(expected: str) -> LengthsError:
        return LengthsError(text, match.group(), match.start(), expected=expected)

    count_text, number, unit = match.group("count") or "1", match.group("number"), match.group("unit").upper()
    if len(count_text) > 9 or len(number) > 24:
        raise fail(f"at most {MAX_REQUESTS:,} requests of at most {MAX_TOKENS:,} tokens")
    if number.startswith("0") and number[1:2].isdigit():
        raise fail("a number that does not begin with 0 (write 1024 or 1K, not 1,024)")
    count, tokens = int(count_text), Decimal(number) * _UNITS[unit]
    if count < 1:
        raise fail("a count of at least 1")
    if tokens != int(tokens):
        raise fail(f"a whole number of tokens, and this is {tokens.normalize():f}")
    if not 1 <= tokens <= MAX_TOKENS:
        raise fail(f"between 1 and {MAX_TOKENS:,} tokens")
    return count, int(tokens)


def format_lengths(lengths: npt.ArrayLike) -> str:
    """Write KV lengths as the shortest expression that `parse_lengths` reads back, in the same order.

    Parameters
    ----------
    lengths
        Integers [B], tokens.

    Returns
    -------
    str
        Runs of equal lengths as ``COUNTxLENGTH``; multiples of 128 tokens in K (so at most three decimals).

    Examples
    --------
    >>> format_lengths([512] * 64 + [100])
    '64x0.5K + 100'
    """
    terms = []
    for length, run in groupby(as_lengths(lengths).tolist()):
        count = sum(1 for _ in run)
        size = f"{length / K:.3f}".rstrip("0").rstrip(".") + "K" if length % 128 == 0 else str(length)
        terms.append(f"{count}x{size}" if count > 1 else size)
    return " + ".join(terms)


def as_lengths(values: str | npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Check KV lengths in any form and return them as an array.

    Parameters
    ----------
    values
        An expression for `parse_lengths`, or integers [B].

    Returns
    -------
    numpy.ndarray
        int64 [B], tokens.

    Raises
    ------
    WorkloadError
        Not one-dimensional, empty, not whole numbers, or outside 1 .. `MAX_TOKENS`; names the first bad place.
    """
    if isinstance(values, str):
        return parse_lengths(values)
    try:
        array = np.asarray(values)
    except ValueError:  # rows of several sizes
        raise WorkloadError("lengths are lists of several sizes; give one length for each request") from None
    if array.ndim != 1 or array.size == 0:
        raise WorkloadError(f"lengths have shape {list(array.shape)}; give one length for each request, at least one")
    if array.size > MAX_REQUESTS:
        raise WorkloadError(f"{array.size:,} lengths were given; at most {MAX_REQUESTS:,} are allowed")
    if array.dtype.kind not in "iu":
        bad = next((i for i, value in enumerate(array.tolist()) if not isinstance(value, int) or value is True), 0)
        raise WorkloadError(f"length {bad} is {array.tolist()[bad]!r}; lengths are whole numbers of tokens")
    outside = np.flatnonzero((array < 1) | (array > MAX_TOKENS))
    if outside.size:
        bad = int(outside[0])
        raise WorkloadError(f"length {bad} is {array[bad]}; lengths lie between 1 and {MAX_TOKENS:,} tokens")
    return array.astype(np.int64)
