"""How far the cost model is from the calls that were timed, one CTA an SM.

    python benchmarks/cost_error.py [STORE] [--constants FILE.json]

Takes the calls that `workbench fit` would take from a store, by default the shipped one. Timelines are among them, for
which the last bin and the merge stand beside the model's too; of `balanced` ones it is said whether the model
would still plan so. --constants takes those of a file that `workbench fit --out` wrote, such as
docs/performance/attention_fit.json, instead of the package's.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench import paths
from workbench.measure.fit import Observation, error_of
from workbench.measure.fit_data import observations
from workbench.records import Store
from workbench.schedule import CostConstants, CostModel, DecodePlan, balanced, cost_model, fitted, plan_decode

CACHES = ("fp8", "bf16")


def model(cache: str, fits: dict[str, Any] | None) -> CostModel:
    """The package's model, or the same with constants of a file."""
    cost = cost_model("H200", cache=cache)
    if fits is None:
        return cost
    fit = fits[cache]
    return replace(cost, constants=CostConstants(**fit["constants"], source=fit["source"]))


def main() -> None:
    """Print measured beside predicted calls, and the error of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", nargs="?", type=Path, default=paths.profiles_dir())
    parser.add_argument("--constants", type=Path, metavar="FILE", help="constants that `workbench fit --out` wrote")
    given = parser.parse_args()
    fits = fitted.parse(given.constants.read_text(), "H200") if given.constants else None
    for cache in CACHES:
        cost = model(cache, fits)
        observed = [o for o in observations(Store(given.store), cost)[0] if o.cache == cache]
        for o in observed:
            print(line(o, cost))
        print(f"{cache}: {error_of(observed, cost)}; {cost.source}\n")


def line(o: Observation, cost: CostModel) -> str:
    """One call: measured, predicted."""
    spans = o.plan.spans(cost)
    call = (spans.makespan_ns + cost.constants.launch_ns) / 1e3
    text = f"{o.cache:5}{o.case:17}{o.plan.policy:17}{o.call_us or 0:8.1f}{call:8.1f}"
    if o.timeline is not None:
        merge = o.timeline.makespan_ns - o.timeline.bins_ns
        text += f"   last bin {o.timeline.bins_ns / 1e3:.1f} {spans.bins_ns / 1e3:.1f}"
        text += f"   merge {merge / 1e3:.1f} {spans.merge_ns / 1e3:.1f}"
        if o.plan.policy == "balanced":
            now = balanced_now(o.plan, cost)
            if now.to_json() != o.plan.to_json():
                times = [plan.spans(cost).makespan_ns / 1e3 for plan in (now, o.plan)]
                text += f"   would now plan otherwise: makespan {times[0]:.1f} instead of {times[1]:.1f}"
    return text


def balanced_now(plan: DecodePlan, cost: CostModel) -> DecodePlan:
    """What `balanced` plans for the same batch by these costs."""
    return plan_decode(
        plan.lengths,
        num_kv_heads=plan.num_kv_heads,
        num_ctas=plan.num_ctas,
        policy=balanced(costs=cost),
        tile=plan.tile,
    )


if __name__ == "__main__":
    main()
