"""The busy time of SMs by Nsight Compute's counters beside the stamps of the same launches.

    python benchmarks/busy.py [--policy balanced] [--write FILE.json]

Runs itself under ncu (WORKBENCH_NCU, PATH or CUDA's folders), which must be allowed to read counters. Each case is
launched four times: the plain and the instrumented kernel to warm up, and again to be compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench import settings
from workbench.errors import ProfilerUnavailable
from workbench.gpu import driver
from workbench.measure.attention_case import AttentionCase
from workbench.measure.busy import METRICS, compare_busy, read_counters
from workbench.measure.timeline import Timeline
from workbench.workloads import MIXES, workload

CACHES = ("fp8", "bf16")
LAUNCHES = ("plain, warming up", "stamped, warming up", "plain", "stamped")
LIMIT_S = 240


def cases() -> list[AttentionCase]:
    """The six of both cache types."""
    return [AttentionCase(name, workload(name), cache) for cache in CACHES for name in MIXES]


def launch_all(folder: Path, policy: str) -> None:
    """What runs under ncu: every case, its stamps as ``<number>.npz``."""
    import torch

    from workbench.measure.stamps import COLUMNS
    from workbench.measure.timeline_capture import rows_of, stamped_call
    from workbench.measure.timeline_run import early_config, input_sets, plan_here
    from workbench.ops.attention_decode import upload_plan
    from workbench.schedule import cost_model, resolve

    for number, case in enumerate(cases()):
        # Nothing runs ahead of a profiled launch.
        inputs, config = (
            input_sets(case, 1)[0],
            replace(early_config(case), pdl=False, early_map=False, early_cache=False),
        )
        plan = plan_here(case, resolve(policy, cost_model(cache=case.cache)), config)
        task_map = upload_plan(plan)
        stamps = torch.zeros((task_map.map.shape[0], len(COLUMNS)), dtype=torch.int64, device="cuda")
        calls = [stamped_call(inputs, task_map, config, into) for into in (None, stamps)]
        for call in (*calls, *calls):
            stamps.zero_()
            torch.cuda.synchronize()
            call()
            torch.cuda.synchronize()
        rows = rows_of(plan, task_map.map.cpu().numpy())
        timeline = Timeline.from_stamps(plan, stamps.cpu().numpy()[rows])
        (folder / f"{number}.npz").write_bytes(timeline.to_npz())


def compare_all(policy: str = "balanced") -> Iterable[dict[str, Any]]:
    """Each case's comparison as plain data, printed as it is made.

    Raises
    ------
    ProfilerUnavailable
        There is no ncu, or it fails; the message ends with what it said.
    """
    ncu, sms = settings.ncu(), driver.device().sms
    if ncu is None:
        raise ProfilerUnavailable(
            "There is no ncu on PATH nor in CUDA's folders. It comes with the CUDA toolkit; set WORKBENCH_NCU to it."
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "counters.csv"
        command = [
            str(ncu), "--clock-control", "none", "--kernel-name", "attention_decode", "--metrics", ",".join(METRICS),
            "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log),
            sys.executable, str(Path(__file__).resolve()), "--launch", str(folder), "--policy", policy,
        ]  # fmt: skip
        ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        said = log.read_text() if log.exists() else ""
        if ran.returncode:
            words = (ran.stdout + ran.stderr + said)[-2000:]
            raise ProfilerUnavailable(f"ncu ended with {ran.returncode}: {words}")
        counted = read_counters(said)
        if len(counted) != len(LAUNCHES) * len(cases()):
            raise ProfilerUnavailable(
                f"{len(counted)} launches were profiled, not {len(LAUNCHES)} a case: {said[-2000:]}"
            )
        for number, case in enumerate(cases()):
            plain, stamped = counted[len(LAUNCHES) * number + 2 : len(LAUNCHES) * (number + 1)]
            timeline = Timeline.from_npz((folder / f"{number}.npz").read_bytes())
            compared = compare_busy(timeline, stamped, sms=sms)
            print(f"{case.cache:5}{case.name:17}{compared}; plain kernel's mean {plain.mean_ns / 1e3:.2f}")
            print(f"{'':22}{compared.verdict}", flush=True)
            yield {
                "case": case.name,
                "cache": case.cache,
                "policy": policy,
                **compared.to_dict(),
                "plain": vars(plain),
            }


def main() -> None:
    """Compare, print, and write, after each case what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="balanced")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the comparisons as JSON")
    parser.add_argument("--launch", type=Path, metavar="FOLDER", help="what runs under ncu; keeps the stamps there")
    arguments = parser.parse_args()
    if arguments.launch:
        launch_all(arguments.launch, arguments.policy)
        return
    found = []
    for compared in compare_all(arguments.policy):
        found.append(compared)
        if arguments.write:
            arguments.write.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
