"""Is this cell of a trace a number of tokens, or a time? Every reader asks here, so all refuse the same things."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from workbench.workloads.lengths import MAX_TOKENS

#: Nanoseconds in one unit of a numeric arrival time.
TIME_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
#: Largest time accepted, seconds: the year 2255 if counted from 1970, and what int64 nanoseconds hold. A date in
#: milliseconds that is read as seconds exceeds it.
MAX_TIME = 9e9

# Python's own `int` would take "1_000" and digits of other scripts.
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_FRACTION = re.compile(r"(?<=:[0-9]{2})[.,]([0-9]{1,9})[0-9]*")


class BadValue(Exception):
    """A record cannot be used: why in two or three words, what was found, what was expected.

    Internal: readers turn it into a `TraceRecordError` or count it.
    """

    def __init__(self, reason: str, problem: str, expected: str) -> None:
        super().__init__(problem)
        self.reason = reason
        self.problem = problem
        self.expected = expected


def tokens(value: object, column: str, *, least: int) -> int:
    """A token count from a cell.

    Parameters
    ----------
    value
        Text, a number, or anything else a file can hold. ``12.0`` counts as 12, as pandas writes it.
    column
        Its name, for the message.
    least
        Smallest count allowed.

    Raises
    ------
    BadValue
        Not a whole number, or outside ``least`` .. `MAX_TOKENS`.
    """
    expected = f"a whole number of tokens between {least} and {MAX_TOKENS:,}"
    problem = f"{column} is {_shown(value)}"
    value = _number(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value == math.inf:  # too many digits for a float
        raise BadValue("absurd length", problem, expected)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadValue("not a whole number", problem, expected)
    if value < least:
        raise BadValue("negative length" if value < 0 else "zero length", problem, expected)
    if value > MAX_TOKENS:
        raise BadValue("absurd length", problem, expected)
    return value


def nanoseconds(value: object, column: str, *, unit: str = "s") -> int:
    """A point in time from a cell.

    Parameters
    ----------
    value
        A number in `unit`, the same as text, an ISO 8601 date and time as text, or a `datetime`. A date without a
        time zone is taken as UTC: only differences matter.
    column
        Its name, for the message.
    unit
        "s", "ms", "us" or "ns"; applies to numbers.

    Returns
    -------
    int
        Nanoseconds, from whatever zero the file uses.

    Raises
    ------
    BadValue
        Neither of these, negative, not finite, or beyond `MAX_TIME`.
    """
    problem = f"{column} is {_shown(value)}"
    value = _number(value)
    scale = TIME_UNITS[unit]
    if isinstance(value, str):
        value, scale = _from_iso(value.strip()), 1
    elif isinstance(value, datetime):
        value, scale = _from_datetime(value), 1
    expected = f"an arrival time: a number of {unit} from 0 to {MAX_TIME:.0e} s, or a date like 2025-01-31 12:00:00.5"
    finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not finite:
        raise BadValue("not a time", problem, expected)
    if not 0 <= value * scale <= MAX_TIME * TIME_UNITS["s"]:
        raise BadValue("negative time" if value < 0 else "absurd time", problem, expected)
    return round(value * scale)


def _number(value: object) -> object:
    """Text that is a number as that number; anything else as it is."""
    text = value.strip() if isinstance(value, str) else ""
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else value


def _from_iso(text: str) -> int | None:
    """Parse a date down to the nanosecond, for `datetime` keeps microseconds only; None if it is no date."""
    fraction = _FRACTION.search(text)
    whole = text if fraction is None else text[: fraction.start()] + text[fraction.end() :]
    try:
        moment = datetime.fromisoformat(whole)
    except ValueError:
        return None
    return _from_datetime(moment) + (int(fraction.group(1).ljust(9, "0")) if fraction else 0)


def _from_datetime(moment: datetime) -> int:
    """Nanoseconds since 1970; pandas' timestamps carry their last three digits apart."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    return microseconds * 1_000 + int(getattr(moment, "nanosecond", 0))


def _shown(value: object) -> str:
    """The value for a message, cut to a readable size; digits of a text without quotes."""
    text = value.strip() if isinstance(value, str) and _NUMBER.fullmatch(value.strip()) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
