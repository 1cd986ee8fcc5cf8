"""The public functions: capture one configuration, or many."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from workbench.capture.functions import UserFunction
from workbench.capture.handle import Handle, Listener
from workbench.capture.operators import Operator, adapter_for, adapter_target, folders_for, target_of
from workbench.capture.requests import Request, make_request
from workbench.capture.results import Captured
from workbench.capture.run import TIMEOUT_SECONDS, Settings, run_group
from workbench.errors import InvalidArgument
from workbench.records import Store

What = str | Callable[..., Any]


def request(
    operator: What,
    config: Any = None,
    workload: str | Mapping[str, Any] | None = None,
    provider: str | None = None,
    *,
    policy: str | None = None,
    metrics: str | tuple[str, ...] | list[str] = "overview",
    runs: int = 1,
    seed: int = 0,
    counters: bool = True,
    timeline: bool | None = None,
) -> Request:
    """What to capture, checked as far as no GPU is needed for it.

    Parameters
    ----------
    operator
        A registered operator's name (`workbench.capture.operator_names`), or a function of yours: itself, or
        "package.module:function". The function is called with the configuration and the workload as keywords; it
        launches GPU work, or returns a callable that does.
    config
        A configuration as the operator has it, or a dict of what differs from the default.
    workload
        As the operator takes it: of decode attention "64x4K" or a dict with ``lengths``, ``dtype`` and the shape; of a
        function a name, or a dict of keywords.
    provider
        Whose implementation; default: the operator's first.
    policy
        Scheduling policy, where the operator has one.
    metrics
        Sets ("overview", "memory", "tensor", "schedule") and names of Nsight Compute.
    runs
        How often the call is profiled.
    seed
        Of the inputs.
    counters
        False: event timing, in-kernel timeline and torch's list of kernels instead of hardware counters.
    timeline
        Run the kernel's instrumented build too; default: with the set "schedule" and without counters.

    Raises
    ------
    InvalidArgument, WorkloadError
        Something is not as described.
    """
    names = [metrics] if isinstance(metrics, str) else metrics
    if not isinstance(workload, (str, Mapping, type(None))):
        raise InvalidArgument(f"workload is {workload!r}; give text or a dict.")
    adapter, name, target = _resolve(operator)
    if adapter.providers:
        provider = provider or adapter.providers[0]
        if provider not in adapter.providers:
            raise InvalidArgument(f"{name} has no provider {provider!r}; it has {', '.join(adapter.providers)}.")
    if policy is not None and adapter.default_policy is None:
        raise InvalidArgument(f"{name} has no scheduling policy; leave policy= out.")
    return make_request(
        target=target,
        operator=name,
        provider=provider or "user",
        policy=policy or adapter.default_policy,
        configuration=_configuration(config),
        workload=adapter.describe({} if workload is None else workload),
        metrics=names,
        runs=runs,
        seed=seed,
        counters=counters,
        timeline=_stamped(names, counters) if timeline is None else timeline,
    )


def capture(
    operator: What,
    config: Any = None,
    workload: str | Mapping[str, Any] | None = None,
    provider: str | None = None,
    *,
    policy: str | None = None,
    metrics: str | tuple[str, ...] | list[str] = "overview",
    runs: int = 1,
    seed: int = 0,
    counters: bool = True,
    timeline: bool | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    python: str | os.PathLike[str] | None = None,
    timeout_s: float = TIMEOUT_SECONDS,
    keep_report: bool = True,
    on_progress: Listener | None = None,
) -> Handle[Captured]:
    """Capture one configuration in a process of its own; returns at once.

    ``await capture(...)`` in a notebook, ``capture(...).result()`` in a script.

    Parameters
    ----------
    operator, config, workload, provider, policy, metrics, runs, seed, counters, timeline
        As `request`.
    store
        Where the record goes; default: your own, in `workbench.settings.records_dir`.
    python
        Interpreter that has nsight-python; default: this one.
    timeout_s
        Limit, seconds.
    keep_report
        Keep the .ncu-rep beside the record.
    on_progress
        Called with each new `Progress`, on another thread.

    Returns
    -------
    Handle
        Its result is `Captured`.

    Raises
    ------
    InvalidArgument, WorkloadError
        As `request`, at once; everything else is raised by the handle.
    """
    asked = request(
        operator, config, workload, provider, policy=policy, metrics=metrics, runs=runs, seed=seed, counters=counters,
        timeline=timeline,
    )  # fmt: skip
    settings = make_settings([asked], store, python, timeout_s, keep_report)

    def work(handle: Handle[Captured]) -> Captured:
        def told(stage: str, done: int, total: int) -> None:
            handle.say(stage, label=asked.label)

        return run_group([asked], settings, cancelled=handle.cancelled, progressed=told)[0]

    return Handle(work, 1, on_progress)


def make_settings(
    requests: Sequence[Request],
    store: Store | str | os.PathLike[str] | None,
    python: str | os.PathLike[str] | None,
    timeout_s: float,
    keep_report: bool,
) -> Settings:
    """Settings from the arguments that `capture` and `capture_batch` share.

    Raises
    ------
    InvalidArgument
        The limit is not above 0, or the store is none.
    """
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not timeout_s > 0:
        raise InvalidArgument(f"timeout_s={timeout_s!r}; give seconds above 0.")
    if not isinstance(store, (Store, str, os.PathLike, type(None))):
        raise InvalidArgument(f"store={store!r}; give a folder or a Store.")
    return Settings(
        store if isinstance(store, Store) else Store(store),
        None if python is None else str(python),
        timeout_s,
        keep_report,
        folders_for(asked.target for asked in requests),
    )


def _resolve(operator: What) -> tuple[Operator, str, str]:
    """Adapter, name in records, and target."""
    if isinstance(operator, str) and ":" not in operator:
        target = adapter_target(operator)
        return adapter_for(target), operator, target
    target = operator if isinstance(operator, str) else target_of(operator)
    name = re.sub(r"[^a-z0-9_]+", "_", target.rpartition(":")[2].lower()).lstrip("_0123456789")[:64]
    return UserFunction(), name or "function", target


def _stamped(metrics: object, counters: bool) -> bool:
    """Whether the instrumented build runs if nothing is said; what is no list of metrics, `make_request` refuses."""
    return not counters or (isinstance(metrics, Collection) and "schedule" in metrics)


def _configuration(config: Any) -> dict[str, Any]:
    if config is None:
        return {}
    if is_dataclass(config) and not isinstance(config, type):
        return asdict(config)
    if isinstance(config, Mapping) and all(isinstance(name, str) for name in config):
        return dict(config)
    raise InvalidArgument(f"config is {config!r}; give a configuration of the operator, or a dict of its parameters.")
