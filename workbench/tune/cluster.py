"""A study on the GPUs of a Dask cluster: one task a GPU at a time, wherever the GPU is.

A worker of the cluster is a process with the resource ``GPU=1``; inside it the measuring process of
`workbench.tune.workers` owns the GPU, so a configuration that faults takes neither the worker nor its other results. A
finished trial is in the journal of the process that runs the study, so what a lost worker had finished stays, and Dask
gives the trial that it had in flight to another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from workbench import settings
from workbench.errors import InvalidArgument, MissingDependency, StudyError
from workbench.tune.measure import Bench, Effort, Samples, take_turns, try_config
from workbench.tune.study_trials import Trial
from workbench.tune.workers import CALL_S, Worker

RESOURCE = "GPU"
_RETRIES = 3
_HERE = "127.0.0.1"
"""Workers on this machine are reached from this machine alone: Dask runs whatever it is sent."""


@dataclass(frozen=True)
class Where:
    """The workers of a cluster that have one model of GPU.

    Attributes
    ----------
    gpu : str
        Name by the driver.
    workers : tuple of str
        Addresses.
    only : bool
        The cluster has no other model, so tasks need not name workers; one that comes back has another address.
    """

    gpu: str
    workers: tuple[str, ...]
    only: bool = True


class Cluster:
    """GPUs that trials can run on, grouped by model.

    Parameters
    ----------
    address
        Of a Dask scheduler whose workers have the resource ``GPU=1`` each (``dask worker ADDRESS --resources GPU=1
        --nthreads 1``, one a GPU with ``CUDA_VISIBLE_DEVICES``); None: workers on this machine, one for each of `gpus`.
    gpus
        CUDA ordinals of this machine.
    wait_s
        Seconds to wait for the scheduler.

    Raises
    ------
    MissingDependency
        ``distributed`` is not installed.
    StudyError
        The scheduler does not answer.
    InvalidArgument
        `gpus` are not numbers of GPUs.
    """

    def __init__(self, address: str | None = None, *, gpus: Sequence[int] = (0,), wait_s: float = 30) -> None:
        try:
            distributed: Any = import_module("distributed")
        except ImportError:
            raise MissingDependency(
                "distributed", needed_for="studies on several GPUs", install="pip install 'distributed>=2025.1'"
            ) from None
        self._local: Any = None
        if address is None and (min(gpus, default=0) < 0 or len(set(gpus)) < len(gpus)):
            raise InvalidArgument(f"gpus={tuple(gpus)}: give different numbers from 0.")
        if address is None:
            self._local = distributed.SpecCluster(
                scheduler={
                    "cls": distributed.Scheduler,
                    # Its HTTP server runs without the dashboard too, on a port of its own choice: the usual one may be
                    # another cluster's.
                    "options": {"dashboard": False, "dashboard_address": f"{_HERE}:0", "host": _HERE, "port": 0},
                },
                workers={
                    f"gpu-{gpu}": {
                        "cls": distributed.Nanny,
                        "options": {
                            "host": _HERE,
                            "nthreads": 1,
                            "resources": {RESOURCE: 1},
                            "env": {"CUDA_VISIBLE_DEVICES": _visible(gpu), "DASK_LOGGING__DISTRIBUTED": "error"},
                            "dashboard": False,
                        },
                    }
                    for gpu in gpus
                },
                silence_logs=40,  # errors only: a worker that was lost is told by its trial
            )
            address = self._local.scheduler_address
        try:
            self._client: Any = distributed.Client(address, set_as_default=False, timeout=wait_s)
        except (OSError, ValueError) as error:  # nobody answers; it is no address
            self.close()
            raise StudyError(
                f"no Dask scheduler answers at {address}: {error}. Start one, or leave the address out."
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; workers on this machine end."""
        client = getattr(self, "_client", None)
        if client is not None:
            client.close()
        if self._local is not None:
            self._local.close()

    def workers(self) -> tuple[str, ...]:
        """Addresses of the workers that have a GPU."""
        known: Mapping[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return tuple(sorted(name for name, about in known.items() if about["resources"].get(RESOURCE)))

    def models(self, factory: Callable[[], Bench], *, call_s: float = CALL_S) -> list[Where]:
        """The models of GPU there are; each worker makes the bench to tell.

        Raises
        ------
        StudyError
            No worker has a GPU.
        WorkbenchError
            A worker cannot make the bench.
        """
        addresses = self.workers()
        if not addresses:
            raise StudyError(
                f"no worker of the cluster has the resource {RESOURCE}; start them with --resources GPU=1."
            )
        asked = {
            address: self._client.submit(
                _about, factory, call_s, workers=[address], pure=False, resources={RESOURCE: 1}
            )
            for address in addresses
        }
        found: dict[str, list[str]] = {}
        for address, future in asked.items():
            found.setdefault(str(future.result()["gpu"]), []).append(address)
        return [Where(gpu, tuple(own), only=len(found) == 1) for gpu, own in sorted(found.items())]

    def pool(self, factory: Callable[[], Bench], where: Where, *, call_s: float = CALL_S) -> ClusterPool:
        """Trials on the GPUs of one model."""
        return ClusterPool(self._client, factory, where, call_s)


class ClusterPool:
    """See `workbench.tune.study.Pool`; made by :meth:`Cluster.pool`."""

    def __init__(self, client: Any, factory: Callable[[], Bench], where: Where, call_s: float) -> None:
        self._client, self._factory, self._call_s = client, factory, call_s
        self.where = where
        self.slots = len(where.workers)

    def try_config(self, config: Any, default: Any, best: float, effort: Effort) -> Future[Trial]:
        """Try one configuration on whichever GPU is free; one that takes workers of the cluster with it has crashed."""

        def crashed(reason: str) -> Trial:
            return Trial(config.to_dict(), "crashed", reason, gpu=self.where.gpu)

        return self._submit(_try, config, default, best, effort, lost=crashed)

    def take_turns(self, configs: Sequence[Any], rounds: int) -> Future[Samples]:
        """Sample several in turns, all on one GPU."""
        return self._submit(_turns, list(configs), rounds)

    def surroundings(self) -> dict[str, Any]:
        """What the bench on one of the GPUs says about itself."""
        about: dict[str, Any] = self._submit(_about).result()
        return about

    def _submit(
        self, function: Callable[..., Any], *arguments: Any, lost: Callable[[str], Any] | None = None
    ) -> Future[Any]:
        """Run a function where there is a GPU; `lost` makes a result of it where every worker that ran it died."""
        task = self._client.submit(
            function,
            self._factory,
            self._call_s,
            *arguments,
            resources={RESOURCE: 1},
            workers=None if self.where.only else list(self.where.workers),
            allow_other_workers=False,
            pure=False,
            retries=_RETRIES,
        )
        done: Future[Any] = Future()
        done.set_running_or_notify_cancel()
        task.add_done_callback(lambda finished: _pass_on(finished, done, lost))
        return done


def _visible(gpu: int) -> str:
    """What CUDA_VISIBLE_DEVICES has to be for one of the GPUs that this process sees."""
    seen = settings.cuda_visible_devices()
    if seen is None:
        return str(gpu)
    if not 0 <= gpu < len(seen):
        raise InvalidArgument(f"GPU {gpu} was asked for; CUDA_VISIBLE_DEVICES leaves {len(seen)}, numbered from 0.")
    return seen[gpu]


def _pass_on(task: Any, done: Future[Any], lost: Callable[[str], Any] | None) -> None:
    killed = import_module("distributed").KilledWorker
    try:
        done.set_result(task.result())
    except killed as error:
        reason = f"each worker of the cluster that ran it ended: {error}"
        if lost is None:
            done.set_exception(StudyError(f"{reason} Start workers, and resume the study."))
        else:
            done.set_result(lost(" ".join(reason.split())))
    except CancelledError:
        done.set_exception(
            StudyError(
                "the Dask scheduler is gone. What is finished is in the journal; start one, and resume the study."
            )
        )
    except BaseException as error:  # told where the result is waited for
        done.set_exception(error)


_held: dict[str, Any] = {}
"""The measuring process of this worker of the cluster, and what it measures."""

_holding = threading.Lock()
"""One call at a time, whatever threads and resources the worker was started with: the process has one GPU."""


@contextmanager
def _caller(factory: Callable[[], Bench], call_s: float) -> Iterator[Worker]:
    with _holding:
        if "worker" not in _held:
            _held.update(worker=Worker(factory, call_s=call_s), factory=factory)
        elif _held["factory"] != factory:
            _held["worker"].become(factory)
            _held["factory"] = factory
        yield _held["worker"]


def _about(factory: Callable[[], Bench], call_s: float) -> dict[str, Any]:
    with _caller(factory, call_s) as caller:
        return caller.about()


def _try(factory: Callable[[], Bench], call_s: float, config: Any, default: Any, best: float, effort: Effort) -> Trial:
    with _caller(factory, call_s) as caller:
        return try_config(caller, config, default, best=best, effort=effort)


def _turns(factory: Callable[[], Bench], call_s: float, configs: Sequence[Any], rounds: int) -> Samples:
    with _caller(factory, call_s) as caller:
        return take_turns(caller, configs, rounds)
