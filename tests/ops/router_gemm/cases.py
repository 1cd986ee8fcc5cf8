"""Products to try and what is asked of them, by family of configurations."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch

from workbench.gpu.ahead import Job
from workbench.measure.router_case import SHAPES as MODELS
from workbench.ops.router_gemm import RouterConfig, RouterWeight, cuda, default_config, split_router_weight
from workbench.ops.router_gemm.config import PARAMETERS, most_stages

SHAPES = tuple(MODELS.values())
"""(K, N) of the routers of models."""

TOKENS = (1, 16, 48, 64, 96, 128, 208, 256, 512, 1024, 2048, 4096, 8192)

LIMITS = {2: 6e-6, 3: 4e-7}
"""Relative error against float64 by terms, FP32 out."""

BF16_LIMIT = 2.5e-3
SENTINEL = 12345.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """One product.

    Attributes
    ----------
    m, n, k : int
    config : RouterConfig or None
        None takes the default of the shape.
    terms : int
    rounding : str
    out : str
        ``"float32"`` or ``"bfloat16"``.
    gap : int
        Elements between the rows of x.
    seed : int
    """

    m: int = 64
    n: int = 192
    k: int = 1024
    config: RouterConfig | None = None
    terms: int = 2
    rounding: str = "nearest"
    out: str = "float32"
    gap: int = 0
    seed: int = 0

    def __str__(self) -> str:
        c = self.used
        extras = [
            f"{self.terms} terms" if self.terms != 2 else "",
            self.rounding if self.rounding != "nearest" else "",
            self.out if self.out != "float32" else "",
            f"gap {self.gap}" if self.gap else "",
        ]
        config = (
            f"{c.tile_m}x{c.tile_n} s{c.stages} k{c.split_k} c{c.multicast} p{c.promote}{'' if c.pdl else ' nopdl'}"
        )
        return f"{self.m}x{self.n}x{self.k} {config} {' '.join(filter(None, extras))}".rstrip()

    @property
    def used(self) -> RouterConfig:
        """The configuration that runs."""
        return self.config or default_config(self.m, self.n, self.k, self.terms)

    @property
    def out_dtype(self) -> torch.dtype:
        """Type of the scores."""
        return torch.float32 if self.out == "float32" else torch.bfloat16

    @property
    def limit(self) -> float:
        """Largest relative error against the terms of the weight."""
        return LIMITS[self.terms] if self.out == "float32" else BF16_LIMIT

    @property
    def job(self) -> Job:
        """The kernel to compile."""
        return cuda.job(self.used, self.terms, self.out_dtype)

    def inputs(self, device: str) -> tuple[torch.Tensor, RouterWeight]:
        """Activations, with NaN between their rows, and the split weight."""
        generator = torch.Generator(device).manual_seed(self.seed)
        x = torch.full((self.m, self.k + self.gap), torch.nan, dtype=torch.bfloat16, device=device)
        x = x[:, : self.k]
        x.copy_(torch.randn(x.shape, generator=generator, device=device))
        weight = torch.randn((self.n, self.k), generator=generator, device=device) / 16
        return x, split_router_weight(weight, self.rounding, self.terms)


def _fit(terms: int = 2, **values: int) -> RouterConfig:
    """A configuration with as many stages as fit."""
    draft = RouterConfig(**{"promote": 1024 if terms == 2 else 128, **values})
    stages = values.get("stages", max(2, most_stages(draft, terms)))
    return RouterConfig(**{**draft.to_dict(), "stages": stages})


def families() -> dict[str, list[Case]]:
    """Cases by what is new in them."""
    tile_ns, splits = PARAMETERS["tile_n"], PARAMETERS["split_k"]
    made: dict[str, list[Case]] = {}
    made["one warpgroup"] = [
        Case(m=m, config=_fit(tile_m=tile_m, tile_n=tile_n), seed=m)
        for (tile_m, m), tile_n in itertools.product(((8, 5), (16, 16), (32, 77), (64, 200)), tile_ns)
    ]
    made["two warpgroups"] = [
        Case(m=m, config=_fit(tile_m=128, tile_n=tile_n), seed=m) for m in (128, 333) for tile_n in tile_ns
    ]
    made["persistent"] = [
        Case(m=m, n=n, k=k, config=_fit(tile_m=tile_m, tile_n=tile_n, stages=stages), seed=m)
        for m, n, k, tile_m, tile_n, stages in (
            (4096, 768, 512, 128, 96, 4),
            (20_000, 64, 200, 64, 16, 2),
            (9000, 192, 1000, 128, 64, 3),
            (9000, 256, 64, 128, 128, 3),
            (3000, 192, 2048, 8, 48, 12),
        )
    ]
    made["split K"] = [
        Case(m=m, k=k, config=config, seed=split_k)
        for (tile_m, m), (tile_n, k), split_k in itertools.product(
            ((8, 1), (16, 11), (32, 30), (64, 64), (128, 208)), ((24, 4096), (96, 1160), (128, 520)), splits[1:]
        )
        if (tile_n != 96 or split_k in (3, 7, 8)) and (tile_n != 24 or tile_m != 32)
        for config in [_fit(tile_m=tile_m, tile_n=tile_n, split_k=split_k)]
        if config.why_invalid(2) is None
    ]
    made["multicast"] = [
        Case(m=m, k=k, config=_fit(tile_m=tile_m, tile_n=tile_n, multicast=2), seed=m)
        for tile_m, tile_n, m, k in (
            (64, 32, 128, 1024),
            (64, 96, 1, 1024),
            (128, 96, 1000, 1024),
            (128, 128, 20_000, 512),
            (128, 48, 129, 4096),
            (32, 64, 4000, 328),
        )
    ]
    made["split K and multicast"] = [
        Case(m=m, k=2048, config=_fit(tile_m=tile_m, tile_n=tile_n, multicast=2, split_k=split_k), seed=m)
        for tile_m, tile_n, m in ((64, 32, 200), (128, 96, 300), (128, 64, 700))
        for split_k in (2, 3, 4, 7, 8)
    ]
    made["three terms"] = [
        Case(m=m, k=k, terms=3, config=_fit(3, tile_m=tile_m, tile_n=tile_n, split_k=split_k, promote=promote), seed=m)
        for tile_m, tile_n, m in ((8, 16, 3), (64, 32, 64), (128, 48, 300), (128, 64, 256))
        for split_k in (1, 8)
        for k, promote in ((1024, 64), (6144, 128), (4096, 256))
    ]
    made["promotion"] = [
        Case(m=256, k=6144, config=_fit(tile_m=128, tile_n=tile_n, promote=promote), seed=promote)
        for promote in (64, 128, 256, 512, 1024, 2048)
        for tile_n in (96, 128)
    ]
    made["outputs, strides, edges"] = [
        *(
            Case(m=m, n=n, k=k, out=out, gap=gap, seed=m, config=config)
            for config in (None, _fit(tile_m=128, tile_n=96, split_k=4), _fit(tile_m=64, tile_n=48, multicast=2))
            for out in ("float32", "bfloat16")
            for m, n, k, gap in (
                (1, 8, 8, 0),
                (7, 8, 72, 8),
                (65, 200, 136, 0),
                (129, 104, 4104, 24),
                (96, 1000, 64, 56),
            )
        ),
        *(Case(m=m, rounding="truncate", seed=m) for m in (3, 300)),
        Case(m=100, config=RouterConfig(pdl=False)),
        Case(m=0),
    ]
    made["defaults"] = [Case(m=m, n=n, k=k, seed=m) for k, n in SHAPES for m in TOKENS]
    made["defaults, three terms"] = [Case(m=m, n=n, k=k, seed=m, terms=3) for k, n in SHAPES for m in TOKENS[::3]]
    return made
