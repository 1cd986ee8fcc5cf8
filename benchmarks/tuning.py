"""Tune decode attention and the router on this GPU, and say whether the shipped defaults are the tuned ones.

    python benchmarks/tuning.py OUT [--limit-s 85] [--cache fp8] [--attention CASE,...] [--tokens M,...]

Attention: all valid configurations of one space on each case, then the best of them over all cases together, for a
default knows the shape and not the lengths. Router: the configurations that the cost model ranks first, for each shape
and number of tokens. Writes OUT/tuning.json (what was found), OUT/store (a record a configuration) and OUT/journals.
A default that something beats by more than 3 % is named, and the exit code is then 1, as where nothing was tuned.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from workbench.gpu.ahead import compile_ahead
from workbench.gpu.driver import require_gpu
from workbench.records import Store
from workbench.tune.measure import Effort
from workbench.tune.measure_gpu import GpuFactory
from workbench.tune.space import Space
from workbench.tune.spaces import attention_space, router_space
from workbench.tune.study import Result, Study
from workbench.tune.study_joint import joint
from workbench.tune.study_records import records_of
from workbench.tune.study_trials import Finalist
from workbench.tune.workers_local import LocalPool
from workbench.workloads import MIXES

ROUTERS = ((4096, 192), (6144, 768), (3072, 384))
TOKENS = (1, 64, 256, 1024)
ROUTER_CONFIGS = 24
JOINT = 6
ALLOWED = 0.03
SEED = 1


def spaces(arguments: argparse.Namespace) -> Iterator[tuple[Space, list[Any]]]:
    """What is tuned, and the configurations of each."""
    for case in arguments.attention:
        space: Space = attention_space(case, cache=arguments.cache)
        yield space, list(space)
    for k, n in ROUTERS if arguments.tokens else ():
        for m in arguments.tokens:
            space = router_space(m, n, k)
            yield space, space.promising(ROUTER_CONFIGS)


def tell(space: Space, study: Study, result: Result, seconds: float) -> dict[str, Any]:
    """One workload's outcome as plain data, printed in a line."""
    gain, low, high = result.gain()
    best, default = result.best, result.default
    states: dict[str, int] = {}
    for trial in study.trials.values():
        states[trial.state] = states.get(trial.state, 0) + 1
    changed = {name: value for name, value in best.config.items() if default.config[name] != value}
    print(
        f"{space.operator} {space.workload.case}: {states}, {seconds:.1f} s; default {default.median_us:.2f} us, best "
        f"{best.median_us:.2f} us, {gain:+.1%} ({low:+.1%} to {high:+.1%}) {changed or 'the default'}",
        flush=True,
    )
    return {
        "operator": space.operator,
        "case": space.workload.case,
        "dtype": space.workload.dtype,
        "trials": states,
        "failures": [trial.to_dict() for trial in study.failed],
        "seconds": round(seconds, 2),
        "finalists": [show(each) for each in result.finalists],
        "default": show(default),
        "gain": gain,
        "gain_low": low,
        "gain_high": high,
    }


def show(finalist: Finalist) -> dict[str, Any]:
    """A finalist as plain data."""
    low, high = finalist.interval_us()
    return {
        "config": finalist.config, "median_us": finalist.median_us, "low_us": low, "high_us": high,
        "relative": finalist.relative, "relative_interval": finalist.relative_interval(),
        "rel_error": finalist.rel_error,
    }  # fmt: skip


