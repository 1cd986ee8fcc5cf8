"""The space that the options of ``workbench tune`` describe, and tables of its configurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from workbench.errors import InvalidArgument

if TYPE_CHECKING:
    from workbench.tune.space import Space

OPERATORS = {
    "attention": "attention_decode",
    "attention_decode": "attention_decode",
    "router": "router_gemm",
    "router_gemm": "router_gemm",
}


def described(
    operator: str,
    work: str,
    tokens: int,
    terms: int,
    cache: str,
    group: int,
    kv_heads: int,
    head_dim: int,
    q_len: int,
    whole: bool,
    values: list[str] | None,
    applicable: bool,
) -> Space:
    """The space that the options describe."""
    from workbench.tables import parse_shape
    from workbench.tune.spaces import attention_space, router_space

    if operator not in OPERATORS:
        raise InvalidArgument(f"operator {operator!r} is not known; give attention or router.")
    space: Space
    if OPERATORS[operator] == "attention_decode":
        shape = {"group": group, "kv_heads": kv_heads, "head_dim": head_dim, "q_len": q_len}
        space = attention_space(work, cache=cache, whole=whole, **shape)
        space.default()  # refuses a shape that has no kernel
    else:
        k, n, _ = parse_shape(work)
        space = router_space(tokens, n, k, terms=terms, whole=whole)
    if applicable:
        space = space.applicable()
    wanted = dict(_value(space, word) for word in values or [])
    return space.restrict(**wanted) if wanted else space


def _value(space: Space, word: str) -> tuple[str, Any]:
    """``stages=4,6`` as a name and values of the parameter's type."""
    name, _, said = word.partition("=")
    known = space.parameters.get(name)
    if known is None or not said:
        raise InvalidArgument(f"--set {word}: give NAME=V,... with one of {', '.join(space.parameters)}.")
    truth = {"true": True, "false": False}
    try:
        read = (lambda text: truth[text.lower()]) if isinstance(known[0], bool) else int
        return name, tuple(read(part) for part in said.split(","))
    except (ValueError, KeyError):
        raise InvalidArgument(f"--set {word}: give values such as {known[0]}, with commas between them.") from None


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
