"""Named decode batches: the six mixes that decode attention is measured on, and synthetic families."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument
from workbench.workloads.arguments import generator, whole
from workbench.workloads.lengths import MAX_REQUESTS, MAX_TOKENS, K, as_lengths, parse_lengths

Lengths = npt.NDArray[np.int64]

#: The measured length mixes; each name is also its own expression.
MIXES: tuple[str, ...] = (
    "64x0.5K",
    "64x4K",
    "32x0.125K+32x4K",
    "2x32K+30x4K",
    "1x64K+15x4K",
    "1x128K+31x4K",
)


def uniform(num_requests: int = 64, *, low: int = 1, high: int = 8 * K, seed: int = 0) -> Lengths:
    """Lengths drawn evenly from ``low`` to ``high``, both included.

    Parameters
    ----------
    num_requests
        Requests in the batch, B.
    low, high
        Shortest and longest length, tokens.
    seed
        Of ``numpy.random.default_rng``; the same seed gives the same batch.

    Returns
    -------
    numpy.ndarray
        int64 [B], tokens.

    Raises
    ------
    InvalidArgument
        A number is outside its range; the same holds for every family below.
    """
    _check(num_requests, low=low, high=high)
    if low > high:
        raise InvalidArgument(f"low={low} is above high={high}; give low <= high")
    return generator(seed).integers(low, high, size=num_requests, endpoint=True)


def lognormal(
    num_requests: int = 64, *, median: int = 4 * K, sigma: float = 1.0, longest: int = 128 * K, seed: int = 0
) -> Lengths:
    """Lengths whose logarithm is normal, the usual shape of prompts: many near the median, a long tail.

    Parameters
    ----------
    num_requests, seed
        As in `uniform`.
    median
        Half the requests are shorter, tokens.
    sigma
        Standard deviation of the natural logarithm; 0 makes all equal, 1 spreads the middle two thirds over a
        factor of 7.4.
    longest
        Lengths are cut here, tokens.

    Returns
    -------
    numpy.ndarray
        int64 [B], tokens.
    """
    _check(num_requests, median=median, longest=longest)
    if not 0 <= sigma <= 10:
        raise InvalidArgument(f"sigma={sigma}; give a standard deviation between 0 and 10")
    drawn: npt.NDArray[np.float64] = median * np.exp(sigma * generator(seed).standard_normal(num_requests))
    lengths: Lengths = np.clip(np.rint(drawn), 1, longest).astype(np.int64)
    return lengths


def zipf(
    num_requests: int = 64, *, longest: int = 128 * K, exponent: float = 1.0, shortest: int = 128, seed: int = 0
) -> Lengths:
    """Zipf's law: the r-th longest request has ``longest / r ** exponent`` tokens; their order is shuffled.

    Parameters
    ----------
    num_requests, seed
        As in `uniform`; the seed decides the order only.
    longest, shortest
        Length of the first request, and the floor of the others, tokens.
    exponent
        How fast lengths fall with the rank; 0 makes all equal.

    Returns
    -------
    numpy.ndarray
        int64 [B], tokens.
    """
    _check(num_requests, longest=longest, shortest=shortest)
    if shortest > longest:
        raise InvalidArgument(f"shortest={shortest} is above longest={longest}; give shortest <= longest")
    if not 0 <= exponent <= 10:
        raise InvalidArgument(f"exponent={exponent}; give a number between 0 and 10")
    by_rank = longest / np.arange(1, num_requests + 1, dtype=np.float64) ** exponent
    lengths: Lengths = np.maximum(np.rint(by_rank), shortest).astype(np.int64)
    return generator(seed).permutation(lengths)


def bimodal(
    num_requests: int = 64,
    *,
    short: int = K,
    long: int = 32 * K,
    long_share: float = 0.125,
    spread: float = 0.1,
    seed: int = 0,
) -> Lengths:
    """Two kinds of request, such as chat and documents, in shuffled order.

    Parameters
    ----------
    num_requests, seed
        As in `uniform`.
    short, long
        Centres of the two modes, tokens.
    long_share
        Fraction of long requests; their number is the nearest whole one.
    spread
        Each length is drawn evenly from its centre times ``1 - spread`` to ``1 + spread``.

    Returns
    -------
    numpy.ndarray
        int64 [B], tokens.
    """
    _check(num_requests, short=short, long=long)
    for name, value in (("long_share", long_share), ("spread", spread)):
        if not 0 <= value <= 1:
            raise InvalidArgument(f"{name}={value}; give a fraction between 0 and 1")
    rng = generator(seed)
    centres = np.full(num_requests, short, dtype=np.float64)
    centres[: round(num_requests * long_share)] = long
    drawn = centres * rng.uniform(1 - spread, 1 + spread, num_requests)
    return rng.permutation(np.clip(np.rint(drawn), 1, MAX_TOKENS).astype(np.int64))


def one_long_many_short(
    num_requests: int = 64, *, long: int = 128 * K, short: int = 4 * K, position: int | None = None, seed: int = 0
) -> Lengths:
    """One long request among equal short ones: the batch in which a static split makes every CTA wait for one.

    Parameters
    ----------
    num_requests, seed
        As in `uniform`; the seed chooses where the long request stands when `position` is None.
    long, short
        The two lengths, tokens.
    position
        Index of the long request.

    Returns
    -------
    numpy.ndarray
        int64 [B], tokens.
    """
    _check(num_requests, long=long, short=short)
    if position is None:
        position = int(generator(seed).integers(num_requests))
    elif not 0 <= position < num_requests:
        raise InvalidArgument(f"position={position}; give an index between 0 and {num_requests - 1}")
    lengths = np.full(num_requests, short, dtype=np.int64)
    lengths[position] = long
    return lengths


#: Synthetic families by name; each is called with a number of requests, a seed and parameters of its own.
FAMILIES: Mapping[str, Callable[..., Lengths]] = MappingProxyType(
    {
        "uniform": uniform,
        "lognormal": lognormal,
        "zipf": zipf,
        "bimodal": bimodal,
        "one-long-many-short": one_long_many_short,
    }
)


def workload(spec: str | npt.ArrayLike, **parameters: int | float | None) -> Lengths:
    """KV lengths of a decode batch from whatever describes it.

    Parameters
    ----------
    spec
        A mix ("2x32K+30x4K"), any other expression or pasted numbers, the name of a family ("zipf"), or integers.
    **parameters
        Of the family: ``workload("zipf", num_requests=32, exponent=1.5)``. Nothing else takes any.

    Returns
    -------
    numpy.ndarray
        int64 [B], tokens.

    Raises
    ------
    WorkloadError
        The lengths cannot be read.
    InvalidArgument
        A family does not take a parameter, or parameters were given without a family.
    """
    family = FAMILIES.get(spec.strip()) if isinstance(spec, str) else None
    if family is not None:
        allowed = ("num_requests", *(family.__kwdefaults__ or {}))
        if unknown := sorted(set(parameters) - set(allowed)):
            raise InvalidArgument(f"{spec!r} does not take {', '.join(unknown)}; it takes {', '.join(allowed)}")
        return family(**parameters)
    if parameters:
        raise InvalidArgument(
            f"{', '.join(sorted(parameters))} given with {spec!r}; only families take them: {', '.join(FAMILIES)}"
        )
    if isinstance(spec, str) and spec.strip()[:1].isalpha():
        raise InvalidArgument(
            f"no workload is called {spec!r}; write lengths such as 64x4K + 2x32K, or one of {', '.join(FAMILIES)}"
        )
    return parse_lengths(spec) if isinstance(spec, str) else as_lengths(spec)


def _check(num_requests: int, **lengths: int) -> None:
    """Raise unless the batch size and every length is a whole number in range."""
    limits = {"num_requests": (num_requests, MAX_REQUESTS)} | {name: (n, MAX_TOKENS) for name, n in lengths.items()}
    for name, (value, limit) in limits.items():
        whole(name, value, 1, limit)
