"""A study read back from its journal, and its best made the default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workbench import devices
from workbench.errors import StudyError
from workbench.tune import tuned
from workbench.tune.space import Space
from workbench.tune.study import Result, Study
from workbench.tune.study_files import journal_name
from workbench.tune.study_journal import about_of
from workbench.tune.study_trials import Trial


@dataclass(frozen=True)
class Read:
    """What a journal holds.

    Attributes
    ----------
    path : Path
    gpu : str
        By its driver.
    trials : dict of str to Trial
    result : Result or None
    """

    path: Path
    gpu: str
    trials: dict[str, Trial]
    result: Result | None


def journal_of(space: Space, device: devices.Gpu) -> Path | None:
    """The journal of a workload on a GPU in the folder of one's own studies; None where there is none."""
    names = dict.fromkeys([*device.aliases, device.name])
    return next((path for path in (journal_name(space, name) for name in names) if path.is_file()), None)


def read_journal(space: Space, path: Path) -> Read:
    """What a study found.

    Raises
    ------
    StudyError
        It is of another space or another kernel, or is open elsewhere.
    """
    with _opened(space, path) as study:
        return Read(path, study.gpu, dict(study.trials), study.result())


def apply_best(space: Space, path: Path, *, force: bool = False) -> Path:
    """Make the best of a finished study the default of its GPU and shape; returns the table's file.

    Raises
    ------
    StudyError
        The study has no finals.
    InvalidArgument
        None of the finalists may be the default, or none is surely faster.
    """
    with _opened(space, path) as study:
        result = study.result()
        if result is None:
            raise StudyError(f"{path.name} has no finals yet; let the study finish first.")
        return tuned.apply(study, result, sms=devices.gpu(study.gpu).sms, force=force)


@contextmanager
def _opened(space: Space, path: Path) -> Iterator[Study]:
    with Study(space, path, gpu=str(about_of(path)["gpu"])) as study:
        yield study
