"""How numbers are written on screen. The browser never formats one itself."""

from __future__ import annotations

import math

MINUS = "\u2212"
NOTHING = "\u2013"
K = 1024


def us(value: float) -> str:
    """Microseconds: one decimal below 1,000, whole above."""
    return f"{value:.1f}" if abs(value) < 999.95 else f"{value:,.0f}"


def fine_us(value: float) -> str:
    """Microseconds of small differences: two decimals below 10, else as :func:`us`."""
    return f"{value:.2f}" if abs(value) < 9.995 else us(value)


def signed(text: str, value: float) -> str:
    """``text`` of the absolute value with its sign; zero has none."""
    if not any(digit in text for digit in "123456789"):
        return text
    return ("+" if value > 0 else MINUS) + text


def ratio(value: float) -> str:
    """A quotient, two decimals below 100; a dash where there is none."""
    if not math.isfinite(value):
        return NOTHING
    return f"{value:.2f}" if value < 99.995 else f"{value:,.0f}"


def percent(share: float) -> str:
    """A share of one in whole percent; one that is not quite 0 or 1 says so."""
    if 0 < share < 0.005:
        return "<1 %"
    if 0.995 <= share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"


def tokens(count: int) -> str:
    """Tokens: exact below 1,024, then in K (1,024) with one decimal, then in M."""
    if count < K:
        return f"{count:,}"
    if count < 999.95 * K:
        return f"{count / K:.1f}K"
    return f"{count / K / K:.2f}M"


def of_tokens(count: int) -> str:
    """``1 token``, ``4.0K tokens``."""
    return f"{tokens(count)} token" + ("" if count == 1 else "s")


def count(value: int) -> str:
    """A whole number with thousands separated."""
    return f"{value:,}"


def size(num_bytes: int) -> str:
    """Bytes in decimal units: B, KB, MB, GB."""
    if num_bytes < 1000:
        return f"{num_bytes} B"
    value = float(num_bytes)
    for unit in ("KB", "MB", "GB"):
        value /= 1000
        if value < 999.5:
            return f"{value:.1f} {unit}" if value < 99.95 else f"{value:.0f} {unit}"
    return f"{value / 1000:.1f} TB"


def plural(number: int, noun: str) -> str:
    """``1 chunk``, ``2,000 chunks``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th ..."""
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"