def over_all_cases(pool: LocalPool, studies: Sequence[tuple[Space, Study]], rounds: int) -> list[dict[str, Any]]:
    """The best common configurations and the default, in turns on each case: relative times by case, their mean."""
    trials = {space.workload.case: list(study.trials.values()) for space, study in studies}
    ranked = joint(trials)[:JOINT]
    default = studies[0][1].search.default_key
    keys = list(dict.fromkeys([default, *(each.key for each in ranked)]))
    relative: dict[str, dict[str, tuple[float, float, float]]] = {key: {} for key in keys}
    for space, study in studies:
        pool.become(GpuFactory(space.to_dict(), SEED))
        samples = pool.take_turns([study.search.configs[key] for key in keys], rounds).result().us
        if not samples[0]:
            continue
        for key, us in zip(keys, samples, strict=True):
            if us:
                one = Finalist(json.loads(key), us, samples[0])
                relative[key][space.workload.case] = (one.relative, *one.relative_interval())
    found = []
    for key, by_case in relative.items():
        if len(by_case) == len(studies):
            product = 1.0
            for ratio, _, _ in by_case.values():
                product *= ratio
            found.append({"config": json.loads(key), "mean": product ** (1 / len(by_case)), "cases": by_case})
    found.sort(key=lambda each: float(each["mean"]))
    for each in found:
        print(f"over all cases {each['mean']:.4f}: {each['config']}", flush=True)
    return found


def options(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, or other words in its place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--limit-s", type=float, default=85, help="no trial is begun after so many seconds")
    parser.add_argument("--cache", default="fp8")
    parser.add_argument("--attention", type=lambda text: text.split(",") if text else [], default=list(MIXES))
    parser.add_argument("--tokens", type=lambda text: [int(m) for m in text.split(",") if m], default=list(TOKENS))
    return parser.parse_args(words)


def main() -> int:
    """Compile, tune, compare, write."""
    arguments = options()
    require_gpu()
    started = time.perf_counter()
    stop = threading.Event()
    timer = threading.Timer(arguments.limit_s, stop.set)
    timer.daemon = True
    timer.start()
    work = list(spaces(arguments))
    journals, store = arguments.out / "journals", Store(arguments.out / "store")
    journals.mkdir(parents=True, exist_ok=True)
    effort = Effort()
    rows, kept = [], []
    with LocalPool(GpuFactory(work[0][0].to_dict(), SEED)) as pool:
        ready = threading.Thread(target=pool.about)
        ready.start()  # imports torch and makes the first inputs while kernels compile
        compile_ahead([space.job(config) for space, configs in work for config in configs])
        ready.join()
        print(f"compiled after {time.perf_counter() - started:.1f} s", flush=True)
        for space, configs in work:
            began = time.perf_counter()
            if stop.is_set():
                print(f"{space.operator} {space.workload.case}: no time was left", flush=True)
                continue
            pool.become(GpuFactory(space.to_dict(), SEED))
            about = pool.about()
            name = f"{space.operator}-{space.workload.case}-{space.workload.dtype}.journal"
            study = Study(space, journals / name, gpu=str(about["gpu"]), configs=configs, effort=effort)
            study.run(pool, stop=stop)
            if study.best is None:
                continue
            result = study.finals(pool)
            for record in records_of(study, about, result, seed=SEED):
                store.add(record)
            rows.append(tell(space, study, result, time.perf_counter() - began))
            kept.append((space, study))
        attention = [(space, study) for space, study in kept if space.operator == "attention_decode"]
        common = over_all_cases(pool, attention, effort.final_rounds) if attention else []
        about = pool.about()
    beaten = [row for row in rows if row["gain"] > ALLOWED]
    document = {
        "what": "defaults against the tuned configurations of this GPU",
        "environment": about,
        "seconds": round(time.perf_counter() - started, 1),
        "complete": not stop.is_set(),
        "rows": rows,
        "attention_over_all_cases": common,
        "allowed": ALLOWED,
        "beaten": [{name: row[name] for name in ("operator", "case", "dtype", "gain", "gain_low")} for row in beaten],
    }
    (arguments.out / "tuning.json").write_text(json.dumps(document, indent=1))
    print(f"{len(rows)} workloads in {document['seconds']} s; beaten by more than {ALLOWED:.0%}: {len(beaten)}")
    for row in beaten:
        print(f"  {row['operator']} {row['case']}: {row['gain']:.1%}, surely {row['gain_low']:.1%}")
    return 1 if beaten or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
