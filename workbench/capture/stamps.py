"""The stamps that an instrumented build left: a record of their timeline, and the counters of the same launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.capture.collect import INSTRUMENTED, STAMPED
from workbench.capture.failures import nothing_profiled
from workbench.capture.jobs import JobFolder
from workbench.errors import InvalidArgument, TimelineError
from workbench.measure.busy import ACTIVE, CLOCK, CLOCK_UNITS, ActiveTime, compare_busy
from workbench.measure.timeline import Timeline
from workbench.records import Attachment, TimelineRecord
from workbench.records.methods import ALONE_STAMPS, PROFILED_STAMPS

PASSES = "profiler__replayer_passes"
"""How often Nsight Compute repeated a launch; the stamps that are left are of the last time."""


@dataclass(frozen=True)
class Stamps:
    """What the instrumented build of a case left.

    Attributes
    ----------
    kept : (TimelineRecord, bytes) or None
        Record and side file of the timeline.
    agreement : dict
        The counters of the launch beside them, as plain data.
    notes : tuple of str
        Why there is less.
    """

    kept: tuple[TimelineRecord, bytes] | None = None
    agreement: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def named(self) -> dict[str, Any]:
        """How the capture's record names them; no field of every record, but one keeps what it does not know."""
        return {} if self.kept is None else {"stamps": self.kept[0].attachment.sha256}


def stamps_of(
    folder: JobFolder, index: int, label: str, launches: Sequence[dict[str, Any]] | None, common: dict[str, Any]
) -> Stamps:
    """Timeline of a case, and its counters where there were any; less, with a note, where they make no sense.

    Parameters
    ----------
    folder
        The job's.
    index, label
        Of the case, and of its request.
    launches
        Profiled launches as plain data; None for a capture without counters.
    common
        Fields that all records of the case share.

    Raises
    ------
    NothingProfiled
        The instrumented build was called and launched nothing.
    pydantic.ValidationError
        What the case left makes no record.
    """
    file, said = folder.path / f"timeline-{index}.npz", folder.read(f"stamps-{index}.json")
    if said is None or not file.is_file():
        return Stamps()
    profiled = None
    if launches is not None:
        profiled = [launch for launch in launches if launch["annotation"] == STAMPED.format(index)]
        if not profiled:
            raise nothing_profiled(f"{label}: {INSTRUMENTED}", folder.log_text())
    content = file.read_bytes()
    try:
        timeline = Timeline.from_npz(content)
    except TimelineError as error:
        return Stamps(notes=(f"the stamps of the instrumented build are left out: {error}",))
    extra: dict[str, Any] = {"makespans_us": tuple(said["makespans_us"]), "makespan_us": said["makespan_us"]}
    record = TimelineRecord(
        **common,
        **extra,
        method=ALONE_STAMPS if profiled is None else PROFILED_STAMPS,
        attachment=Attachment.of(content, ".npz"),
    )
    if profiled is None or len(profiled) != len(said["makespans_us"]):  # which launch the stamps are of is not known
        return Stamps((record, content))
    try:
        return Stamps((record, content), _agreement(timeline, profiled[said["kept"]], common["environment"].sms))
    except InvalidArgument as error:
        return Stamps((record, content), notes=(f"counters and stamps are not compared: {error}",))


def _agreement(timeline: Timeline, launch: dict[str, Any], sms: int | None) -> dict[str, Any]:
    """Counters of an instrumented launch beside its own stamps; empty where not both are of one and the same launch."""
    clock, unit = launch["metrics"].get(CLOCK), launch["units"].get(CLOCK, "cycle/second").lower()
    cycles = [launch["metrics"].get(name) for name in ACTIVE]
    if sms is None or launch["metrics"].get(PASSES, 1) != 1 or not clock or None in cycles or unit not in CLOCK_UNITS:
        return {}
    active = ActiveTime(*(value / (clock * CLOCK_UNITS[unit]) * 1e9 for value in cycles))
    return compare_busy(timeline, active, sms=sms).to_dict()
