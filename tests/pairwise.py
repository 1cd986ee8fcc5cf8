"""Few combinations that hold every pair: most faults of a configuration show with two settings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


def pairwise(
    parameters: Mapping[str, Sequence[Any]], valid: Callable[[dict[str, Any]], bool] = lambda _: True
) -> list[dict[str, Any]]:
    """Valid combinations in which every pair of values occurs that occurs in a valid combination at all; greedy."""
    names = list(parameters)
    rows = [
        at
        for at in itertools.product(*(range(len(values)) for values in parameters.values()))
        if valid({name: parameters[name][i] for name, i in zip(names, at, strict=True)})
    ]
    index = np.array(rows)
    columns, pairs = [], 0
    for a, b in itertools.combinations(range(len(names)), 2):
        width = len(parameters[names[b]])
        columns.append(pairs + index[:, a] * width + index[:, b])
        pairs += len(parameters[names[a]]) * width
    pair_of = np.stack(columns, axis=1)
    missing = np.zeros(pairs, bool)
    missing[pair_of] = True
    chosen = []
    while missing.any():
        best = int(missing[pair_of].sum(axis=1).argmax())
        missing[pair_of[best]] = False
        chosen.append({name: parameters[name][i] for name, i in zip(names, rows[best], strict=True)})
    return chosen
