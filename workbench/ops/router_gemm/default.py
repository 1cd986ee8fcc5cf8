"""The configuration that runs when none is given."""

from __future__ import annotations

from collections import defaultdict
from functools import cache, lru_cache

from workbench.errors import InvalidArgument, TableError
from workbench.gpu.tuned import own_table
from workbench.ops.router_gemm.config import TERMS, RouterConfig
from workbench.ops.router_gemm.cost import cheapest
from workbench.ops.router_gemm.tuned import Row, TunedTable, shipped

_ROUNDED = 64


@cache
def own(terms: int) -> TunedTable | None:
    """One's own tuned configurations for weights of so many terms; None where there are none.

    Raises
    ------
    TableError
        One of them cannot run.
    """
    kept = own_table("router_gemm")
    if kept is None:
        return None
    rows: defaultdict[tuple[int, int], list[Row]] = defaultdict(list)
    try:
        for entry in kept.entries:
            k, n, m, entry_terms = (int(str(entry.key[name])) for name in ("k", "n", "m", "terms"))
            if entry_terms == terms:
                config = RouterConfig(**entry.config).check(terms)  # type: ignore[arg-type]
                rows[k, n].append(Row(m, entry.median_us or 0.0, config))
    except (KeyError, TypeError, ValueError) as error:
        raise TableError(f"a tuned configuration of the router cannot be used: {error}") from None
    shapes = {shape: tuple(sorted(own_rows, key=lambda row: row.m)) for shape, own_rows in rows.items()}
    date = max((entry.date for entry in kept.entries), default=None)
    return TunedTable(kept.gpu, str(date), kept.sms, terms, "", shapes)


@lru_cache(maxsize=4096)
def default_config(m: int, n: int, k: int, terms: int = 2, sms: int = 132) -> RouterConfig:
    """The fastest measured configuration of a measured shape, else the one that the cost model ranks first.

    One's own measurements on this machine's GPU go before those of the package.

    Parameters
    ----------
    m, n, k : int
        Tokens, experts, hidden size.
    terms : int
        Terms of the weight, 2 or 3.
    sms : int
        SMs of the GPU.

    Raises
    ------
    InvalidArgument
        For another number of terms, or a size that there is not.
    TableError
        One's own table holds a configuration that cannot run.
    """
    if terms not in TERMS:
        raise InvalidArgument(f"terms is {terms}; the kernel takes 2 or 3.")
    if m < 0 or min(n, k, sms) < 1:
        raise InvalidArgument(f"m {m}, n {n}, k {k} on {sms} SMs; give m from 0, the others from 1.")
    for table in (own(terms), shipped()):
        if table is not None and (terms, sms) == (table.terms, table.sms) and (tuned := table.pick(m, n, k)):
            return tuned
    # Ranking takes milliseconds, so numbers of tokens that fill the same tiles share it.
    step = _ROUNDED if m > _ROUNDED else 8
    return cheapest(max(1, -(-m // step)) * step, n, k, terms, sms)
