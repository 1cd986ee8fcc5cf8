"""A study beside the notebook: started, paused, gone on with and cancelled.

One thread does all that waits; what it finds reaches the kernel's event loop as calls, so everything that a screen
shows is changed between two messages and by nobody else. The GPU belongs to a process of its own (`LocalPool`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import InvalidArgument, NoGpu, WorkbenchError
from workbench.records import Store
from workbench.tune.measure import Bench, Effort, Samples
from workbench.tune.space import Space
from workbench.tune.study import Pool, Progress, Result, Study
from workbench.tune.study_files import default_journal
from workbench.tune.study_records import records_of
from workbench.tune.study_trials import Trial
from workbench.tune.workers_local import LocalPool

BenchOf = Callable[[Space], Callable[[], Bench]]
"""From a space to what makes its bench in another process, picklable: `workbench.tune.measure_gpu.GpuFactory`."""


@dataclass(frozen=True)
class Plan:
    """What a study is to do.

    Attributes
    ----------
    space : Space
    configs : sequence
        To be tried.
    method : str
    journal : Path or None
        None: where the studies of one's own lie.
    store : Store or None
        Where records of what was timed are added; None: nowhere.
    effort : Effort
    """

    space: Space
    configs: Sequence[Any]
    method: str = "grid"
    journal: Path | None = None
    store: Store | None = None
    effort: Effort = field(default_factory=Effort)


class StudyRun:
    """The study of one workload.

    Attributes
    ----------
    status : str
        "idle", "starting", "running", "finals", "pausing", "paused", "cancelling", "cancelled", "finished" or "failed".
    plan : Plan or None
    journal : Path or None
    gpu : str
    trials : dict of str to Trial
        Finished ones, those of earlier runs too.
    result : Result or None
    done, total : int
    eta_s : float
        Seconds to go, finals not counted.
    last : Trial or None
    problem : str
        Why it failed.
    """

    def __init__(self, bench: BenchOf | None = None) -> None:
        self._bench, self.own = bench or _gpu_bench, bench is not None
        self.status, self.problem = "idle", ""
        self.plan: Plan | None = None
        self.journal: Path | None = None
        self.gpu = ""
        self.trials: dict[str, Trial] = {}
        self.result: Result | None = None
        self.done = self.total = 0
        self.eta_s = 0.0
        self.last: Trial | None = None
        self.on_change: Callable[[], None] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._future: asyncio.Future[None] | None = None
        self._stop, self._go, self._cancel = threading.Event(), threading.Event(), threading.Event()

    @property
    def unavailable(self) -> str:
        """Why nothing can be measured here; empty where it can."""
        if self.own:
            return ""
        from workbench.gpu import driver

        return driver.probe().problem or ""

    @property
    def running(self) -> bool:
        """Whether it holds the GPU; a paused one does."""
        return self.status in ("starting", "running", "finals", "pausing", "paused", "cancelling")

    def start(self, plan: Plan) -> None:
        """Begin, or go on with what the journal of the workload has.

        Raises
        ------
        NoGpu
            There is no GPU.
        InvalidArgument
            A study runs already, or there is no event loop to run it beside.
        """
        if self.unavailable:
            raise NoGpu(f"{self.unavailable} A study needs one; resources, modelled and recorded times do not.")
        if self.running:
            raise InvalidArgument(f"the study of {self.plan.space.workload.case} runs already; cancel it first.")  # type: ignore[union-attr]
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise InvalidArgument(
                "there is no event loop here, so nothing can run in the background; in a script use "
                "`workbench tune run` or `workbench.tune.study.Study`."
            ) from None
        for event in (self._stop, self._go, self._cancel):
            event.clear()
        self.plan, self.status, self.problem = plan, "starting", ""
        self.trials, self.result, self.last, self.gpu = {}, None, None, ""
        self.done, self.total, self.eta_s = 0, len(plan.configs), 0.0
        self._future = self._loop.create_future()
        threading.Thread(target=self._work, args=(plan,), name="study", daemon=True).start()
        self.on_change()

    def pause(self) -> None:
        """Stop after the trial in flight and keep the GPU; `resume` goes on."""
        if self.status in ("running", "finals"):
            self._go.clear()
            self._stop.set()
            self._become("pausing")

    def resume(self) -> None:
        """Go on after `pause`."""
        if self.status in ("paused", "pausing"):
            self._stop.clear()
            self._go.set()
            self._become("running")

    def cancel(self) -> None:
        """Stop after the trial in flight and let the GPU go; the journal keeps what was finished."""
        if self.running:
            self._cancel.set()
            self._stop.set()
            self._go.set()
            self._become("cancelling")

    async def finished(self) -> None:
        """Wait until it has ended, however; at once where none was started."""
        if self._future is not None:
            await asyncio.shield(self._future)

    # What follows, down to _work's end, runs in the study's thread; it changes nothing here but through _tell.

    def _work(self, plan: Plan) -> None:
        try:
            with LocalPool(self._bench(plan.space)) as pool:
                about = pool.about()
                gpu = str(about["gpu"])
                journal = plan.journal or default_journal(plan.space, gpu)
                with Study(
                    plan.space, journal, gpu=gpu, method=plan.method, configs=plan.configs, effort=plan.effort
                ) as study:
                    found = dict(study.trials)
                    self._tell(lambda: self._begun(journal, gpu, found, len(study.search.configs)))
                    result = self._to_its_end(study, _Stoppable(pool, self._stop))
                    if result is not None and plan.store is not None:
                        for record in records_of(study, about, result, seed=0):
                            plan.store.add(record)
            state = "cancelled" if result is None else "finished"
            self._tell(lambda: self._ended(state, result, ""))
        except Exception as error:  # a driver's, a disk's or a bench's: told on screen, not lost in a thread
            words = str(error) if isinstance(error, WorkbenchError) else f"{type(error).__name__}: {error}"
            self._tell(lambda: self._ended("failed", None, words))

    def _to_its_end(self, study: Study, pool: _Stoppable) -> Result | None:
        """Trials and finals, with pauses; None where it was cancelled."""
        while True:
            try:
                study.run(pool, progress=lambda at: self._tell(lambda: self._moved(at)), stop=self._stop)
                # Not asked of `stop`: it may have been taken back since.
                if len(study.trials) >= len(study.search.configs):
                    self._tell(lambda: self._become("finals"))
                    return study.finals(pool)
            except _Stopped:
                pass  # between two rounds of the finals; those that are finished are in the journal
            if not self._cancel.is_set():
                self._tell(lambda: self._become("paused") if self.status == "pausing" else None)
                self._go.wait()
            if self._cancel.is_set():
                return None

    def _tell(self, change: Callable[[], object]) -> None:
        assert self._loop is not None  # set before the thread begins
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(change)

    # The rest runs on the event loop.

    def _become(self, status: str) -> None:
        if status == "finals" and self.status != "running":
            return  # paused or cancelled meanwhile
        self.status = status
        self.on_change()

    def _begun(self, journal: Path, gpu: str, trials: dict[str, Trial], total: int) -> None:
        self.journal, self.gpu, self.trials = journal, gpu, trials
        self.done, self.total = len(trials), total
        if self.status == "starting":
            self.status = "running"
        self.on_change()

    def _moved(self, at: Progress) -> None:
        self.trials[at.trial.key] = self.last = at.trial
        self.done, self.total, self.eta_s = at.done, at.total, at.eta_s
        self.on_change()

    def _ended(self, status: str, result: Result | None, problem: str) -> None:
        self.status, self.result, self.problem = status, result, problem
        if self._future is not None and not self._future.done():
            self._future.set_result(None)
        self.on_change()


class _Stopped(Exception):
    """The finals were stopped between two rounds."""


class _Stoppable:
    """A pool that begins no round of the finals after `stop`."""

    def __init__(self, pool: Pool, stop: threading.Event) -> None:
        self._pool, self._stop = pool, stop

    @property
    def slots(self) -> int:
        return self._pool.slots

    def try_config(self, config: Any, default: Any, best: float, effort: Effort) -> Future[Trial]:
        return self._pool.try_config(config, default, best, effort)

    def take_turns(self, configs: Sequence[Any], rounds: int) -> Future[Samples]:
        if self._stop.is_set():
            raise _Stopped
        return self._pool.take_turns(configs, rounds)


def _gpu_bench(space: Space) -> Callable[[], Bench]:
    import workbench.ops  # noqa: F401  (says how to get torch where it is missing)
    from workbench.tune.measure_gpu import GpuFactory

    return GpuFactory(space.to_dict())
