"""Many captures: a queue that goes on where it stopped.

There is no file of what is done: a request is done when the store has its record, for this GPU and these kernel
sources. So a batch that was killed is simply asked for again.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.capture.api import make_settings
from workbench.capture.handle import Handle, Listener
from workbench.capture.operators import adapter_for
from workbench.capture.requests import Request
from workbench.capture.results import Captured
from workbench.capture.run import TIMEOUT_SECONDS, Settings, run_group
from workbench.errors import (
    CaptureCancelled,
    CaptureError,
    CountersBusy,
    CountersForbidden,
    InvalidArgument,
    MissingDependency,
    NoGpu,
    ProfilerUnavailable,
    RecordWarning,
    ReportDamaged,
    WorkbenchError,
)
from workbench.gpu import driver
from workbench.measure.timeline_records import own_timeline, timelines_beside
from workbench.records import Record, Store, is_alone

HOPELESS = (CaptureCancelled, CountersForbidden, CountersBusy, ProfilerUnavailable, MissingDependency, NoGpu)
"""What would meet every other capture of the batch too, so that it stops."""


@dataclass(frozen=True, eq=False)
class BatchResult:
    """What became of each request, in their order.

    Attributes
    ----------
    captured : list of Captured or None
        None where it failed.
    failures : dict of int to WorkbenchError
        By position.
    """

    captured: list[Captured | None]
    failures: dict[int, WorkbenchError]

    @property
    def skipped(self) -> int:
        """How many were in the store already."""
        return sum(one is not None and not one.fresh for one in self.captured)

    def check(self) -> BatchResult:
        """Return the result itself.

        Raises
        ------
        CaptureError
            A capture failed; the message has all of them.
        """
        if self.failures:
            told = "\n".join(f"  - {at + 1}: {error}" for at, error in self.failures.items())
            raise CaptureError(f"{len(self.failures)} of {len(self.captured)} captures failed:\n{told}")
        return self


def capture_batch(
    requests: Iterable[Request],
    *,
    again: bool = False,
    group: int = 1,
    store: Store | str | os.PathLike[str] | None = None,
    python: str | os.PathLike[str] | None = None,
    timeout_s: float = TIMEOUT_SECONDS,
    keep_report: bool = True,
    on_progress: Listener | None = None,
) -> Handle[BatchResult]:
    """Capture many configurations, one after another; returns at once.

    Parameters
    ----------
    requests
        From `request`.
    again
        Capture also what the store has.
    group
        Configurations in one process. Starting ncu takes seconds, so a group is faster by that; but a kill loses the
        process in flight, so all of its group. Its report holds all of them.
    store, python, timeout_s, keep_report, on_progress
        As `capture`; the limit is of one process.

    Returns
    -------
    Handle
        Its result is `BatchResult`. A failure of one capture is in there, and the others go on; it is raised where it
        would meet the others too: no permission, no ncu.

    Raises
    ------
    InvalidArgument
        There is no request, or what is given is none, or a setting is not as described.
    """
    asked = list(requests)
    if not asked or not all(isinstance(one, Request) for one in asked):
        raise InvalidArgument(f"requests is {requests!r:.200}; give at least one that `request` made, in a list.")
    if type(group) is not int or group < 1:
        raise InvalidArgument(f"group={group!r}; give a whole number, 1 or more.")
    settings = make_settings(asked, store, python, timeout_s, keep_report)

    def work(handle: Handle[BatchResult]) -> BatchResult:
        found: list[Captured | None] = [None] * len(asked)
        failures: dict[int, WorkbenchError] = {}
        if not again:
            handle.say("looking for what is recorded")
            known = recorded(asked, settings.store)
            found = [known.get(one.digest) for one in asked]
        todo = [at for at, one in enumerate(found) if one is None]
        handle.say("starting", len(asked) - len(todo))
        for positions in groups(todo, asked, group):
            _run(handle, positions, asked, settings, found, failures)
        return BatchResult(found, failures)

    return Handle(work, len(asked), on_progress)


def groups(todo: Sequence[int], asked: Sequence[Request], size: int) -> Iterator[list[int]]:
    """Neighbouring positions that one process can capture: they share metrics, runs and means."""
    current: list[int] = []
    for at in todo:
        if current and (len(current) == size or _means(asked[at]) != _means(asked[current[0]])):
            yield current
            current = []
        current.append(at)
    if current:
        yield current


def _means(asked: Request) -> tuple[object, ...]:
    return asked.metrics, asked.runs, asked.counters, asked.timeline


def _run(
    handle: Handle[BatchResult],
    positions: list[int],
    asked: Sequence[Request],
    settings: Settings,
    found: list[Captured | None],
    failures: dict[int, WorkbenchError],
) -> None:
    label = asked[positions[0]].label + (f" and {len(positions) - 1} more" if len(positions) > 1 else "")

    def ended() -> int:
        return sum(one is not None for one in found) + len(failures)

    def told(stage: str, done: int, total: int) -> None:
        handle.say(stage, ended() + min(done, total - 1), label)

    if handle.cancelled():
        raise CaptureCancelled("the batch was cancelled; what was captured before is in the store.")
    try:
        captured = run_group([asked[at] for at in positions], settings, cancelled=handle.cancelled, progressed=told)
    except HOPELESS:
        raise
    except (CaptureError, ReportDamaged, InvalidArgument) as error:
        if len(positions) == 1:
            failures[positions[0]] = error
        else:  # one of them spoils the others
            for at in positions:
                _run(handle, [at], asked, settings, found, failures)
        return
    for at, one in zip(positions, captured, strict=True):
        found[at] = one
    handle.say("captured", ended(), label)


def recorded(asked: Sequence[Request], store: Store) -> dict[str, Captured]:
    """Captures that the store has, by digest of their request: of this GPU and of the kernel sources as they are."""
    wanted = {one.digest: one for one in asked}
    gpu = driver.device().name if driver.probe().problem is None else None
    operators = sorted({one.operator for one in asked})
    found: dict[str, Captured] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)  # what cannot be read is captured again
        for path, record in store.records(kind=["nsight", "timing"], operator=operators, gpu=gpu):
            digest = getattr(record, "request", None)
            if digest in wanted and _unchanged(wanted[digest], record):
                timeline = _timeline_beside(path, record, store) if wanted[digest].timeline else None
                found[digest] = Captured(record, path, timeline, fresh=False)
    return found


def _unchanged(asked: Request, record: Record) -> bool:
    """Whether a capture now would be of the same configuration and sources."""
    try:
        return adapter_for(asked.target).identity(asked) == (record.configuration, record.source_digest)
    except (Exception, SystemExit):  # a module may do anything when imported; the capture's process will say what
        return False


def _timeline_beside(path: Path, record: Record, store: Store) -> Path | None:
    """The timeline that was taken with a capture: of its own launch, or else the newest of a launch alone."""
    beside, _ = timelines_beside(store, path.parent.glob("timeline-*.json"), record)  # others are not this capture's
    if (own := own_timeline(store, beside, record)) is not None:
        return own[0]
    alone = [(file.stat().st_mtime, file) for file, document in beside if is_alone(document.method)]
    return max(alone)[1] if alone else None
