"""Configurations that were measured to be the fastest, and which of them serves a number of tokens between two rows.

The table is ``tuned.json`` beside this file, written by ``benchmarks/router_tuning.py`` from a measurement and, for the
rows that say so, from a tuning study that found something faster.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from workbench.ops.router_gemm.config import RouterConfig

PATH = Path(__file__).with_name("tuned.json")


@dataclass(frozen=True)
class Row:
    """The fastest configuration measured for one product.

    Attributes
    ----------
    m : int
        Tokens.
    median_us : float
    config : RouterConfig
    study : str or None
        Date of the tuning study that found it, and timed it; None: it is of the table's own run.
    """

    m: int
    median_us: float
    config: RouterConfig
    study: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data; without `study` where there is none."""
        said: dict[str, Any] = {"m": self.m, "median_us": self.median_us, "config": self.config.to_dict()}
        return said if self.study is None else {**said, "study": self.study}


@dataclass(frozen=True)
class TunedTable:
    """What was measured on one GPU.

    Attributes
    ----------
    gpu, date : str
        Where and when; a row of a study has the study's date besides.
    sms : int
        SMs of the GPU; others have other best configurations.
    terms : int
        Terms of the weight.
    source_digest : str
        SHA-256 of the kernel's sources in the run; those of a study are in its records.
    shapes : dict of (int, int) to tuple of Row
        By (K, N); rows by ascending M.
    """

    gpu: str
    date: str
    sms: int
    terms: int
    source_digest: str
    shapes: dict[tuple[int, int], tuple[Row, ...]]

    @classmethod
    def from_json(cls, text: str) -> TunedTable:
        """Read what :meth:`to_json` wrote."""
        said = json.loads(text)
        shapes = {
            (shape["k"], shape["n"]): tuple(
                Row(row["m"], row["median_us"], RouterConfig(**row["config"]), row.get("study"))
                for row in shape["rows"]
            )
            for shape in said.pop("shapes")
        }
        return cls(**said, shapes=shapes)

    def to_json(self) -> str:
        """The table as JSON, a row a line."""
        shapes = []
        for (k, n), rows in self.shapes.items():
            lines = [json.dumps(row.to_dict()) for row in rows]
            shapes.append(f'  {{"k": {k}, "n": {n}, "rows": [\n    ' + ",\n    ".join(lines) + "\n  ]}")
        head: dict[str, Any] = {name: getattr(self, name) for name in ("gpu", "date", "sms", "terms", "source_digest")}
        lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
        return "{\n" + ",\n".join([*lines, ' "shapes": [\n' + ",\n".join(shapes) + "\n ]"]) + "\n}\n"

    def pick(self, m: int, n: int, k: int) -> RouterConfig | None:
        """The configuration for a product; None for a shape that was not measured.

        Between two measured numbers of tokens, a configuration takes no longer than it took at the larger one, and as
        long as at the smaller one where it cuts the tokens into as many tiles: then the smaller one's serves, being the
        fastest there; else the larger one's. Above the largest, the largest one's.
        """
        rows = self.shapes.get((k, n))
        if not rows:
            return None
        at = bisect_left([row.m for row in rows], m)
        if at == len(rows):
            return rows[-1].config
        below = rows[at - 1] if at and rows[at].m != m else None
        if below is not None and below.config.tiles(m, n) == below.config.tiles(below.m, n):
            return below.config
        return rows[at].config


@cache
def shipped() -> TunedTable:
    """The table of this package."""
    return TunedTable.from_json(PATH.read_text(encoding="utf-8"))
