"""Tables of figures: one of a case with everything about each, and one over the cases like the article's Table 1."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rich.markup import escape
from rich.table import Table

from workbench.measure.figures import ROUTER, Figure, table_order
from workbench.tables import CLASSES

THROTTLED = "THROTTLED"
LEAST_EXACT = CLASSES["split"]
"""Router products beyond this error are another thing than the split weight's: they are not marked as the fastest."""

_STATIC = re.compile(r"(fixed_\w+)\((\d+)\)")


def best_of(figures: Sequence[Figure]) -> Figure | None:
    """The fastest of those that compute the result and were measured by this project; None where there is none.

    Of router products, only one at least as exact as the split weight's.
    """
    timed = [f for f in figures if f.median_us is not None and not f.is_read and not f.is_reference]
    timed = [f for f in timed if f.operator != ROUTER or f.rel_error is None or f.rel_error <= LEAST_EXACT]
    return min(timed, key=lambda f: f.median_us or 0.0, default=None)


def case_table(figures: Sequence[Figure], floor_us: float | None) -> Table:
    """Everything about each figure of one case.

    Parameters
    ----------
    figures
        Of one case and cache type.
    floor_us
        Least time by arithmetic, microseconds.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("provider", "policy", "launch"):
        table.add_column(heading, no_wrap=True)
    for heading in ("us", "95 % interval", "x read", "rel. error"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("origin and notes", overflow="fold", min_width=30)
    if floor_us is not None:
        table.add_row("floor", "", "", f"{floor_us:.2f}", "", "", "", "by arithmetic: bytes over the reading speed")
    read = next((f.median_us for f in figures if f.is_read), None)
    best = best_of(figures)
    for figure in figures:
        marked = figure is best
        times = _times(figure, read)
        table.add_row(
            escape(figure.provider),
            escape(figure.policy or ""),
            figure.variant,
            f"{times[0]}*" if marked else times[0],
            *times[1:],
            escape(_remarks(figure)),
            style=_style(figure, marked),
        )
    return table


def _times(figure: Figure, read: float | None) -> tuple[str, str, str, str]:
    error = "" if figure.rel_error is None else f"{figure.rel_error:.1e}"
    if figure.median_us is None:
        return figure.state.upper(), "", "", error
    between = "" if figure.low_us is None or figure.high_us is None else f"{figure.low_us:.2f} to {figure.high_us:.2f}"
    return f"{figure.median_us:.2f}", between, f"{figure.median_us / read:.2f}" if read else "", error


def _remarks(figure: Figure) -> str:
    throttled = f"{THROTTLED} ({', '.join(figure.throttled)})" if figure.throttled else ""
    origin = "" if figure.origin.startswith("measured") else figure.origin
    return "; ".join(filter(None, (throttled, figure.reason, origin, figure.notes)))


def _style(figure: Figure, marked: bool) -> str | None:
    if figure.state in ("wrong", "failed"):
        return "red"
    if figure.throttled:
        return "yellow"
    return "bold green" if marked else "dim" if figure.is_reference or figure.state == "missing" else None


def column_of(figure: Figure) -> str:
    """Heading of a figure in the table over all cases; every setting of a static family shares one."""
    static = _STATIC.fullmatch(figure.policy or "")
    policy = f"best {static[1]}" if static else figure.policy
    name = "" if figure.provider == "cuda" and figure.operator != ROUTER else figure.provider
    return " ".join(filter(None, (name, policy, figure.variant, "(reference)" if figure.is_reference else "")))


def summary_table(figures: Sequence[Figure], floors: Mapping[str, float]) -> Table:
    """One row a case, one column a provider, policy and launch: medians, an asterisk and the error for the fastest.

    Parameters
    ----------
    figures
        Of one cache type; columns that hold no time are left out.
    floors
        Least time of each case by arithmetic, microseconds.
    """
    table = Table(pad_edge=False, padding=(0, 1, 0, 0), box=None)
    cases = list(dict.fromkeys(f.case for f in figures))
    columns = list(dict.fromkeys(column_of(f) for f in sorted(figures, key=table_order) if f.median_us))
    with_error = any(f.rel_error is not None for f in figures)
    router = bool(figures) and figures[0].operator == ROUTER
    table.add_column("product" if router else "KV lengths", no_wrap=True)
    for heading in (*(["floor"] if floors else []), *columns, *(["error"] if with_error else [])):
        # A narrow terminal may break a heading between words, never cut one.
        table.add_column(escape(heading), justify="right", min_width=max(6, *map(len, heading.split())))
    for case in cases:
        here = [f for f in figures if f.case == case]
        best = best_of(here)
        cells = [_cell([f for f in here if column_of(f) == heading], best) for heading in columns]
        error = "" if best is None or best.rel_error is None else f"{best.rel_error:{'.1e' if router else '.4f'}}"
        floor = [f"{floors[case]:.1f}" if case in floors else ""] if floors else []
        table.add_row(escape(case), *floor, *cells, *([error] if with_error else []))
    return table


def _cell(figures: Sequence[Figure], best: Figure | None) -> str:
    """The fastest of the figures that share a cell; why there is none, where all failed."""
    timed = [f for f in figures if f.median_us is not None]
    if not timed:
        return next((f"[red]{f.state}[/]" for f in figures if f.state in ("wrong", "failed")), "")
    figure = min(timed, key=lambda f: f.median_us or 0.0)
    static = _STATIC.fullmatch(figure.policy or "")
    text = f"{figure.median_us:.1f}" + (f" ({static[2]})" if static else "") + ("!" if figure.throttled else "")
    if any(f.state == "wrong" for f in figures):
        text += " [red]wrong[/]"
    return f"[bold green]{text}*[/]" if figure is best else text
