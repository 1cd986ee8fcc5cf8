"""Measure on the GPU at hand beside a notebook that goes on working.

Only `Live._step` touches the search, and it runs on the kernel's event loop, between messages; the GPU is driven from
one thread of its own. So no lock is needed: between two steps everything can be read, changed and stopped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from workbench.errors import InvalidArgument, NoGpu
from workbench.records import Environment
from workbench.tune import CrossoverSearch, Proposal, Settings
from workbench.tune.run import checked
from workbench.widgets.crossover.figures import Figures, measured_figures

PROVIDERS = ("cuda", "cuda-3terms", "cublas-fp32", "cublas-tf32", "cublas-bf16")
"""What is measured unless the reader says otherwise."""

QUIET_SHARE = 10
"""The screen is made anew when so many times the last making have passed, so that it takes little of the kernel."""

Result = TypeVar("Result")


class Meter(Protocol):
    """What measures; `workbench.tune.live.LiveRouter` is one."""

    k: int
    n: int

    def classes(self) -> Mapping[str, str]:
        """Precision class of each provider."""

    def measure(self, providers: Sequence[str], m: int, rounds: int) -> Mapping[str, Sequence[float]]:
        """Samples of each, microseconds a call, rounds interleaved."""


class Live:
    """A measurement that can be started, stopped and gone on with.

    Parameters
    ----------
    providers
        Whom to measure.
    settings
        How the search decides and when it stops.
    meter
        Makes the meter of a shape: ``meter(k, n, providers)``; None: the GPU at hand.
    environment
        Says what the figures hold for; None: asks the GPU.

    Attributes
    ----------
    status : str
        "idle", "running", "stopping", "stopped", "finished" or "failed".
    problem : str
        Why it failed.
    last : Proposal or None
        What was measured last.
    """

    def __init__(
        self,
        providers: Sequence[str] = PROVIDERS,
        settings: Settings | None = None,
        meter: Callable[[int, int, Sequence[str]], Meter] | None = None,
        environment: Callable[[], Environment] | None = None,
    ) -> None:
        self.providers, self.settings = tuple(providers), settings or Settings()
        self._make, self._environment = meter or _gpu_meter, environment or _gpu_environment
        self.own = meter is not None
        self._searches: dict[tuple[int, int], tuple[Meter, CrossoverSearch, Environment]] = {}
        self.status, self.problem = "idle", ""
        self.last: Proposal | None = None
        self.shape: tuple[int, int] | None = None
        self.on_change: Callable[[bool], None] = lambda fresh: None
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="crossover")
        self._next_screen = 0.0

    @property
    def unavailable(self) -> str:
        """Why nothing can be measured here; empty where it can."""
        if self.own:
            return ""
        from workbench.gpu import driver

        return driver.probe().problem or ""

    @property
    def running(self) -> bool:
        """Whether a step may still come."""
        return self.status in ("running", "stopping")

    def check(self, k: int, n: int) -> None:
        """Refuse a shape that cannot be measured now.

        Raises
        ------
        NoGpu
            There is no GPU.
        InvalidArgument
            Another shape is being measured.
        """
        if (k, n) not in self._searches and self.unavailable:
            raise NoGpu(f"{self.unavailable} Use figures='recorded': what was measured elsewhere.")

    def figures(self, k: int, n: int) -> Figures | None:
        """What was measured of a shape, or None."""
        found = self._searches.get((k, n))
        return measured_figures(found[1], found[2]) if found else None

    def progress(self, k: int, n: int) -> tuple[int, int]:
        """Points measured and an estimate of how many there will be; (0, 0) before the first step."""
        found = self._searches.get((k, n))
        return found[1].progress() if found else (0, 0)

    def start(self, k: int, n: int, precision: str) -> asyncio.Task[None]:
        """Measure a shape, or go on with it, until it is finished, stopped or fails.

        Raises
        ------
        NoGpu
            There is no GPU.
        InvalidArgument
            A measurement runs already, or there is no event loop to run it beside.
        """
        self.check(k, n)
        if self.running:
            raise InvalidArgument(
                f"K {self.shape[0]}, N {self.shape[1]} is being measured; cancel that first"
                if self.shape
                else "a measurement runs already"
            )
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise InvalidArgument(
                "there is no event loop here, so nothing can run in the background; in a script use `workbench "
                "crossover` or `workbench.tune.steps`"
            ) from None
        self.shape, self.status, self.problem = (k, n), "running", ""
        self._task = loop.create_task(self._run(k, n, precision))
        return self._task

    def cancel(self) -> None:
        """Stop after the step that is being measured; what was measured stays."""
        if self.status == "running":
            self.status = "stopping"
            self.on_change(False)

    async def finished(self) -> None:
        """Wait until the measurement has ended; at once where none runs."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _run(self, k: int, n: int, precision: str) -> None:
        try:
            if (k, n) not in self._searches:
                meter = await self._in_thread(lambda: self._make(k, n, self.providers))
                classes = await self._in_thread(meter.classes)
                environment = await self._in_thread(self._environment)
                self._searches[k, n] = (meter, CrossoverSearch(classes, settings=self.settings), environment)
            meter, search, _ = self._searches[k, n]
            search.precision = precision
            while self.status == "running" and (proposal := search.next()) is not None:
                await self._step(meter, search, proposal)
            self.status = "finished" if search.next() is None else "stopped"
        except asyncio.CancelledError:
            self.status = "stopped"
            raise
        except (
            Exception
        ) as error:  # whatever a kernel, a driver or a meter raises is told on screen, not lost in a task
            self.status, self.problem = "failed", f"{type(error).__name__}: {error}"
        finally:
            self.on_change(True)

    async def _step(self, meter: Meter, search: CrossoverSearch, proposal: Proposal) -> None:
        # Everybody, also whom the precision in force does not allow: it can be changed without measuring again.
        everybody = tuple(search.providers)
        samples = await self._in_thread(lambda: meter.measure(everybody, proposal.m, proposal.rounds))
        search.add(proposal.m, checked(samples, everybody, proposal.m))
        self.last = proposal
        started = time.monotonic()
        fresh = started >= self._next_screen
        self.on_change(fresh)
        if fresh:
            ended = time.monotonic()
            self._next_screen = ended + QUIET_SHARE * (ended - started)

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _gpu_meter(k: int, n: int, providers: Sequence[str]) -> Meter:
    import workbench.ops  # noqa: F401  (says how to get torch where it is missing)
    from workbench.tune.live import LiveRouter

    return LiveRouter(k, n, providers)


def _gpu_environment() -> Environment:
    from workbench.measure.environment import environment_here

    return environment_here()
