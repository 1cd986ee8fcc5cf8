"""Captures to test with, invented: the model's times with noise, made into records by the classes that captures use."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.widgets.invented import invented
from workbench import devices
from workbench.capture.results import METHOD, REDUCED_METHOD
from workbench.measure.attention_case import AttentionCase
from workbench.measure.busy import ActiveTime, compare_busy
from workbench.records import Attachment, Environment, NsightRecord, Store, TimelineRecord, TimingRecord, Workload
from workbench.records.documents import KernelLaunch
from workbench.records.methods import PROFILED_STAMPS
from workbench.schedule import cost_model, plan_decode
from workbench.workloads import parse_lengths

H200, H100 = "NVIDIA H200", "NVIDIA H100 80GB HBM3"
DAY = datetime.date(2026, 11, 29)
CLOCK_HZ = 1.755e9
REPORT = b"NVR\0 an invented report"

OVERVIEW_UNITS = {
    "gpu__time_duration.sum": "ns",
    "dram__bytes_read.sum": "byte",
    "dram__bytes_write.sum": "byte",
    "dram__bytes_read.sum.per_second": "byte/second",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "%",
    "lts__t_sector_hit_rate.pct": "%",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "%",
    **{f"sm__cycles_active.{rollup}": "cycle" for rollup in ("min", "avg", "max", "sum")},
    "sm__cycles_elapsed.avg.per_second": "cycle/second",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "%",
    "launch__registers_per_thread": "register/thread",
    "launch__grid_size": "",
}


def environment(gpu: str = H200, date: datetime.date = DAY) -> Environment:
    return Environment(gpu=gpu, date=date, sms=devices.gpu(gpu).sms, driver="580.159.04", cuda="13.0")


def nsight(**changes: Any) -> NsightRecord:
    """A small record with whatever is changed in it."""
    fields: dict[str, Any] = {
        "operator": "attention_decode",
        "provider": "cuda",
        "policy": "balanced",
        "configuration": {"stages": 6, "ctas_per_sm": 1, "tile": 64},
        "environment": environment(),
        "workload": AttentionCase("64x4K", parse_lengths("64x4K")).workload,
        "method": METHOD,
        "metrics": {"gpu__time_duration.sum": 21_000.0, "sm__cycles_active.avg": 80.0, "sm__cycles_active.max": 100.0},
        "units": {"gpu__time_duration.sum": "ns", "sm__cycles_active.avg": "cycle", "sm__cycles_active.max": "cycle"},
        "deviations": {"gpu__time_duration.sum": 100.0},
        "runs": 3,
    }
    return NsightRecord(**{**fields, **changes})


def reduced(**changes: Any) -> TimingRecord:
    """A capture without counters."""
    extra: Any = {"request": "0" * 32, "kernels": [{"name": "attention_decode", "us": 13.0, "launches": 1}]}
    fields: dict[str, Any] = {
        "operator": "attention_decode",
        "provider": "cuda",
        "policy": "balanced",
        "configuration": {"stages": 6, "ctas_per_sm": 1, "tile": 64},
        "environment": environment(),
        "workload": AttentionCase("64x4K", parse_lengths("64x4K")).workload,
        "method": REDUCED_METHOD.format(sets=9, s="s", warm=""),
        "samples_us": (16.0, 16.25, 16.5),
        "median_us": 16.25,
        "low_us": 16.0,
        "high_us": 16.5,
    }
    return TimingRecord(**{**fields, **extra, **changes})


def observed(
    case: AttentionCase, policy: str, configuration: Mapping[str, Any], gpu: str, *, seed: int, runs: int = 3
) -> tuple[NsightRecord, TimelineRecord, bytes]:
    """Counters and timeline of one configuration as a GPU might give them."""
    random = np.random.default_rng(seed)
    known = devices.gpu(gpu)
    cost = cost_model(known, cache=case.cache)
    plan = plan_decode(
        case.lengths, num_kv_heads=1, num_ctas=known.sms * configuration["ctas_per_sm"], policy=policy, cost=cost
    )
    timeline = invented(plan, cost, seed=seed)
    busy = np.zeros(known.sms)
    table = timeline.by_sm()
    busy[table.index.to_numpy()] = table["busy_ns"].to_numpy()
    counted = busy + 620 + 15 * random.standard_normal(known.sms)
    slower = 1 + 0.03 * abs(6 - configuration["stages"])
    cycles = counted / 1e9 * CLOCK_HZ * slower
    duration = (timeline.makespan_ns * 1.08 + 2400) * slower
    metrics = {
        "gpu__time_duration.sum": duration,
        "dram__bytes_read.sum": case.kv_bytes * 1.012,
        "dram__bytes_write.sum": 380_000.0,
        "dram__bytes_read.sum.per_second": case.kv_bytes * 1.012 / duration * 1e9,
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 100
        * case.kv_bytes / duration * 1e9 / known.memory_bandwidth,
        "lts__t_sector_hit_rate.pct": 11.5,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": 24.0,
        "sm__cycles_active.min": float(cycles.min()),
        "sm__cycles_active.avg": float(cycles.mean()),
        "sm__cycles_active.max": float(cycles.max()),
        "sm__cycles_active.sum": float(cycles.sum()),
        "sm__cycles_elapsed.avg.per_second": CLOCK_HZ,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 12.5 * configuration["ctas_per_sm"],
        "launch__registers_per_thread": 168.0,
        "launch__grid_size": float(plan.num_ctas),
        "launch__waves_per_multiprocessor": 1.0,
        "launch__occupancy_limit_registers": 1.0,
        "launch__occupancy_limit_shared_mem": float(configuration["ctas_per_sm"]),
    }  # fmt: skip
    active = ActiveTime(float(counted.min()), float(counted.mean()), float(counted.max()))
    common: dict[str, Any] = {
        "operator": "attention_decode",
        "provider": "cuda",
        "policy": policy,
        "configuration": dict(configuration),
        "environment": environment(gpu),
        "workload": case.workload,
        "source_digest": "ab" * 32,
    }
    record = NsightRecord(
        **common,
        method=METHOD,
        metrics=metrics,
        units={name: unit for name, unit in OVERVIEW_UNITS.items() if unit},
        deviations={} if runs == 1 else {
            name: abs(value) * 0.006 for name, value in metrics.items() if not name.startswith("launch__")
        },
        runs=runs,
        kernels=(KernelLaunch(name="attention_decode", grid=(plan.num_ctas, 1, 1), block=(256, 1, 1)),),
        profiler="ncu 2025.3.1.0, nsight-python 0.9.6",
        request=f"{seed:032x}",
        agreement=compare_busy(timeline, active, sms=known.sms).to_dict(),
        attachment=Attachment.of(REPORT, ".ncu-rep"),
    )  # fmt: skip
    content = timeline.to_npz()
    stamped = TimelineRecord(
        **common, method=PROFILED_STAMPS, attachment=Attachment.of(content, ".npz"), makespan_us=timeline.makespan_us
    )
    return record, stamped, content


def fill(store: Store, *, gpus: Sequence[str] = (H200, H100), stages: Sequence[int] = (4, 6, 8)) -> None:
    """Two cases, three policies, some configurations on each GPU, one reduced record, and ceilings of the H200."""
    seed = 0
    for gpu in gpus:
        for name in ("2x32K+30x4K", "64x4K"):
            case = AttentionCase(name, parse_lengths(name))
            for policy in ("balanced", "hpc-ops", "fixed_splits(8)"):
                for stage in stages:
                    seed += 1
                    configuration = {"stages": stage, "ctas_per_sm": 1, "tile": 64, "warps": 8, "pdl": True}
                    record, stamped, content = observed(
                        case, policy, configuration, gpu, seed=seed, runs=1 if policy == "fixed_splits(8)" else 3
                    )
                    store.add(record, REPORT)
                    store.add(stamped, content)
    store.add(reduced())
    for name, us in (("2x32K+30x4K", 12.8), ("1x128K+31x4K", 16.8)):
        store.add(ceiling(name, us))


def ceiling(name: str, us: float, gpu: str = H200) -> TimingRecord:
    """The kernel that only reads."""
    work = AttentionCase(name, parse_lengths(name)).workload
    return TimingRecord(
        operator="attention_decode", provider="read", environment=environment(gpu), workload=work, configuration={},
        samples_us=(us,), median_us=us, low_us=us, high_us=us,
    )  # fmt: skip


def workload(name: str) -> Workload:
    """A decode batch by its expression."""
    return AttentionCase(name, parse_lengths(name)).workload
