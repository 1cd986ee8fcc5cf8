"""A dispatch table as a Python module that needs nothing but Python, for a serving engine to carry."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import InvalidArgument
from workbench.tables.dispatch import DispatchTable, same_gpu

_TEMPLATE = '''\
"""Which implementation of the router product is fastest, by GPU, shape and number of rows.

Written by {made_by} from measurements; to change it, measure again.
`choose` gives the name of an implementation, `decided` whether the figures showed it to be the fastest or it is only
the likelier one.
"""

from bisect import bisect_right
from operator import index

GPU = {gpu!r}
PRECISION = {precision!r}
DATE = {date!r}
ORIGINS = {origins!r}

# (K, N): (first M, name, decided) of each piece, ascending; the last has no end.
TABLES = {{
{tables}}}


def _piece(m, k, n, gpu):
    if gpu is not None and gpu != GPU:
        raise LookupError(f"the table was measured on {{GPU}}, not on {{gpu}}")
    if (k, n) not in TABLES:
        raise LookupError(f"no table for K {{k}}, N {{n}}; there are {{sorted(TABLES)}}")
    m = index(m)
    if m < 0:
        raise ValueError(f"m is {{m}}; give 0 or more")
    pieces = TABLES[k, n]
    return pieces[bisect_right(pieces, m, key=lambda piece: piece[0]) - 1]


def choose(m, *, k, n, gpu=None):
    """Name of the implementation for an [m, k] by [n, k] product, m a whole number.

    LookupError for another shape, or another GPU than GPU, compared letter by letter.
    """
    return _piece(m, k, n, gpu)[1]


def decided(m, *, k, n, gpu=None):
    """Whether measurements showed that implementation to be the fastest around m."""
    return _piece(m, k, n, gpu)[2]
'''


def module_source(tables: Sequence[DispatchTable]) -> str:
    """Source of a module with ``choose(m, k=, n=, gpu=None)`` and ``decided(...)``; Python 3.10 or later.

    Parameters
    ----------
    tables
        One or more, of one GPU and one precision class, each of another shape.

    Raises
    ------
    InvalidArgument
        There is none, or they differ in GPU or class, or a shape comes twice.
    """
    shapes = {(table.k, table.n) for table in tables}
    one_gpu = all(same_gpu(table.environment.gpu, tables[0].environment.gpu) for table in tables)
    if not tables or not one_gpu or len({table.precision for table in tables}) > 1 or len(shapes) < len(tables):
        raise InvalidArgument(
            f"a module is made of tables of one GPU and one precision class, a shape each; {len(tables)} were given: "
            + ", ".join(f"{t.environment.gpu} K {t.k} N {t.n} {t.precision}" for t in tables[:8])
        )
    entries = []
    for table in sorted(tables, key=lambda table: (table.k, table.n)):
        pieces = "".join(f"        {(s.low, s.provider, s.winner is not None)!r},\n" for s in table.spans)
        entries.append(f"    ({table.k}, {table.n}): (\n{pieces}    ),\n")
    return _TEMPLATE.format(
        made_by=_plain(tables[0].made_by),
        gpu=tables[0].environment.gpu,
        precision=tables[0].precision,
        date=max(table.environment.date for table in tables).isoformat(),
        origins=tuple(dict.fromkeys(origin for table in tables for origin in table.origins)),
        tables="".join(entries),
    )


def _plain(text: str) -> str:
    """Text that cannot end a docstring or begin an escape."""
    return "".join(c for c in text if c.isalnum() or c in " .-+_")
