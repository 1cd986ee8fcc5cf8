"""Measured calls for a fit, out of a store of records, and why others are left out."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import FitError, InvalidArgument, TimelineError, WorkbenchError
from workbench.measure.fit import Observation
from workbench.measure.timeline_records import OPERATOR, read_timeline
from workbench.records import Record, Store, TimelineRecord, TimingRecord, is_alone
from workbench.schedule import CostModel, plan_decode
from workbench.workloads import parse_lengths

PROVIDERS = ("cuda", "workbench")
"""Names that records of our kernel go by; the second is the earlier one."""

SHAPE = {"num_kv_heads": 1, "head_dim": 128, "num_q_heads": 8, "q_len": 1}
"""What the constants hold for."""


@dataclass(frozen=True)
class LeftOut:
    """A record that the fit has no use for.

    Attributes
    ----------
    file, case, policy : str
        Its file's name, its workload and its policy.
    reason : str
        Why, in words.
    """

    file: str
    case: str
    policy: str | None
    reason: str

    def __str__(self) -> str:
        return f"{self.file} ({self.case}, {self.policy}): {self.reason}"


def observations(store: Store, cost: CostModel) -> tuple[list[Observation], list[LeftOut]]:
    """Calls of our kernel on the GPU and cache type of a model, one a case and policy: the newest.

    All are of one kernel, that of the newest record; calls of earlier kernels are left out. A timeline brings its plan,
    and replaces a timing of the same case and policy. A timing names its policy, by which the plan is made again;
    ``balanced`` decides by costs that a timing does not name, so its timings are left out.

    Returns
    -------
    list of Observation
    list of LeftOut

    Raises
    ------
    FitError
        A record cannot be read, a timeline contradicts its plan, or the newest records are of several kernels.
    """
    usable: list[tuple[datetime.date, Observation]] = []
    left_out = []
    wanted: dict[str, Any] = {"operator": OPERATOR, "provider": PROVIDERS, "gpu": cost.gpu, "dtype": cost.cache}
    for kind in ("timing", "timeline"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # told below, as an error
            records = list(store.records(kind=kind, **wanted))
        if store.problems:
            raise FitError(f"{store.problems[0]}. Take it out of the store, or measure again.")
        for path, record in records:
            try:
                usable.append((record.environment.date, _observation(store, path, record, cost)))
            except _Unusable as error:
                left_out.append(LeftOut(path.name, record.workload.case, record.policy, str(error)))
    kernel = _newest_kernel(usable)
    chosen: dict[tuple[str, str], Observation] = {}
    for _, o in sorted(usable, key=lambda item: (item[1].timeline is not None, item[0])):  # the last of a key stays
        if o.kernel == kernel:
            chosen[o.case, o.plan.policy] = o
        else:
            reason = f"of an earlier kernel, {_short(o.kernel)}"
            left_out.append(LeftOut(o.path, o.case, o.plan.policy, reason))
    return list(chosen.values()), left_out


class _Unusable(Exception):
    """Why the fit has no use for a record."""


def _observation(store: Store, path: Path, record: Record, cost: CostModel) -> Observation:
    work, config = record.workload, record.configuration
    if other := _other_shape(work.parameters):
        raise _Unusable(f"its {other}; the constants are for {SHAPE}")
    if not config.get("early_map"):
        raise _Unusable("it waits for its map; the constants are for launches that read it early")
    if not config.get("early_cache", True):  # records of earlier kernels do not have it
        raise _Unusable("it waits for its cache; the constants are for launches that read it early")
    if isinstance(record, TimelineRecord):
        if is_alone(record.method):
            raise _Unusable("it is of one launch by itself; the constants are for calls one after another")
        try:
            _, timeline = read_timeline(store, path)
        except TimelineError as error:
            raise FitError(f"{error} Take the record out of the store.") from None
        return Observation(
            work.case, cost.cache, timeline.plan, record.call_us, timeline, path.name, record.source_digest
        )
    assert isinstance(record, TimingRecord)  # the store was asked for these two
    if record.environment.sms is None or record.policy in (None, "balanced"):
        raise _Unusable("it does not say which plan ran")
    try:
        plan = plan_decode(
            parse_lengths(work.case),
            num_kv_heads=SHAPE["num_kv_heads"],
            num_ctas=record.environment.sms * _whole(config, "ctas_per_sm", 1),
            policy=record.policy,
            tile=_whole(config, "tile", 64),
        )
    except WorkbenchError as error:
        raise _Unusable(f"its plan cannot be made again: {error}") from None
    return Observation(work.case, cost.cache, plan, record.median_us, None, path.name, record.source_digest)


def _whole(configuration: Mapping[str, Any], name: str, default: int) -> int:
    """A whole number of a configuration, which other writers of records may have filled with anything."""
    value = configuration.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(f"its {name} is {value!r}, not a whole number.")
    return value


def _other_shape(parameters: Mapping[str, Any]) -> str | None:
    differing = [f"{name} is {parameters[name]}" for name in SHAPE if parameters.get(name, SHAPE[name]) != SHAPE[name]]
    return differing[0] if differing else None


def _newest_kernel(usable: list[tuple[datetime.date, Observation]]) -> str | None:
    """Digest of the kernel that the newest records are of."""
    newest = max((date for date, _ in usable), default=None)
    kernels = {o.kernel for date, o in usable if date == newest}
    if len(kernels) > 1:
        named = ", ".join(sorted(map(_short, kernels)))
        raise FitError(
            f"the calls of {newest} were measured with {len(kernels)} kernels ({named}). Give a store of one of them."
        )
    return next(iter(kernels), None)


def _short(kernel: str | None) -> str:
    return kernel[:12] if kernel else "unknown"
