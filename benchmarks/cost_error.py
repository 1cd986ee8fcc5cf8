"""How far the cost model is from the calls that were timed: docs/performance/attention.json, one CTA an SM.

python benchmarks/cost_error.py [FILE.json]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from workbench.schedule import cost_model, plan_decode
from workbench.workloads import workload

DEFAULT = Path(__file__).resolve().parents[1] / "docs" / "performance" / "attention.json"


def main() -> None:
    """Print measured beside predicted calls, and the error of all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=DEFAULT)
    measured = json.loads(parser.parse_args().file.read_text())
    sms = measured["environment"]["sms"]
    logs = []
    for row in measured["rows"]:
        config = row["config"]
        if not config.get("early_map"):  # the floor, the map, and launches that wait longer than the model's
            continue
        plan = plan_decode(
            workload(row["case"]), num_kv_heads=1, num_ctas=sms * config["ctas_per_sm"], policy=row["policy"]
        )
        predicted = plan.metrics(cost_model("H200", cache=row["cache"])).call_us
        logs.append(np.log(predicted / row["median_us"]))
        print(f"{row['cache']:5}{row['case']:17}{row['policy']:17}{row['median_us']:8.1f}{predicted:8.1f}")
    errors = np.expm1(np.array(logs))
    print(
        f"{len(errors)} calls: {np.sqrt(np.mean(np.square(logs))):.1%} rms of the logarithm, "
        f"from {errors.min():+.0%} to {errors.max():+.0%}"
    )


if __name__ == "__main__":
    main()
