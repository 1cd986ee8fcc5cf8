"""The bench on a GPU: inputs of one workload, made once, and configurations of our kernel on them. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from workbench.errors import InvalidArgument
from workbench.gpu import driver
from workbench.measure.attention import CHECKED_SETS, inputs_of
from workbench.measure.attention_providers import OURS, Mapped
from workbench.measure.clocks import ClockLog, ClocksUnreadable, Reader
from workbench.measure.compare import errors_of
from workbench.measure.environment import clocks_here, environment_here
from workbench.measure.figures import known_gpu
from workbench.measure.providers import Precision
from workbench.measure.timing import GraphTimer, Replay, Timer
from workbench.ops.attention_decode import AttentionConfig, TaskMap, attention_decode, attention_reference
from workbench.ops.router_gemm import RouterConfig, RouterWeight, router_gemm, router_reference, split_router_weight
from workbench.schedule import cost_model, resolve
from workbench.tune.measure import Samples
from workbench.tune.space_attention import AttentionSpace
from workbench.tune.space_router import RouterSpace
from workbench.tune.spaces import space_from
from workbench.tune.study_trials import TrialFailed

ROUTER_SETS_BYTES = 150_000_000
"""Bytes of all operands of a product's input sets together: more than twice the L2 cache of an H200."""

MOST_ROUTER_SETS = 24
ROUTER_PRECISION = {
    2: Precision("two bf16 products, FP32 sums", 6e-6),
    3: Precision("three bf16 products, FP32 sums", 4e-7),
}

Call = Callable[[], torch.Tensor]


class Work(Protocol):
    """Inputs of one workload; every configuration writes the same outputs, one an input set."""

    @property
    def precision(self) -> Precision:
        """What counts as right."""
        ...

    @property
    def outs(self) -> Sequence[torch.Tensor]:
        """One an input set."""
        ...

    @property
    def expected(self) -> Sequence[torch.Tensor]:
        """Results of the first sets in float64."""
        ...

    def calls(self, config: Any) -> list[Call]:
        """One an input set."""
        ...


class AttentionWork:
    """Decode attention on one batch; maps are shared by configurations that map alike.

    Parameters
    ----------
    space : AttentionSpace
    seed : int
        Of the first input set.
    device : str
        torch's device.
    """

    def __init__(self, space: AttentionSpace, seed: int, device: str) -> None:
        case = space.case
        self.precision = OURS[case.cache]
        self._case = case
        self._sets = list(inputs_of(case, seed, device))
        self.outs = [torch.empty(inputs.q.shape, dtype=torch.bfloat16, device=device) for inputs in self._sets]
        self.expected = [
            attention_reference(*inputs.arguments(), **inputs.keywords())[0] for inputs in self._sets[:CHECKED_SETS]
        ]
        known = known_gpu(torch.cuda.get_device_name()) if device.startswith("cuda") else None
        cost = cost_model(known, cache=case.cache, group=case.group, head_dim=case.head_dim) if known else None
        self._policy = resolve(space.policy, cost)
        self._maps: dict[tuple[int, int], list[TaskMap]] = {}

    def calls(self, config: AttentionConfig) -> list[Call]:
        """One an input set."""

        def call(at: int, task_map: TaskMap) -> torch.Tensor:
            inputs, out = self._sets[at], self.outs[at]
            attention_decode(*inputs.arguments(), **inputs.keywords(), task_map=task_map, out=out, config=config)
            return out

        maps = self._mapped(config.ctas_per_sm, config.tile)
        return [lambda at=at, own=own: call(at, own) for at, own in enumerate(maps)]  # type: ignore[misc]

    def _mapped(self, ctas_per_sm: int, tile: int) -> list[TaskMap]:
        if (ctas_per_sm, tile) not in self._maps:
            mapped = Mapped(self._case, self._policy, ctas_per_sm, tile)
            self._maps[ctas_per_sm, tile] = [mapped.map(inputs) for inputs in self._sets]
        return self._maps[ctas_per_sm, tile]


