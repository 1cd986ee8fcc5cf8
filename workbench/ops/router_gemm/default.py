"""The configuration that runs when none is given."""

from __future__ import annotations

from functools import lru_cache

from workbench.ops.router_gemm.config import RouterConfig
from workbench.ops.router_gemm.cost import cheapest
from workbench.ops.router_gemm.tuned import shipped

_ROUNDED = 64


@lru_cache(maxsize=4096)
def default_config(m: int, n: int, k: int, terms: int = 2, sms: int = 132) -> RouterConfig:
    """The fastest measured configuration of a measured shape, else the one that the cost model ranks first.

    Parameters
    ----------
    m, n, k : int
        Tokens, experts, hidden size.
    terms : int
        Terms of the weight, 2 or 3.
    sms : int
        SMs of the GPU.
    """
    table = shipped()
    tuned = table.pick(m, n, k) if (terms, sms) == (table.terms, table.sms) else None
    if tuned is not None:
        return tuned
    # Ranking takes milliseconds, so numbers of tokens that fill the same tiles share it.
    step = _ROUNDED if m > _ROUNDED else 8
    return cheapest(max(1, -(-m // step)) * step, n, k, terms, sms)
