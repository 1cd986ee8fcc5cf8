"""How much faster two GPUs of one machine finish a study than one.

    python benchmarks/tuning_gpus.py OUT [--gpus 0,1]

The same study of decode attention runs on a Dask cluster of one GPU and of all; kernels are compiled before, processes
are up before, so what is timed is trials. Writes OUT/gpus.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from workbench.gpu import driver
from workbench.gpu.ahead import compile_ahead
from workbench.tune.cluster import Cluster
from workbench.tune.measure_gpu import GpuFactory
from workbench.tune.spaces import attention_space
from workbench.tune.study import Study

CASE = "2x32K + 30x4K"


def run(gpus: tuple[int, ...], journal: Path) -> dict[str, Any]:
    """One study on these GPUs."""
    space = attention_space(CASE)
    factory = GpuFactory(space.to_dict())
    with Cluster(gpus=gpus) as cluster:
        (where,) = cluster.models(factory)  # every worker makes its inputs
        pool = cluster.pool(factory, where)
        with Study(space, journal, gpu=where.gpu) as study:
            study.run(pool, most=1 + len(gpus))  # the default is prepared on each
            before, started = len(study.trials), time.perf_counter()
            study.run(pool)
            seconds = time.perf_counter() - started
            trials = len(study.trials) - before
            failed = len(study.failed)
    row = {"gpus": len(gpus), "trials": trials, "failed": failed, "seconds": round(seconds, 2)}
    row["trials_per_s"] = round(trials / seconds, 2)
    print(row, flush=True)
    return row


def main() -> None:
    """Compile, run on one, run on all, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--gpus", type=lambda text: tuple(map(int, text.split(","))), default=(0, 1))
    arguments = parser.parse_args()
    driver.device(max(arguments.gpus))  # says so where there are fewer
    arguments.out.mkdir(parents=True, exist_ok=True)
    space = attention_space(CASE)
    compile_ahead([space.job(config) for config in space])
    rows = [run((0,), arguments.out / "one.journal"), run(arguments.gpus, arguments.out / "all.journal")]
    ratio = rows[1]["trials_per_s"] / rows[0]["trials_per_s"]
    print(f"{rows[1]['gpus']} GPUs do {ratio:.2f} times as many trials a second as one")
    document = {"case": CASE, "rows": rows, "ratio": round(ratio, 3)}
    (arguments.out / "gpus.json").write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
