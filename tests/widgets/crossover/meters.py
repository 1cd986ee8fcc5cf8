"""A GPU made up for tests: known curves, noise, and a failure on demand."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping, Sequence

from tests.tune.curves import CROSSING, Curve, Laboratory
from workbench.records import Environment


class Meter:
    """Measures two made-up providers; fails once at `fail_at` measurements."""

    curves: Mapping[str, Curve] = CROSSING
    seconds = 0.0
    fail_at = -1

    def __init__(self, k: int, n: int, providers: Sequence[str]) -> None:
        self.k, self.n, self.asked = k, n, tuple(providers)
        self.lab = Laboratory(self.curves)

    def classes(self) -> dict[str, str]:
        return dict.fromkeys(self.curves, "split")

    def measure(self, providers: Sequence[str], m: int, rounds: int) -> dict[str, list[float]]:
        time.sleep(self.seconds)
        if len(self.lab.calls) == type(self).fail_at:
            type(self).fail_at = -1
            raise RuntimeError("the bus fell off")
        return self.lab(providers, m, rounds)


def environment() -> Environment:
    return Environment(gpu="NVIDIA H200", date=datetime.date(2026, 11, 30), sms=132)
