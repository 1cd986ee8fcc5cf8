"""Where a study lies if nothing else is said."""

from __future__ import annotations

from pathlib import Path

from workbench import settings
from workbench.errors import InvalidArgument
from workbench.records.layout import slug
from workbench.tune.space import Space


def journal_name(space: Space, gpu: str) -> Path:
    """Where the study of a workload on a GPU lies; it need not exist."""
    work = space.workload
    return settings.studies_dir() / f"{space.operator}-{work.case}-{work.dtype}-{slug(gpu)}.journal"


def default_journal(space: Space, gpu: str) -> Path:
    """The same, with its folder made.

    Raises
    ------
    InvalidArgument
        The folder cannot be made.
    """
    path = journal_name(space, gpu)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"{path.parent} cannot be made: {error.strerror or error}. Give another file, or set WORKBENCH_STUDIES_DIR."
        ) from None
    return path
