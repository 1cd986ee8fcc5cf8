"""Configurations of the router GEMM kernel: what can be set, and what fits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from workbench.errors import InvalidArgument

BLOCK = 64
"""Elements of K that one stage of the ring holds."""

ROW_BYTES = 128
"""Bytes of a row of a stage: a block of bf16."""

WARPGROUP_ROWS = 64
"""Tokens that one wgmma multiplies."""

COLUMNS = (32, 48, 64, 72, 96, 128, 144, 192, 256)
"""Widths of a wgmma that the kernel has: terms times experts of a tile."""

UNIT_ROWS, UNIT_COLUMNS = 16, 8
"""Tokens and experts of the units that the CTAs of a split of K divide a tile into."""

TERMS = (2, 3)
MOST_CLUSTER = 16
SHARED_LIMIT = 232_448
"""Largest shared memory of one CTA on Hopper, bytes."""

PARAMETERS: dict[str, tuple[Any, ...]] = {
    "tile_m": (8, 16, 32, 64, 128),
    "tile_n": (16, 24, 32, 48, 64, 96, 128),
    "stages": tuple(range(2, 13)),
    "split_k": (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16),
    "multicast": (1, 2),
    "promote": (128, 1024),
    "pdl": (True, False),
}
"""What is searched. Tiles, the split of K and multicast can be nothing else. The kernel also takes more stages, and any
multiple of 64 for ``promote``: the two here serve three terms and two (``cost.PROMOTE``)."""


@dataclass(frozen=True, kw_only=True)
class RouterConfig:
    """How the kernel is built and launched.

    Attributes
    ----------
    tile_m : int
        Tokens of a tile; 128 take two multiplying warpgroups.
    tile_n : int
        Experts of a tile.
    stages : int
        Stages of the ring, each 64 of K.
    split_k : int
        CTAs of a cluster that share a tile, each with its part of K.
    multicast : int
        CTAs of a cluster, neighbours along the tokens, that load each weight row once for all of them.
    promote : int
        After so much of K, what the tensor cores added up goes to FP32 registers; a multiple of 64.
    pdl : bool
        Launch as a programmatic dependent: the kernel loads its first weights while the one ahead still runs.
    """

    tile_m: int = 128
    tile_n: int = 96
    stages: int = 4
    split_k: int = 1
    multicast: int = 1
    promote: int = 1024
    pdl: bool = True

    @property
    def cluster(self) -> int:
        """CTAs of a cluster."""
        return self.split_k * self.multicast

    @property
    def threads(self) -> int:
        """Threads a CTA: the multiplying warpgroups, and one warp that copies, padded to a warpgroup beside two."""
        return 128 * (self.tile_m // WARPGROUP_ROWS) + 128 if self.tile_m > WARPGROUP_ROWS else 160

    def shared_bytes(self, terms: int) -> int:
        """Dynamic shared memory of a CTA, laid out as the kernel file draws it."""
        stage = (self.tile_m + terms * self.tile_n) * ROW_BYTES
        pad = max(0, max(self.tile_m, WARPGROUP_ROWS) * ROW_BYTES - stage)
        rows = min(self.tile_m, UNIT_ROWS)
        units = self.tile_m // rows * self.tile_n // UNIT_COLUMNS
        slots = -(-units // self.split_k)
        parts = 0 if self.split_k == 1 else self.split_k * slots * rows * UNIT_COLUMNS * 4
        return self.stages * stage + pad + parts + 16 * self.stages + 16

    def why_invalid(self, terms: int) -> str | None:
        """Why this configuration cannot run a weight of so many terms, in words; None when it can."""
        if terms not in TERMS:
            return f"the weight has {terms} terms; the kernel takes 2 or 3"
        for name, value in asdict(self).items():
            if type(value) is not (bool if name == "pdl" else int):
                return f"{name} is {value!r}; give {'True or False' if name == 'pdl' else 'a whole number'}"
        for name in ("tile_m", "tile_n", "split_k", "multicast"):
            if getattr(self, name) not in PARAMETERS[name]:
                return f"{name} is {getattr(self, name)!r}; the kernel takes {', '.join(map(str, PARAMETERS[name]))}"
        if not 2 <= self.stages <= 32:
            return f"stages is {self.stages}; the kernel takes 2 to 32"
        if self.promote < BLOCK or self.promote % BLOCK:
            return f"promote is {self.promote}; give a multiple of {BLOCK}"
        if terms * self.tile_n not in COLUMNS:
            return f"{terms} terms of {self.tile_n} experts are {terms * self.tile_n} columns; a wgmma has at most 256"
        if self.cluster > MOST_CLUSTER:
            return f"split_k {self.split_k} x multicast {self.multicast} is a cluster of {self.cluster}; at most 16"
        if self.tile_n // self.multicast % 8:
            return f"{self.tile_n} experts do not divide into {self.multicast} shares of whole groups of 8"
        need = self.shared_bytes(terms)
        if need > SHARED_LIMIT:
            return f"shared memory {need:,} > {SHARED_LIMIT:,} bytes"
        return None

    def check(self, terms: int) -> RouterConfig:
        """Return the configuration itself.

        Raises
        ------
        InvalidArgument
            When it cannot run a weight of so many terms.
        """
        reason = self.why_invalid(terms)
        if reason:
            raise InvalidArgument(f"{self} cannot run a router weight: {reason}.")
        return self

    def tiles(self, m: int, n: int) -> int:
        """Tiles of the product, those of one cluster counted once."""
        return -(-m // (self.tile_m * self.multicast)) * -(-n // self.tile_n)

    def defines(self, terms: int) -> dict[str, int]:
        """Macros that the kernel is compiled with."""
        return {
            "TILE_M": self.tile_m,
            "TILE_N": self.tile_n,
            "TERMS": terms,
            "STAGES": self.stages,
            "SPLIT_K": self.split_k,
            "MULTICAST": self.multicast,
            "PROMOTE": self.promote // BLOCK,
        }

    def to_dict(self) -> dict[str, Any]:
        """The configuration as plain data."""
        return asdict(self)


def space(terms: int) -> Iterator[RouterConfig]:
    """Every valid configuration that is searched for a weight of so many terms.

    Raises
    ------
    InvalidArgument
        For a number of terms that the kernel does not take.
    """
    if terms not in TERMS:
        raise InvalidArgument(f"the weight has {terms} terms; the kernel takes 2 or 3.")
    for values in itertools.product(*PARAMETERS.values()):
        config = RouterConfig(**dict(zip(PARAMETERS, values, strict=True)))
        if config.why_invalid(terms) is None:
            yield config


def most_stages(config: RouterConfig, terms: int, shared_bytes: int = SHARED_LIMIT) -> int:
    """Stages that fit so much shared memory, at most 12; fewer than 2 where nothing fits."""
    fixed = RouterConfig(**{**config.to_dict(), "stages": 0}).shared_bytes(terms)
    stage = (config.tile_m + terms * config.tile_n) * ROW_BYTES + 16
    return min(12, (shared_bytes - fixed) // stage)
