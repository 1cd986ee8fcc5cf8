"""Time the router GEMM on this GPU: configurations of the kernel beside cuBLAS in FP32, TF32 and bf16.

    python benchmarks/router.py [--write FILE.json] [--most 24] [--only K,N] [--tokens 1,64] [--terms 2]

Each figure is the median over replays of a CUDA graph of at least 24 calls that rotate over input sets larger than the
L2 cache in total; the variants of a row take turns. Errors are relative to float64 on the FP32 weight.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch

from workbench.gpu.ahead import compile_ahead
from workbench.measure.timing import time_interleaved
from workbench.ops.router_gemm import (
    RouterConfig,
    RouterWeight,
    cuda,
    default_config,
    router_gemm,
    router_reference,
    split_router_weight,
)
from workbench.ops.router_gemm.config import PARAMETERS, estimated_cycles, most_stages

SHAPES = ((4096, 192), (6144, 768), (3072, 384))
TOKENS = (1, 16, 48, 64, 96, 128, 208, 256, 512, 1024, 2048, 4096, 8192)
SETS_BYTES = 150_000_000
"""Bytes of all input sets of a row together: more than twice the L2 cache."""

MOST_SETS = 48
TWO_CTAS_BYTES = 113_000
"""Shared memory of a CTA of which two fit an SM, so that the next kernel's CTAs start before this one's end."""

SMS = 132
RIVALS = ("torch", "tf32", "bf16")


def candidates(m: int, n: int, k: int, terms: int, most: int) -> list[RouterConfig]:
    """The default and the configurations that promise most, with all of the shared memory and with half of it."""
    fitting = next((tile for tile in PARAMETERS["tile_m"] if tile >= m), 128)
    tiles = {fitting, 64} if fitting == 128 else {fitting}
    drafts = [
        RouterConfig(tile_m=tile_m, tile_n=tile_n, split_k=split_k, multicast=multicast, promote=promote)
        for tile_m, tile_n, split_k, multicast, promote in itertools.product(
            sorted(tiles), PARAMETERS["tile_n"], PARAMETERS["split_k"], PARAMETERS["multicast"],
            (1024,) if terms == 2 else (128,),
        )
        if multicast == 1 or m > tile_m
    ]  # fmt: skip
    found: dict[RouterConfig, float] = {}
    for draft in drafts:
        blocks = -(-k // (64 * draft.split_k))
        for limit in (232_448, TWO_CTAS_BYTES):
            stages = min(most_stages(draft, terms, limit), max(2, blocks))
            config = RouterConfig(**{**draft.to_dict(), "stages": stages})
            if config.why_invalid(terms) is None:
                found[config] = estimated_cycles(config, m, n, k, terms, SMS)
    best = sorted(found, key=lambda config: found[config])[:most]
    return list(dict.fromkeys([default_config(m, n, k, terms), *best]))


@dataclass(frozen=True)
class Set:
    """Inputs of one call."""

    x: torch.Tensor
    weight: RouterWeight
    out: torch.Tensor

    @classmethod
    def make(cls, m: int, n: int, k: int, terms: int) -> Set:
        """Random inputs."""
        weight = torch.randn((n, k), device="cuda") / 16
        x = torch.randn((m, k), device="cuda").bfloat16()
        return cls(x, split_router_weight(weight, terms=terms), torch.empty((m, n), device="cuda"))

    def ours(self, config: RouterConfig) -> Callable[[], object]:
        """A call of the kernel."""
        return lambda: router_gemm(self.x, self.weight, provider="cuda", config=config, out=self.out)

    def rival(self, provider: str) -> Callable[[], object]:
        """A call of cuBLAS; plain bf16 gives bf16, as a linear layer does."""
        if provider == "bf16":
            return lambda: self.x @ self.weight.terms[0].t()
        return lambda: router_gemm(self.x, self.weight, provider=provider, out=self.out)


def error(inputs: Set, call: Callable[[], object]) -> float:
    """Relative error of a call against float64; NaN where it left a score unwritten."""
    inputs.out.fill_(torch.nan)
    y = call()
    assert isinstance(y, torch.Tensor)
    reference = router_reference(inputs.x, inputs.weight.weight)
    return float((y.double() - reference).norm() / reference.norm())


def time_row(m: int, n: int, k: int, terms: int, configs: list[RouterConfig]) -> list[dict[str, Any]]:
    """All variants of one row."""
    size = terms * n * k * 2 + m * k * 2
    sets = [Set.make(m, n, k, terms) for _ in range(max(2, min(MOST_SETS, -(-SETS_BYTES // size))))]
    variants: list[tuple[str, RouterConfig | None]] = [("cuda", config) for config in configs]
    variants += [(rival, None) for rival in RIVALS]

    def call(inputs: Set, provider: str, config: RouterConfig | None) -> Callable[[], object]:
        return inputs.rival(provider) if config is None else inputs.ours(config)

    errors = [error(sets[0], call(sets[0], *variant)) for variant in variants]
    timings = time_interleaved(
        {str(i): [call(inputs, *variant) for inputs in sets] for i, variant in enumerate(variants)}
    )
    rows = []
    for (provider, config), rel_error, timing in zip(variants, errors, timings.values(), strict=True):
        low, high = timing.interval_us(draws=300)
        rows.append(
            {
                "m": m, "n": n, "k": k, "terms": terms, "provider": provider,
                "config": config.to_dict() if config else None, "default": config == configs[0],
                "median_us": timing.median_us, "low_us": low, "high_us": high, "rel_error": rel_error,
                "samples_us": timing.samples_us,
            }
        )  # fmt: skip
    return rows


def label(config: dict[str, Any]) -> str:
    """A configuration in a few letters."""
    return "{tile_m}x{tile_n} s{stages} k{split_k} c{multicast}".format(**config)


def show(rows: list[dict[str, Any]], best: int = 4) -> None:
    """Print one row of the table: the default, the best configurations, the rivals."""
    ours = sorted((r for r in rows if r["provider"] == "cuda"), key=lambda r: float(r["median_us"]))
    default = next(r for r in rows if r["default"])
    cells = [f"default {default['median_us']:.2f} ({label(default['config'])}, {default['rel_error']:.1e})"]
    cells += [f"{r['median_us']:.2f} {label(r['config'])}" for r in ours[:best]]
    cells += [f"{r['provider']} {r['median_us']:.2f}" for r in rows if r["provider"] != "cuda"]
    worst = max(float(r["rel_error"]) for r in ours)
    print(
        f"K{rows[0]['k']} N{rows[0]['n']} M{rows[0]['m']}: " + " | ".join(cells) + f" | worst {worst:.1e}", flush=True
    )


def environment() -> dict[str, Any]:
    """What the figures hold for."""
    clocks = "driver_version,clocks.sm,clocks.mem,power.limit"
    query = ["nvidia-smi", f"--query-gpu={clocks}", "--format=csv,noheader", "--id=0"]
    said = subprocess.run(query, capture_output=True, text=True, check=True)
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name, "sms": properties.multi_processor_count, "torch": torch.__version__,
        "cuda": torch.version.cuda, clocks: said.stdout.strip(), "date": date.today().isoformat(),
    }  # fmt: skip


def numbers(text: str) -> tuple[int, ...]:
    """Numbers between commas."""
    return tuple(int(part) for part in text.split(","))


def main() -> None:
    """Compile, measure, print, write after each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write all samples as JSON")
    parser.add_argument("--most", type=int, default=24, help="configurations of a row")
    parser.add_argument("--only", type=numbers, metavar="K,N", help="one shape")
    parser.add_argument("--tokens", type=numbers, default=TOKENS, metavar="M,...")
    parser.add_argument("--terms", type=int, default=2)
    arguments = parser.parse_args()
    shapes = [arguments.only] if arguments.only else SHAPES
    plan = {
        (m, n, k): candidates(m, n, k, arguments.terms, arguments.most) for k, n in shapes for m in arguments.tokens
    }
    configs = dict.fromkeys(itertools.chain.from_iterable(plan.values()))
    compile_ahead([cuda.job(config, arguments.terms) for config in configs])
    print(f"{len(configs)} configurations compiled, {len(plan)} rows", flush=True)
    rows: list[dict[str, Any]] = []
    for (m, n, k), row_configs in plan.items():
        rows += time_row(m, n, k, arguments.terms, row_configs)
        show([r for r in rows if (r["m"], r["n"], r["k"]) == (m, n, k)])
        torch.cuda.empty_cache()
        if arguments.write:
            arguments.write.write_text(json.dumps({"environment": environment(), "rows": rows}))


if __name__ == "__main__":
    main()
