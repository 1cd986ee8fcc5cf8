"""What a configuration of the router GEMM costs, roughly: to rank configurations of shapes that were not measured.

A wave of CTAs multiplies or loads block after block, whichever takes longer; besides that it starts, fills its ring and
exchanges partial sums. The constants are fitted to measurements on an H200 by ``benchmarks/router_tuning.py``, which
also says how far the pick of the model is from the best measured one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from workbench.ops.router_gemm.config import (
    BLOCK,
    PARAMETERS,
    ROW_BYTES,
    SHARED_LIMIT,
    WARPGROUP_ROWS,
    RouterConfig,
    most_stages,
)

HALF_SHARED = 113_664
"""Shared memory of a CTA of which two fit an SM of Hopper: half of 228 KB, less the driver's kilobyte each."""

GPC_SMS = {132: (18, 18, 16, 16, 16, 16, 16, 8, 2, 2, 2, 2)}
"""SMs by cluster of SMs (GPC), by the SMs of the GPU. A cluster of CTAs lies within one, so what is left over idles.

Of 132 SMs: what makes :func:`clusters_at_once` agree with all that the driver of one H200 says
(``benchmarks/clusters.py``). Other chips of the type may have other SMs switched off.
"""

PROMOTE = {2: 1024, 3: 128}
"""How often sums go to FP32 registers by default, by terms of the weight: in elements of K."""


@dataclass(frozen=True)
class Constants:
    """What the model was fitted to.

    Attributes
    ----------
    fixed_us : float
        Of a product, besides what follows.
    wave_us : float
        Of each wave of CTAs: first copies, writing the scores.
    exchange_us : float
        Of split K, besides moving the partial sums.
    exchange_bytes : float
        Bytes of partial sums that an SM moves in a microsecond.
    load_bytes : float
        Bytes from L2 to an SM in a microsecond.
    columns : float
        Columns of a 64 x 16 by 16 x N product that an SM multiplies in a microsecond.
    block_us : float
        Least time of a block.
    latency_us : float
        From a free stage of the ring to its bytes.
    stream_bytes : float
        Bytes that the memory delivers in a microsecond.
    """

    fixed_us: float = 1.93
    wave_us: float = 0.97
    exchange_us: float = 0.001
    exchange_bytes: float = 16_000
    load_bytes: float = 91_600
    columns: float = 2770
    block_us: float = 0.076
    latency_us: float = 1.85
    stream_bytes: float = 2_800_000


CONSTANTS = Constants()

_OVERLAP = 4
"""Work and the stream of weights from memory run side by side, but not wholly: this norm of both lies above either."""


def ctas_per_sm(config: RouterConfig, terms: int) -> int:
    """CTAs that fit an SM: two where half of its shared memory does, and one warpgroup multiplies."""
    return 2 if config.shared_bytes(terms) <= HALF_SHARED and config.tile_m <= WARPGROUP_ROWS else 1


def clusters_at_once(cluster: int, slots: int, sms: int) -> int:
    """Clusters of so many CTAs that run at the same time, with so many places for CTAs on each SM.

    A GPC takes no cluster of more CTAs than it has SMs, however many CTAs fit an SM.
    """
    gpcs = GPC_SMS.get(sms, (16,) * (sms // 16) + (sms % 16,))
    return max(1, sum(gpc * slots // cluster for gpc in gpcs if cluster <= gpc))


def estimated_us(
    config: RouterConfig, m: int, n: int, k: int, terms: int, sms: int, constants: Constants = CONSTANTS
) -> float:
    """Roughly how long a product takes, microseconds."""
    c = constants
    clusters = config.tiles(m, n)
    slots = ctas_per_sm(config, terms)
    at_once = min(clusters, clusters_at_once(config.cluster, slots, sms))
    waves = -(-clusters // at_once)
    shared_by = max(1, -(-at_once * config.cluster // sms))  # CTAs of the fullest SM
    warpgroups = max(1, config.tile_m // WARPGROUP_ROWS)
    multiply = shared_by * warpgroups * (BLOCK // 16) * terms * config.tile_n / c.columns
    load = shared_by * (config.tile_m + terms * config.tile_n / config.multicast) * ROW_BYTES / c.load_bytes
    blocks = -(-k // (BLOCK * config.split_k))
    beyond = max(0, blocks * (waves if config.split_k == 1 else 1) - config.stages)
    starved = beyond * max(0.0, c.latency_us / (config.stages - 1) - max(multiply, load, c.block_us))
    exchange = 0.0
    if config.split_k > 1:
        exchange = c.exchange_us + shared_by * min(config.tile_m, m) * config.tile_n * 4 / c.exchange_bytes
    work = waves * (blocks * max(multiply, load, c.block_us) + c.wave_us + exchange) + starved
    stream = (terms * n + m) * k * 2 / c.stream_bytes
    return c.fixed_us + math.pow(math.pow(work, _OVERLAP) + math.pow(stream, _OVERLAP), 1 / _OVERLAP)


def candidates(m: int, k: int, terms: int) -> Iterator[RouterConfig]:
    """Configurations worth ranking: tiles that hold all tokens, 64 or 128; a ring that fills an SM, or half of one."""
    fitting = next((tile for tile in PARAMETERS["tile_m"] if tile >= m), 128)
    blocks = -(-k // BLOCK)
    for tile_m, tile_n, split_k, multicast in itertools.product(
        dict.fromkeys((fitting, min(fitting, 64))), *(PARAMETERS[name] for name in ("tile_n", "split_k", "multicast"))
    ):
        if split_k > blocks or (multicast > 1 and m <= tile_m):
            continue
        draft = RouterConfig(tile_m=tile_m, tile_n=tile_n, split_k=split_k, multicast=multicast, promote=PROMOTE[terms])
        whole = most_stages(draft, terms, SHARED_LIMIT)
        half = most_stages(draft, terms, HALF_SHARED) if tile_m <= WARPGROUP_ROWS else whole
        for stages in dict.fromkeys(min(each, max(2, -(-blocks // split_k))) for each in (whole, half)):
            config = RouterConfig(**{**draft.to_dict(), "stages": stages})
            if config.why_invalid(terms) is None:
                yield config


@lru_cache(maxsize=1024)
def cheapest(m: int, n: int, k: int, terms: int, sms: int) -> RouterConfig:
    """The configuration that the model ranks first."""
    return min(candidates(m, k, terms), key=lambda config: estimated_us(config, m, n, k, terms, sms))
