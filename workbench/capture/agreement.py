"""Do the counters and the stamps inside the kernel tell the same story about the balance of SMs?

Hardware counters know how many cycles SMs were active only as least, mean and most; the instrumented kernel knows when
each descriptor ran on which SM. Cycles and nanoseconds have no common scale, so shares of the busiest SM are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

TOLERANCE = 0.05
"""Largest difference of two shares that counts as agreement. The stamps begin after a CTA's start and end before its
last store has left, which on an H200 is a few hundred of some 10,000 ns."""

CYCLES = "sm__cycles_active.{}"


@dataclass(frozen=True)
class Agreement:
    """Two views of how evenly the SMs worked.

    Attributes
    ----------
    counted_mean, stamped_mean : float
        Mean over SMs of their active time, as a share of the busiest SM's; one less that is the usual imbalance.
    counted_least, stamped_least : float
        The same of the SM that was active least.
    agrees : bool
        Whether both pairs differ by at most `TOLERANCE`.
    """

    counted_mean: float
    stamped_mean: float
    counted_least: float
    stamped_least: float
    agrees: bool

    def __str__(self) -> str:
        verdict = "agree" if self.agrees else "disagree"
        return (
            f"Counters and in-kernel stamps {verdict}: on average an SM was active for {self.counted_mean:.0%} of "
            f"the busiest "
            f"one's time by sm__cycles_active and {self.stamped_mean:.0%} by the stamps; the idlest one for "
            f"{self.counted_least:.0%} and {self.stamped_least:.0%}."
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def busy_ns(
    begin_ns: npt.NDArray[Any], end_ns: npt.NDArray[Any], sm: npt.NDArray[Any], num_sms: int
) -> npt.NDArray[np.int64]:
    """Time during which each SM ran at least one descriptor.

    Parameters
    ----------
    begin_ns, end_ns : integers [descriptors]
        Stamps of the global timer, nanoseconds.
    sm : integers [descriptors]
        Where each ran.
    num_sms : int
        SMs of the GPU; one that ran none was busy for 0.

    Returns
    -------
    int64 [num_sms], nanoseconds
    """
    busy = np.zeros(num_sms, np.int64)
    order = np.lexsort((begin_ns, sm))
    last_sm, covered = -1, 0
    for at in order.tolist():
        where, begin, end = int(sm[at]), int(begin_ns[at]), int(end_ns[at])
        if where != last_sm:
            last_sm, covered = where, begin
        busy[where] += max(end - max(begin, covered), 0)
        covered = max(covered, end)
    return busy


def compare(metrics: Mapping[str, float], busy: npt.NDArray[Any]) -> Agreement | None:
    """Compare counters with the stamps' busy time.

    Parameters
    ----------
    metrics
        Counters by name.
    busy : numbers [SMs]
        See `busy_ns`.

    Returns
    -------
    Agreement or None
        None where a counter is missing or nothing ran.
    """
    least, mean, most = (metrics.get(CYCLES.format(rollup)) for rollup in ("min", "avg", "max"))
    if least is None or mean is None or not most or not busy.size or not busy.max():
        return None
    counted = (mean / most, least / most)
    stamped = (float(busy.mean() / busy.max()), float(busy.min() / busy.max()))
    agrees = all(abs(a - b) <= TOLERANCE for a, b in zip(counted, stamped, strict=True))
    return Agreement(counted[0], stamped[0], counted[1], stamped[1], agrees)
