"""Tables of configurations for ``workbench tune``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table


def show_rows(rows: Sequence[dict[str, Any]]) -> None:
    """Rows as a table whose lines are never cut."""
    if not rows:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in rows[0]:
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right", no_wrap=True)
    for row in rows:
        table.add_row(*("" if row.get(name) is None else str(row[name]).replace("[", r"\[") for name in rows[0]))
    console = Console()
    width = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    Console(width=max(width, console.width)).print(table)


def in_words(row: dict[str, Any]) -> dict[str, Any]:
    """A row of resources with numbers as a reader wants them."""
    kept = {name: value for name, value in row.items() if name not in ("stack_bytes", "code_bytes", "problem")}
    for name in ("waves", "modelled_us", "occupancy"):
        if kept.get(name) is not None:
            kept[name] = f"{kept[name]:.2f}"
    return kept | ({"problem": " ".join(str(row["problem"]).split())[:80]} if row["problem"] else {})
