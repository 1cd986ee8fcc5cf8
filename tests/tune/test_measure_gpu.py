"""The bench of a GPU: checked before timed, inputs of both operators. Without a GPU a made-up timer runs the calls."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.measure.fakes import FakeTimer  # noqa: E402
from workbench.errors import CompileError, NoGpu  # noqa: E402
from workbench.gpu.driver import probe  # noqa: E402
from workbench.measure.providers import Precision  # noqa: E402
from workbench.tune.measure import Effort, try_config  # noqa: E402
from workbench.tune.measure_gpu import AttentionWork, GpuBench, GpuFactory, RouterWork  # noqa: E402
from workbench.tune.spaces import attention_space, router_space  # noqa: E402
from workbench.tune.study_trials import TrialFailed  # noqa: E402
from workbench.tune.workers import Worker  # noqa: E402


@dataclass
class Doubling:
    """Sets of four numbers, doubled; a configuration says how wrong the result is."""

    precision: Precision = field(default_factory=lambda: Precision("exact", 1e-6))

    def __post_init__(self) -> None:
        self.sets = [torch.arange(4.0).reshape(2, 2) + at for at in range(3)]
        self.outs = [torch.empty(2, 2) for _ in self.sets]
        self.expected = [2 * x.double() for x in self.sets[:2]]

    def calls(self, config: Any) -> list[Any]:
        def call(at: int) -> torch.Tensor:
            if config == "raises":
                raise RuntimeError("no such launch")
            if config != "writes nothing":
                self.outs[at].copy_((2.1 if config == "wrong" else 2.0) * self.sets[at])
            return self.outs[at]

        return [lambda at=at: call(at) for at in range(3)]


def bench(**settings):
    def compiles(config):
        if config == "does not compile":
            raise CompileError("kernel.cu", "error")

    return GpuBench(Doubling(), compiles, FakeTimer(), surroundings={"gpu": "NVIDIA H200"}, **settings)


def test_right_results_are_timed_in_turns():
    made = bench()
    assert made.prepare("a") == 0.0
    taken = made.sample(["a", "b"], 4)
    assert [len(us) for us in taken.us] == [4, 4]
    assert taken.us[0][0] < taken.us[1][0]  # FakeTimer: each variant takes 1 us longer than the one before


@pytest.mark.parametrize(
    ("config", "state", "words"),
    [("wrong", "wrong result", "relative error 0.05"), ("writes nothing", "wrong result", "never written")],
)
def test_a_wrong_result_is_not_timed(config, state, words):
    made = bench()
    with pytest.raises(TrialFailed, match=words) as told:
        made.sample([config], 3)
    assert told.value.state == state
    assert "time" not in made.timer.log


def test_other_failures_come_out_as_they_are():
    with pytest.raises(CompileError):
        bench().prepare("does not compile")
    with pytest.raises(RuntimeError, match="no such launch"):
        bench().prepare("raises")
    dead = bench()
    dead.timer.dead = "illegal address"
    with pytest.raises(RuntimeError, match="illegal address"):
        dead.alive()


def test_router_inputs_are_checked_against_the_weight():
    work = RouterWork(router_space(16, 128, 256), seed=3, device="cpu")
    assert len(work.outs) == 24
    assert work.outs[0].shape == work.expected[0].shape == (16, 128)
    x, weight = work._sets[0]
    assert torch.equal(work.expected[0], x.double() @ weight.weight.double().t())
    assert not torch.equal(work._sets[0][1].weight, work._sets[1][1].weight)


def test_attention_inputs_are_those_of_the_case():
    work = AttentionWork(attention_space("3x100 + 1x700"), seed=3, device="cpu")
    assert work.outs[0].shape == work.expected[0].shape == (4, 8, 128)
    assert work.precision.limit == 0.004


def test_factories_travel_to_another_process():
    factory = GpuFactory(attention_space("2x1K").to_dict(), seed=4)
    assert pickle.loads(pickle.dumps(factory)) == factory


@pytest.mark.skipif(not probe().problem, reason="a GPU is here")
def test_without_a_gpu_it_says_so():
    with Worker(GpuFactory(router_space(16, 128, 256).to_dict())) as worker, pytest.raises(NoGpu):
        worker.about()


@pytest.mark.gpu
@pytest.mark.parametrize("space", [attention_space("8x1K"), router_space(16, 192, 4096)], ids=["attention", "router"])
def test_on_a_gpu_the_default_is_right_and_timed(space):
    with Worker(GpuFactory(space.to_dict())) as worker:
        config = space.default()
        trial = try_config(worker, config, config, effort=Effort(first=3, rounds=3))
    assert trial.state == "timed", trial
    assert 0 < trial.rel_error < 0.004
    assert 1 < trial.median_us < 200
    assert trial.relative == pytest.approx(1, abs=0.2)


@pytest.mark.gpu
def test_on_a_gpu_every_kind_of_fault_is_a_trial_and_the_next_one_is_measured():
    from tests.tune.faulty_bench import Act, FaultyFactory

    with Worker(FaultyFactory(), call_s=20) as worker:
        worker.about()  # so that starting is not part of the hung call's time
        states = {}
        for what in (0, 4, 1, 0, 2, 0, 3, 0):
            trial = try_config(worker, Act(what), Act(0), effort=Effort(first=1, rounds=1))
            states.setdefault(what, []).append(trial.state)
    assert states == {
        0: ["timed"] * 4,
        1: ["crashed"],  # an illegal address: the context takes no more work
        2: ["time-out"],
        3: ["crashed"],
        4: ["launch error"],  # the context is whole, and the process stays
    }
    assert worker.starts == 4
