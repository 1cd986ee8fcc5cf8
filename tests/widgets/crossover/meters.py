"""Figures that tests can rely on: a GPU made up, with known curves, and the references alone."""

from __future__ import annotations

import datetime
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.tune.curves import CROSSING, Curve, Laboratory
from workbench.paths import profiles_dir
from workbench.records import Environment, Store


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


@cache
def references() -> Store:
    """A store of the references alone: what is recorded later changes no number of a test."""
    shipped, folder = profiles_dir(), Path(tempfile.mkdtemp())
    for path in shipped.rglob("router_gemm/*/*/reference-*.json"):
        target = folder / path.relative_to(shipped)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return Store(folder)