class RouterWork:
    """The router product on random operands, a weight of its own for each input set; parameters as `AttentionWork`."""

    def __init__(self, space: RouterSpace, seed: int, device: str) -> None:
        product = space.product
        self.precision = ROUTER_PRECISION[product.terms]
        random = torch.Generator(device=device).manual_seed(seed)
        number = max(2, min(MOST_ROUTER_SETS, -(-ROUTER_SETS_BYTES // product.operand_bytes)))
        self._sets: list[tuple[torch.Tensor, RouterWeight]] = []
        for _ in range(number):
            weight = torch.randn((product.n, product.k), device=device, generator=random) / 16
            x = torch.randn((product.m, product.k), device=device, generator=random).bfloat16()
            self._sets.append((x, split_router_weight(weight, terms=product.terms)))
        self.outs = [torch.empty((product.m, product.n), device=device) for _ in range(number)]
        self.expected = [router_reference(x, weight.weight) for x, weight in self._sets[:CHECKED_SETS]]

    def calls(self, config: RouterConfig) -> list[Call]:
        """One an input set."""

        def call(at: int) -> torch.Tensor:
            x, weight = self._sets[at]
            return router_gemm(x, weight, provider="cuda", config=config, out=self.outs[at])

        return [lambda at=at: call(at) for at in range(len(self._sets))]  # type: ignore[misc]


@dataclass
class GpuBench:
    """See `workbench.tune.measure.Bench`.

    Attributes
    ----------
    work : Work
    compile : callable
        Compiles a configuration, before it is launched.
    timer : Timer
    read_clocks : callable, optional
    surroundings : dict
        What `about` says.
    """

    work: Work
    compile: Callable[[Any], object]
    timer: Timer
    read_clocks: Reader | None = None
    surroundings: Mapping[str, Any] = field(default_factory=dict)
    _ready: dict[Any, tuple[Replay, float]] = field(default_factory=dict)

    def about(self) -> dict[str, Any]:
        """Surroundings, as `workbench.records.Environment` takes them."""
        return dict(self.surroundings)

    def prepare(self, config: Any) -> float:
        """Compile, capture, replay onto outputs filled with NaN, compare."""
        if config not in self._ready:
            self.compile(config)
            replay = self.timer.capture(self.work.calls(config))
            self.timer.finish()
            self._ready[config] = replay, self._checked(replay)
        return self._ready[config][1]

    def sample(self, configs: Sequence[Any], rounds: int) -> Samples:
        """Replays of the captured calls, taking turns."""
        for config in configs:
            self.prepare(config)
        log = ClockLog(self.read_clocks)
        replays = {str(at): self._ready[config][0] for at, config in enumerate(configs)}
        timings = self.timer.time(replays, rounds, lambda: log.take("during"))
        return Samples(tuple(timings[name].samples_us for name in replays), log.throttled)

    def alive(self) -> None:
        """Wait for the GPU."""
        self.timer.finish()

    def _checked(self, replay: Replay) -> float:
        for out in self.work.outs:
            out.fill_(torch.nan)
        replay.replay()
        self.timer.finish()
        if any(bool(out.isnan().any()) for out in self.work.outs):
            raise TrialFailed("wrong result", "not a number, or never written")
        worst = 0.0
        for out, expected in zip(self.work.outs, self.work.expected, strict=False):
            errors = errors_of(out, expected)
            if complaint := errors.complaint(self.work.precision):
                raise TrialFailed("wrong result", complaint)
            worst = max(worst, errors.relative)
        return float(f"{worst:.4g}")


@dataclass(frozen=True)
class GpuFactory:
    """Makes the bench of a space in the process that is to own the GPU; picklable.

    Attributes
    ----------
    space : dict
        :meth:`workbench.tune.space.Space.to_dict`.
    seed : int
        Of the inputs.
    device : int
        CUDA ordinal.
    """

    space: dict[str, Any]
    seed: int = 0
    device: int = 0

    def __call__(self) -> GpuBench:
        """Make the inputs.

        Raises
        ------
        NoGpu
            Without a GPU.
        InvalidArgument
            For a batch without any token.
        """
        driver.require_gpu()
        torch.cuda.set_device(self.device)
        space = space_from(self.space)
        work: Work
        if isinstance(space, AttentionSpace):
            if not space.case.lengths.any():
                raise InvalidArgument(f"case {space.case.name} has no token to attend to. Give a length above 0.")
            work = AttentionWork(space, self.seed, "cuda")
        else:
            assert isinstance(space, RouterSpace)
            work = RouterWork(space, self.seed, "cuda")
        try:
            read_clocks: Reader | None = clocks_here()
        except ClocksUnreadable:
            read_clocks = None
        surroundings = environment_here().model_dump(mode="json", exclude_none=True)
        return GpuBench(work, lambda config: space.job(config).compile(), GraphTimer(), read_clocks, surroundings)
