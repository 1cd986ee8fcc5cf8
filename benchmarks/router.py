"""Time configurations of the router GEMM on this GPU beside cuBLAS in FP32, TF32 and bf16 and beside Triton.

    python benchmarks/router.py [--write FILE.json] [--store FOLDER] [--most 8] [--shapes 4096,192/6144,768]
                                [--tokens 1,64] [--rounds 15]

Measures as ``workbench bench router`` does, but also the configurations that the cost model ranks first: with
``router_tuning.py`` the table of defaults is made from the file. Of our kernel the store keeps the default and the
fastest configuration of each row.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from workbench.gpu.ahead import compile_ahead
from workbench.gpu.driver import require_gpu
from workbench.measure import environment
from workbench.measure.clocks import ClocksUnreadable
from workbench.measure.compare import Outcome
from workbench.measure.recording import record_of
from workbench.measure.router import (
    METHOD,
    TERMS,
    CudaRouter,
    RouterCase,
    jobs,
    measure,
    providers_of,
)
from workbench.measure.router_case import PROVIDERS, SHAPES, TOKENS
from workbench.measure.timing import GraphTimer
from workbench.ops.router_gemm import RouterConfig
from workbench.ops.router_gemm.cost import candidates, ctas_per_sm, estimated_us
from workbench.records import Store

OPERATOR = "router_gemm"
SEED = 0
FEW_TOKENS = 64
"""Up to here a launch without programmatic dependence is tried, too: the weights then wait for the kernel ahead."""


def promising(case: RouterCase, most: int, sms: int) -> list[RouterConfig]:
    """The configurations that the model ranks first, and of each kind that it may misjudge the first few."""
    ranked = sorted(
        candidates(case.m, case.k, TERMS), key=lambda config: estimated_us(config, case.m, case.n, case.k, TERMS, sms)
    )
    kinds = (
        lambda config: config.multicast > 1,
        lambda config: ctas_per_sm(config, TERMS) == 2,
        lambda config: config.cluster <= 3,
        lambda config: config.tile_m <= 64,
    )
    chosen = ranked[:most]
    if case.m <= FEW_TOKENS:
        chosen.append(replace(ranked[0], pdl=False))
    for kind in kinds:
        chosen += [config for config in ranked if kind(config)][:2]
    return list(dict.fromkeys(chosen))


def row_of(case: RouterCase, outcome: Outcome) -> dict[str, Any]:
    """A timed outcome as plain data."""
    assert outcome.timing is not None
    assert outcome.errors is not None
    low, high = outcome.timing.interval_us(draws=300)
    ours = outcome.provider if isinstance(outcome.provider, CudaRouter) else None
    return {
        "m": case.m, "n": case.n, "k": case.k, "terms": TERMS, "provider": outcome.provider.name,
        "config": ours.config.to_dict() if ours else None, "default": bool(ours and ours.is_default),
        "median_us": outcome.timing.median_us, "low_us": low, "high_us": high,
        "rel_error": outcome.errors.relative, "samples_us": outcome.timing.samples_us,
    }  # fmt: skip


def label(config: dict[str, Any]) -> str:
    """A configuration in a few letters."""
    return "{tile_m}x{tile_n} s{stages} k{split_k} c{multicast}".format(**config) + ("" if config["pdl"] else " alone")


def show(case: RouterCase, rows: list[dict[str, Any]], best: int = 4) -> None:
    """Print one row of the table: the default, the best configurations, the others."""
    ours = sorted((r for r in rows if r["provider"] == "cuda"), key=lambda r: float(r["median_us"]))
    cells = [f"default {r['median_us']:.2f} ({label(r['config'])})" for r in ours if r["default"]]
    cells += [f"{r['median_us']:.2f} {label(r['config'])}" for r in ours[:best]]
    cells += [f"{r['provider']} {r['median_us']:.2f}" for r in rows if r["provider"] != "cuda"]
    worst = max((float(r["rel_error"]) for r in ours), default=float("nan"))
    print(f"{case.name}: " + " | ".join(cells) + f" | worst {worst:.1e}", flush=True)


def kept(outcomes: list[Outcome]) -> Iterator[Outcome]:
    """What the store keeps: of our kernel the default and the fastest, and all others."""
    ours = [o for o in outcomes if isinstance(o.provider, CudaRouter) and o.timing]
    fastest = min(ours, key=lambda o: o.timing.median_us if o.timing else 0.0, default=None)
    for outcome in outcomes:
        provider = outcome.provider
        if outcome is fastest or not isinstance(provider, CudaRouter) or provider.is_default:
            yield outcome


def numbers(text: str) -> tuple[int, ...]:
    """Numbers between commas."""
    return tuple(int(part) for part in text.split(","))


def shapes(text: str) -> list[tuple[int, ...]]:
    """Shapes K,N between slashes."""
    return [numbers(part) for part in text.split("/")]


def main() -> None:
    """Compile, measure, print, write after each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write all samples as JSON")
    parser.add_argument("--store", type=Path, metavar="FOLDER", help="add records to a store")
    parser.add_argument("--most", type=int, default=8, help="configurations of a row by the model")
    parser.add_argument("--shapes", type=shapes, default=list(SHAPES.values()), metavar="K,N/K,N")
    parser.add_argument("--tokens", type=numbers, default=TOKENS, metavar="M,...")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    require_gpu()
    digests = environment.source_digests()
    here = environment.environment_here()
    said = {**here.model_dump(mode="json"), "source_digest": digests[OPERATOR, "cuda"]}
    print(json.dumps(said), flush=True)
    sms = here.sms or 1
    plan = {}
    for (k, n), m in itertools.product(arguments.shapes, arguments.tokens):
        case = RouterCase(m, n, k)
        plan[case] = providers_of(case, PROVIDERS, sms, promising(case, arguments.most, sms))
    wanted = jobs(list(itertools.chain.from_iterable(plan.values())))
    compile_ahead(wanted)
    print(f"{len(wanted)} configurations compiled, {len(plan)} rows", flush=True)
    store = Store(arguments.store) if arguments.store else None
    try:
        read_clocks = environment.clocks_here()
    except ClocksUnreadable as error:
        read_clocks = None
        print(f"clocks are not read: {error}", flush=True)
    rows: list[dict[str, Any]] = []
    for case, providers in plan.items():
        outcomes, _ = measure(case, providers, GraphTimer(), read_clocks, seed=SEED, rounds=arguments.rounds)
        for outcome in outcomes:
            if outcome.state != "timed":
                print(f"{outcome.state}: {outcome.provider} {outcome.reason}", flush=True)
        timed = [outcome for outcome in outcomes if outcome.state == "timed"]
        row = [row_of(case, outcome) for outcome in timed]
        rows += row
        show(case, row)
        for outcome in kept(timed) if store else ():
            record = record_of(
                outcome, case.workload, here, operator=OPERATOR, method=METHOD, seed=SEED, digests=digests
            )
            if store and record:
                store.add(record)
        torch.cuda.empty_cache()
        if arguments.write:
            arguments.write.write_text(json.dumps({"environment": said, "rows": rows}))


if __name__ == "__main__":
    main()
