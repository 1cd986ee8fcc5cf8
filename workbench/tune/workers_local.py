"""Trials on one GPU of this machine, in a process of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from workbench.tune.measure import Bench, Effort, Samples, take_turns, try_config
from workbench.tune.study_trials import Trial
from workbench.tune.workers import CALL_S, Worker


class LocalPool:
    """One worker process; see `workbench.tune.study.Pool`.

    Parameters
    ----------
    factory
        Makes the bench in the process, such as `workbench.tune.measure_gpu.GpuFactory`; picklable.
    call_s
        Seconds that one configuration may take to compile and run.
    """

    slots = 1

    def __init__(self, factory: Callable[[], Bench], *, call_s: float = CALL_S) -> None:
        self.worker = Worker(factory, call_s=call_s)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tune")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def about(self) -> dict[str, Any]:
        """Surroundings of the bench; starts the process.

        Raises
        ------
        WorkbenchError
            The bench cannot be made here, for example without a GPU.
        """
        return self._thread.submit(self.worker.about).result()

    def become(self, factory: Callable[[], Bench]) -> None:
        """Measure something else in the same process.

        Raises
        ------
        WorkbenchError
            The bench cannot be made.
        """
        self._thread.submit(self.worker.become, factory).result()

    def try_config(self, config: Any, default: Any, best: float, effort: Effort) -> Future[Trial]:
        """Try one configuration."""
        return self._thread.submit(try_config, self.worker, config, default, best=best, effort=effort)

    def take_turns(self, configs: Sequence[Any], rounds: int) -> Future[Samples]:
        """Sample several in turns."""
        return self._thread.submit(take_turns, self.worker, configs, rounds)

    def close(self) -> None:
        """End the process, whatever it does."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self.worker.close()
        self._thread.shutdown()
