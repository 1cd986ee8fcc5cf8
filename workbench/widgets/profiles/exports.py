"""Captures as files: a long table for CSV and Parquet, a page for readers."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from workbench.widgets.profiles.captures import Capture
from workbench.widgets.profiles.compare import BEYOND, UNKNOWN, WITHIN, Row
from workbench.widgets.profiles.counters import COUNTERS, REPLAYED, figures
from workbench.widgets.profiles.session import LETTERS, State
from workbench.widgets.profiles.words import cautions, difference_words, method_of, noise_words

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "gpu", "operator", "provider", "case", "dtype", "policy", "config", "date", "counters", "metric", "value", "unit",
    "deviation", "runs", "benchmark_us", "low_us", "high_us", "method", "note", "record",
)  # fmt: skip

NUMBERS = ("value", "deviation", "benchmark_us", "low_us", "high_us", "runs", "counters")


def to_frame(captures: Sequence[Capture], notes: Mapping[str, str]) -> pd.DataFrame:
    """A row a capture and figure.

    ``value`` holds what Nsight Compute counted and what follows from it, in base units; the time of a reduced record
    is in ``benchmark_us`` with the ends of its interval, for it is not comparable with an isolated time. ``runs`` is
    how often a call was profiled.
    """
    import pandas as pd

    rows = [row for capture in captures for row in _rows(capture, notes.get(capture.key, ""))]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.astype({**dict.fromkeys(NUMBERS[:5], "float64"), "runs": "Int64", "counters": "bool"})


def _rows(capture: Capture, note: str) -> list[tuple[Any, ...]]:
    record = capture.record
    head = (
        capture.gpu, record.operator, record.provider, record.workload.case, record.workload.dtype, record.policy,
        capture.configuration, capture.date, capture.counted,
    )  # fmt: skip
    tail = (method_of(capture), note, capture.key)
    if not capture.counted:
        median, low, high = (getattr(record, name) for name in ("median_us", "low_us", "high_us"))
        return [(*head, REPLAYED, None, None, None, None, median, low, high, *tail)]
    return [
        (*head, name, one.value, one.unit, one.deviation, None if _derived(name) else capture.runs, *(None,) * 3, *tail)
        for name, one in figures(capture).items()
    ]


def _derived(name: str) -> bool:
    return name in COUNTERS and COUNTERS[name].derived


def comparison(rows: Sequence[Row]) -> pd.DataFrame:
    """Captures side by side as a table; see `ProfileBrowser.compare`."""
    import pandas as pd

    found = []
    for row in rows:
        units = row.mixed or tuple({one.unit for one in row.readings if one is not None})
        line: dict[str, Any] = {"metric": row.name, "title": row.title, "unit": ", ".join(units)}
        for letter, reading, change in zip(LETTERS, row.readings, row.differences, strict=False):
            line[letter] = None if reading is None else reading.value
            line[f"{letter} deviation"] = None if reading is None else reading.deviation
            if letter != LETTERS[0]:
                line[f"{letter} - A"] = None if change is None else change.delta
                line[f"{letter} noise"] = None if change is None else change.noise
                line[f"{letter} verdict"] = "none" if change is None else change.verdict
        found.append(line)
    texts = ("metric", "title", "unit")
    frame = pd.DataFrame(found) if found else pd.DataFrame(columns=list(texts))
    return frame.astype({n: "float64" for n in frame.columns if n not in texts and not n.endswith("verdict")})


def to_csv(frame: pd.DataFrame) -> str:
    """The table as CSV. A text that a spreadsheet would take for a formula gets an apostrophe in front."""
    texts = {name: frame[name].map(_no_formula) for name in COLUMNS if name not in NUMBERS}
    return frame.assign(**texts).to_csv(index=False)


def _no_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.lstrip().startswith(("=", "+", "-", "@")) else value


def to_parquet(frame: pd.DataFrame) -> bytes:
    """The table as Parquet."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def to_html(
    title: str, words: str, picked: Sequence[Capture], rows: Sequence[Row], notes: Mapping[str, str], picture: str
) -> str:
    """The comparison as a page of its own; every text in it is escaped.

    Parameters
    ----------
    title, words
        Heading and the sentence below it.
    picked, rows
        The captures and what `compare` made of them.
    notes
        By key.
    picture
        SVG of the screen.
    """
    heads = Markup("").join(Markup("<th>{}</th><th></th>").format(LETTERS[at]) for at in range(len(picked)))
    captures = Markup("").join(_described(at, capture, notes) for at, capture in enumerate(picked))
    said = Markup("").join(Markup("<p>{}</p>").format(line) for line in cautions(picked))
    body = Markup("").join(_table_row(row) for row in rows)
    table = Markup("<table><tr><th></th>{}<th></th></tr>{}</table>").format(heads, body) if picked else ""
    # `render_svg` escapes every text that it draws.
    page = Markup(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{style}</style>'
        "</head><body><h1>{title}</h1><p>{words}</p>{captures}{said}{table}{picture}</body></html>\n"
    )
    parts = {"style": Markup(STYLE), "captures": captures, "said": said, "table": table, "picture": Markup(picture)}
    return str(page.format(title=title, words=words, **parts))


STYLE = (
    "body{font:14px/1.45 system-ui,sans-serif;max-width:1200px;margin:24px auto;padding:0 16px;color:#14181c}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:16px 0}"
    "td,th{padding:3px 10px;text-align:right;border-bottom:1px solid #e9edf0}"
    "td:first-child,td:last-child,th:first-child{text-align:left}small,.n{color:#5c6873}pre{white-space:pre-wrap}"
    ".s{color:#5c6873}.b{font-weight:700}svg{max-width:100%;height:auto}"
)


def _described(at: int, capture: Capture, notes: Mapping[str, str]) -> Markup:
    record = capture.record
    head = " / ".join(filter(None, (record.operator, record.workload.case, record.workload.dtype, capture.gpu,
                                    record.provider, capture.policy, capture.date)))  # fmt: skip
    text = notes.get(capture.key, "")
    note = Markup("<pre>{}</pre>").format(text) if text else ""
    return Markup("<p><b>{}</b> {}<br>{}<br><small>{}</small></p>{}").format(
        LETTERS[at], head, capture.configuration, method_of(capture), note
    )


ON_PAPER = {WITHIN: " (noise)", UNKNOWN: " (noise ?)"}
"""Verdicts where nobody can point at a cell; what is beyond the noise is bold."""


def _table_row(row: Row) -> Markup:
    cells = []
    for reading, change in zip(row.readings, row.differences, strict=True):
        value = "" if reading is None else f"{row.scale.write(reading.value)} {row.scale.name or reading.unit}".strip()
        title = "" if change is None else noise_words(row, change)
        words = "" if change is None else f"{difference_words(row, change)}{ON_PAPER.get(change.verdict, '')}"
        kind = "b" if change is not None and change.verdict == BEYOND else "s"
        cells.append(Markup('<td>{}</td><td class="{}" title="{}">{}</td>').format(value, kind, title, words))
    note = f"not compared: units {', '.join(row.mixed)}" if row.mixed else row.note
    return Markup('<tr><td>{}</td>{}<td class="n">{}</td></tr>').format(row.title, Markup("").join(cells), note)


def as_code(state: State) -> str:
    """Python that opens the same view again."""
    default = State()
    given = {name: value for name, value in vars(state).items() if value != getattr(default, name)}
    arguments = ", ".join(
        f"{name}={list(value) if isinstance(value, tuple) else value!r}" for name, value in given.items()
    )
    return f"from workbench import ProfileBrowser\n\nbrowser = ProfileBrowser({arguments})\nbrowser\n"
