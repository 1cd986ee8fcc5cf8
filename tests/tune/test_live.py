"""The measurement on a GPU, on a CPU with a made-up clock: what is called, how often, on which inputs."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from workbench.errors import InvalidArgument  # noqa: E402
from workbench.measure.timing import Timing  # noqa: E402
from workbench.tune import CrossoverSearch, Settings, steps  # noqa: E402
from workbench.tune.live import MOST_SETS, LiveRouter  # noqa: E402

K, N = 256, 64
CPU = ("cublas-fp32", "cublas-bf16")


def made_up_clock(calls_seen):
    """Runs every call once; bf16 takes 2 us below M = 100 and 9 us above, FP32 always 5."""

    def time(variants, *, replays):
        timings = {}
        for name, calls in variants.items():
            results = [call() for call in calls]
            calls_seen.append((name, len(calls), {r.data_ptr() for r in results}, results[0].shape[0], replays))
            us = 5.0 if name == "cublas-fp32" else (2.0 if results[0].shape[0] < 100 else 9.0)
            timings[name] = Timing(tuple(us + 0.001 * i for i in range(replays)), len(calls))
        return timings

    return time


def test_a_search_runs_on_it():
    seen = []
    live = LiveRouter(K, N, CPU, device="cpu", time=made_up_clock(seen))
    search = CrossoverSearch(live.classes(), precision="bf16", settings=Settings(grid=(16, 64, 512), rounds=7))
    for _ in steps(search, live.measure):
        pass
    assert next((i.winner, i.low) for i in search.intervals() if i.winner) == ("cublas-bf16", 16)
    (crossing,) = search.crossings()
    assert crossing.low < 100 <= crossing.high
    assert {name for name, *_ in seen} == set(CPU)
    assert all(count == MOST_SETS == len(outputs) for _, count, outputs, _, _ in seen)  # small inputs: all sets differ
    assert {replays for *_, replays in seen} == {7}


def test_classes_come_from_errors_and_design():
    live = LiveRouter(K, N, (*CPU, "cublas-tf32"), device="cpu", time=made_up_clock([]))
    # On a CPU torch computes FP32 where TF32 is asked for; the class by design stays.
    assert live.classes() == {"cublas-fp32": "fp32", "cublas-bf16": "bf16", "cublas-tf32": "tf32"}


def test_a_wrong_provider_is_refused(monkeypatch):
    import workbench.tune.live as module

    right = module.router_gemm
    monkeypatch.setattr(module, "router_gemm", lambda *a, **k: right(*a, **k).mul_(1.5))
    with pytest.raises(InvalidArgument, match=r"cublas-fp32 errs by 5\.0e-01"):
        LiveRouter(K, N, ("cublas-fp32",), device="cpu").classes()


def test_providers_that_cannot_be_measured_are_refused():
    with pytest.raises(InvalidArgument, match="hpc, nobody cannot be measured here"):
        LiveRouter(K, N, ("cublas-fp32", "hpc", "nobody"), device="cpu")


@pytest.mark.gpu
def test_a_short_search_on_the_gpu():
    """Errors put every provider into its class, and a search over few M ends with a winner at M = 1."""
    from workbench.tune.live import default_providers

    live = LiveRouter(4096, 192, default_providers())
    classes = live.classes()
    assert [classes[name] for name in live.providers] == ["split", "fp32", "fp32", "tf32", "bf16"]
    search = CrossoverSearch(classes, precision="tf32", settings=Settings(grid=(1, 64, 1024), most_points=5))
    for _ in steps(search, live.measure):
        pass
    assert 3 <= len(search.points) <= 5
    assert all(1 < time < 1000 for verdict in search.verdicts() for time in verdict.medians_us.values())
    assert search.verdicts()[0].leader in classes
