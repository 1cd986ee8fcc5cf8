"""What is said about the captures on screen: the sentence on top, the help where there is nothing to show."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from workbench.widgets import text
from workbench.widgets.profiles.captures import Capture
from workbench.widgets.profiles.compare import BEYOND, UNKNOWN, WITHIN, Difference, Row
from workbench.widgets.profiles.counters import IMBALANCE, figure
from workbench.widgets.profiles.session import LETTERS, Session
from workbench.widgets.profiles.units import scale_of

DURATION = "gpu__time_duration.sum"
THROUGHPUT = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"

EMPTY = (
    ("On a machine with a GPU and Nsight Compute, make one:",
     'from workbench.capture import capture\n'
     'await capture("attention_decode", {"stages": 6}, "2x32K+30x4K", metrics=("overview", "schedule"), runs=3)'),
    ("Where counters are forbidden, make one without them:",
     'await capture("attention_decode", {}, "2x32K+30x4K", counters=False)'),
    ("Anywhere, import a report that was made elsewhere:",
     'from workbench.capture import import_report\nimport_report("profile.ncu-rep", operator="attention_decode")'),
    ("Then show what is there now:", "browser.reload()"),
)  # fmt: skip
"""How captures come into a store: what to do, and the code."""


def sentence(session: Session) -> str:
    """The screen in a sentence or two."""
    shown, picked = session.shown, session.picked
    if not session.captures:
        return "There is no capture in this store yet."
    if not picked:
        gpus = {capture.gpu for capture in shown}
        on = f" on {text.plural(len(gpus), 'GPU')}" if gpus else ""
        return f"{text.plural(len(shown), 'capture')}{on}. Pick two or more to compare them."
    if len(picked) == 1:
        return f"{_alone(picked[0])} Pick another to compare it with."
    said = [_against(session.rows, at, one) for at, one in enumerate(picked[1:], 1)]
    without = [LETTERS[at] for at, words in enumerate(said, 1) if not words]
    return " ".join(filter(None, [*said, _without(without)]))


def _alone(capture: Capture) -> str:
    if not capture.counted:
        return f"A has no counters: a call takes {text.fine_us(capture.replayed_us or 0.0)} \u00b5s, replayed."
    parts = []
    if capture.isolated_ns is not None:
        parts.append(f"A takes {text.fine_us(capture.isolated_ns / 1e3)} \u00b5s alone on cold caches.")
    lost, memory = figure(capture, IMBALANCE), figure(capture, THROUGHPUT)
    if lost is not None:
        parts.append(f"{lost.value:.0f} % of the SMs' time is spent waiting for the last one.")
    if memory is not None:
        parts.append(f"Memory runs at {memory.value:.0f} % of its peak.")
    return " ".join(parts) or "A has counters of its own choice."


def _against(rows: Sequence[Row], at: int, capture: Capture) -> str:
    """One capture against the first; "" where the two have no time in common."""
    letter = LETTERS[at]
    by_name = {row.name: row for row in rows}
    time = by_name.get(DURATION)
    change = time.differences[at] if time is not None else None
    if not capture.counted or time is None or change is None or change.relative is None:
        return ""
    words = f"{letter} takes {_percent(change)} time alone than A, {_noise(change)}"
    balance = by_name.get(IMBALANCE)
    before, after = (balance.readings[0], balance.readings[at]) if balance is not None else (None, None)
    if before is not None and after is not None:
        words += f"; imbalance {before.value:.0f} % \u2192 {after.value:.0f} %"
    return words + "."


def _without(letters: Sequence[str]) -> str:
    """Those that have no time in common with the first, in one sentence."""
    if not letters:
        return ""
    if len(letters) == 1:
        return f"{letters[0]} and A have no time in common: one of them is reduced or lacks it."
    named = f"{', '.join(letters[:-1])} and {letters[-1]}"
    return f"{named} have no time in common with A: A, or each of them, is reduced or lacks it."


def _percent(change: Difference) -> str:
    share = abs(change.relative or 0.0)
    word = "less" if change.delta < 0 else "more"
    return f"{100 * share:.1f} % {word}" if share < 0.0995 else f"{100 * share:.0f} % {word}"


def _noise(change: Difference) -> str:
    return {BEYOND: "beyond the noise", WITHIN: "within the noise", UNKNOWN: "noise not known"}.get(
        change.verdict, "no difference"
    )


def difference_words(row: Row, change: Difference) -> str:
    """A difference as it stands in the table: relative where that says something, else absolute."""
    if change.delta == 0:
        return "="
    sign = "+" if change.delta > 0 else text.MINUS
    if row.scale.name == "%":
        return f"{sign}{_short(abs(change.delta), 1)} pp"
    if change.relative is None:
        return f"{sign}{row.scale.write(abs(change.delta))}"
    share = 100 * abs(change.relative)
    if share >= 999.5:
        return f"{sign}{_short(share / 100, 0)} x"
    return f"{sign}{share:.1f} %" if share < 99.95 else f"{sign}{share:.0f} %"


def _short(value: float, places: int) -> str:
    """A number that keeps the width of its column, however large."""
    return f"{value:,.{places}f}" if value < 1e6 else f"{value:.0e}"


def noise_words(row: Row, change: Difference) -> str:
    """The verdict with the half width of the interval."""
    if not change.noise:
        return change.why
    scale = scale_of(row.readings[0].unit, [change.noise]) if row.readings[0] is not None else row.scale
    return f"{change.why}: \u00b1{scale.write(change.noise)} {scale.name}".rstrip()


def cautions(picked: Sequence[Capture]) -> tuple[str, ...]:
    """What keeps picked captures from being comparable."""
    said = []
    if len({(one.record.operator, one.record.workload.case, one.record.workload.dtype) for one in picked}) > 1:
        said.append("The work differs: totals and times are of different calls.")
    if len({one.gpu for one in picked}) > 1:
        said.append("The GPUs differ: cycles run at different clocks, peaks are each GPU's own.")
    if any(one.counted for one in picked) and not all(one.counted for one in picked):
        said.append("Reduced records have no counters; their time is a benchmark's, in a row of its own.")
    if len({one.record.source_digest for one in picked} - {None}) > 1:
        said.append("The kernel's sources differ.")
    return tuple(said)


def open_command(capture: Capture) -> tuple[str, str]:
    """The command that opens the report in Nsight Compute, and why there is none."""
    report = capture.report
    if report is None:
        return "", "no report was kept" if capture.counted else "a reduced record has no report"
    try:
        there = report.is_file()
    except OSError as error:
        return "", f"the report cannot be looked at: {error.strerror or error}"
    return (f"ncu-ui {shlex.quote(str(report))}", "") if there else ("", "the report is not beside its record any more")


def method_of(capture: Capture) -> str:
    """How the capture was made, in a line."""
    record = capture.record
    return record.method or "method not recorded"
