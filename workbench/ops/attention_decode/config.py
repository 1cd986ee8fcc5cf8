"""Configurations of the decode attention kernel: what can be set, what fits, and what is used by default."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from workbench.errors import InvalidArgument

HEAD_DIMS = (64, 128, 256)
GROUPS = (1, 2, 4, 8, 16)
PAGE_SIZES = (16, 32, 64, 128)
Q_LENS = (1, 2, 3, 4)
SLAB = 16
"""Tokens that a warp handles at a time."""

SLABS_A_STAGE = 4
"""Slabs that the copy engine fetches at a time, one for each warp of a group."""

SHARED_LIMIT = 232_448
"""Largest shared memory of one CTA on Hopper, bytes."""

SHARED_PER_SM = 233_472
SHARED_RESERVED = 1_024
"""Shared memory that the driver keeps for itself in each CTA, bytes."""

ELEMENT_BYTES = {"fp8": 1, "bf16": 2}


@dataclass(frozen=True, kw_only=True)
class AttentionShape:
    """What a kernel is compiled for besides its configuration.

    Attributes
    ----------
    head_dim : int
        64, 128 or 256.
    group : int
        Query heads a KV head: 1, 2, 4, 8 or 16.
    q_len : int
        Query tokens a request, 1 to 4.
    cache, query : str
        ``"fp8"`` (E4M3) or ``"bf16"``; an FP8 query needs an FP8 cache.
    k_scale_per_token : bool
        One K scale a token and KV head instead of one for the tensor.

    Raises
    ------
    InvalidArgument
        For a shape that has no kernel.
    """

    head_dim: int = 128
    group: int = 8
    q_len: int = 1
    cache: str = "fp8"
    query: str = "fp8"
    k_scale_per_token: bool = False

    def __post_init__(self) -> None:
        allowed: dict[str, tuple[Any, ...]] = {
            "head_dim": HEAD_DIMS,
            "group": GROUPS,
            "q_len": Q_LENS,
            "cache": tuple(ELEMENT_BYTES),
            "query": tuple(ELEMENT_BYTES),
        }
        for name, values in allowed.items():
            value = getattr(self, name)
            if type(value) is not type(values[0]) or value not in values:
                raise InvalidArgument(f"{name} is {value!r}; decode attention takes {', '.join(map(str, values))}.")
        if type(self.k_scale_per_token) is not bool:
            raise InvalidArgument(f"k_scale_per_token is {self.k_scale_per_token!r}; give True or False.")
        if self.query == "fp8" and self.cache != "fp8":
            raise InvalidArgument("an FP8 query needs an FP8 cache; give q in bf16.")
        if self.k_scale_per_token and self.cache != "fp8":
            raise InvalidArgument("K scales a token exist for an FP8 cache only; give k_scale as [1] or not at all.")

    @property
    def rows(self) -> int:
        """Query rows that share a KV head: ``group * q_len``."""
        return self.group * self.q_len

    @property
    def rows_a_pass(self) -> int:
        """Rows handled in one pass over the keys; more rows read the keys again."""
        return min(self.rows, 16 if self.head_dim == 256 else 32)

    @property
    def rows_padded(self) -> int:
        """Rows of a pass as the tensor cores see them: 8, 16, 24 or 32."""
        return -(-self.rows_a_pass // 8) * 8

    @property
    def stage_bytes(self) -> int:
        """Shared memory of one stage of one warp: K and V of a slab."""
        return 2 * SLAB * self.head_dim * ELEMENT_BYTES[self.cache]

    def defines(self) -> dict[str, int]:
        """Macros that the kernel is compiled with."""
        return {
            "HEAD_DIM": self.head_dim,
            "GROUP": self.group,
            "Q_LEN": self.q_len,
            "CACHE_FP8": int(self.cache == "fp8"),
            "Q_FP8": int(self.query == "fp8"),
            "K_SCALE_PER_TOKEN": int(self.k_scale_per_token),
        }


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """How the kernel is built and launched.

    Attributes
    ----------
    warps : int
        Warps a CTA that compute: 4 or 8; one more loads.
    stages : int
        Stages of 64 tokens for every four warps: what can be in flight, or read and not yet used.
    ctas_per_sm : int
        CTAs of one call on an SM; the compiler caps registers for it, and it sets the bins of a map.
    prefetch : int
        Slabs that each warp asks to be brought to L2 before the kernel ahead has ended, 0 to 32.
    tile : int
        Tokens a KV tile, the unit of the task map: 32, 64 or 128.
    pdl : bool
        Launch as a programmatic dependent, so that the kernel's start overlaps the end of the one before.
    early_map : bool
        With ``pdl``, read the task map and the block table before the kernel ahead in the stream has ended, which
        saves about the latency of two reads. Allowed only when neither was written by that kernel; a map that was just
        built is recognised and waited for.
    early_cache : bool
        With ``early_map``, also read the caches before that, all but the newest ``q_len`` tokens of each request: what
        a decode step appends. Allowed only when the kernel ahead wrote nothing else there.
    """

    warps: int = 8
    stages: int = 6
    ctas_per_sm: int = 1
    prefetch: int = 1
    tile: int = 64
    pdl: bool = True
    early_map: bool = False
    early_cache: bool = False

    @property
    def threads(self) -> int:
        """Threads a CTA: the warps that compute, and the loader."""
        return 32 * (self.warps + 1)

    def shared_bytes(self, shape: AttentionShape) -> int:
        """Dynamic shared memory of a CTA, laid out as the kernel file draws it."""
        ring = self.warps * self.stages * shape.stage_bytes
        combine = self.warps * shape.rows_padded * shape.head_dim * 4
        queries = shape.rows_padded * (shape.head_dim * 2 + 4)
        sums = self.warps * shape.rows_padded * 8
        scales = self.warps * self.stages * SLAB * 4 if shape.k_scale_per_token else 0
        barriers = self.warps // SLABS_A_STAGE * self.stages * 2 * 8
        return ring + combine + queries + sums + scales + barriers

    def why_invalid(self, shape: AttentionShape) -> str | None:
        """Why this configuration cannot run ``shape``, in words; None when it can."""
        for name, values in PARAMETERS.items():
            if type(getattr(self, name)) is not type(values[0]):
                return f"{name} is {getattr(self, name)!r}, no {type(values[0]).__name__}"
        if self.warps not in (4, 8):
            return f"warps is {self.warps}; the kernel takes 4 or 8"
        if not 2 <= self.stages <= 16:
            return f"stages is {self.stages}; the kernel takes 2 to 16"
        if not 1 <= self.ctas_per_sm <= 8:
            return f"ctas_per_sm is {self.ctas_per_sm}; the kernel takes 1 to 8"
        if not 0 <= self.prefetch <= 32:
            return f"prefetch is {self.prefetch}; the kernel takes 0 to 32"
        if self.tile not in (32, 64, 128):
            return f"tile is {self.tile}; the task map takes 32, 64 or 128"
        if self.early_cache and not self.early_map:
            return "early_cache needs early_map: what to read stands in the map"
        need = self.shared_bytes(shape)
        if need > SHARED_LIMIT:
            return f"shared memory {need:,} > {SHARED_LIMIT:,} bytes"
        if self.ctas_per_sm * (need + SHARED_RESERVED) > SHARED_PER_SM:
            return f"{self.ctas_per_sm} CTAs of {need:,} bytes of shared memory do not fit an SM"
        return None

    def check(self, shape: AttentionShape) -> AttentionConfig:
        """Return the configuration itself.

        Raises
        ------
        InvalidArgument
            When it cannot run ``shape``.
        """
        reason = self.why_invalid(shape)
        if reason:
            raise InvalidArgument(f"{self} cannot run {shape}: {reason}.")
        return self

    def defines(self) -> dict[str, int]:
        """Macros that the kernel is compiled with."""
        return {
            "WARPS": self.warps,
            "STAGES": self.stages,
            "CTAS_PER_SM": self.ctas_per_sm,
            "PREFETCH": self.prefetch,
        }

    def to_dict(self) -> dict[str, Any]:
        """The configuration as plain data."""
        return asdict(self)


PARAMETERS: dict[str, tuple[Any, ...]] = {
    "warps": (4, 8),
    "stages": tuple(range(2, 13)),
    "ctas_per_sm": (1, 2, 3, 4),
    "prefetch": (0, 1, 2, 4),
    "tile": (32, 64, 128),
    "pdl": (True, False),
    "early_map": (False, True),
    "early_cache": (False, True),
}
"""What can be set, and to what."""


def space(shape: AttentionShape) -> Iterator[AttentionConfig]:
    """Every valid configuration of ``shape``."""
    for values in itertools.product(*PARAMETERS.values()):
        config = AttentionConfig(**dict(zip(PARAMETERS, values, strict=True)))
        if config.why_invalid(shape) is None:
            yield config


def default_config(shape: AttentionShape, *, early: bool = False) -> AttentionConfig:
    """The configuration used when none is given: about 96 KB of ring, or what fits one CTA an SM.

    96 KB in flight an SM are twice what the memory's latency asks for. From 24 rows on four warps compute: with eight
    there are too few registers for what they add up.

    Parameters
    ----------
    shape : AttentionShape
    early : bool
        For ``early_cache``, which is set with ``early_map``: 128 KB, for there is time to fill them.

    Raises
    ------
    InvalidArgument
        When ``shape`` is no `AttentionShape`, or none of the usual configurations fits it.
    """
    if not isinstance(shape, AttentionShape):
        raise InvalidArgument(f"shape is a {type(shape).__name__}; give an AttentionShape.")
    wanted = max(3, min(6, (128 if early else 96) * 1024 // (8 * shape.stage_bytes)))
    eight = ((8, wanted), (8, 2)) if shape.rows_padded < 24 else ()
    for warps, stages in (*eight, *((4, stages) for stages in (8, 6, 4, 3, 2))):
        config = AttentionConfig(warps=warps, stages=stages, early_map=early, early_cache=early)
        if config.why_invalid(shape) is None:
            return config
    raise InvalidArgument(f"no configuration fits {shape}.")
