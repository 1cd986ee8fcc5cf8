"""Fitted constants of the cost model: files of this package, written by ``workbench fit`` and never by hand.

A file holds the constants of one GPU by cache type, and beside them what they were fitted to: calls, timelines, names
and digests of the records, the kernel's digest, the day, and the error, also on cases that the fit did not see.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from workbench.errors import FitError

FORMAT, VERSION = "workbench.cost-constants", 2
FOLDER = "fitted_constants"

NAMES = (
    "bytes_per_us", "sm_elements_per_us", "sm_bytes_per_us", "descriptor_ns", "partial_ns", "empty_ns", "merge_ns",
    "merge_chunk_ns", "launch_ns",
)  # fmt: skip
"""Constants that a fit determines: all of :class:`workbench.schedule.costs.CostConstants` but the source."""


def file_name(gpu: str) -> str:
    """Name of the file of a GPU of the catalogue."""
    return f"{gpu.lower()}.json"


@cache
def read(gpu: str) -> dict[str, Any]:
    """Fits of a GPU by cache type; empty where it was never measured.

    Raises
    ------
    FitError
        The file is damaged.
    """
    from importlib import resources  # slow to import

    file = resources.files("workbench.schedule").joinpath(FOLDER, file_name(gpu))
    if not file.is_file():
        return {}
    return parse(file.read_text(encoding="utf-8"), gpu)


def parse(text: str, gpu: str) -> dict[str, Any]:
    """The same from the text of a file.

    Raises
    ------
    FitError
        It is no such file, or of another GPU.
    """
    try:
        document = json.loads(text)
        form, named, fits = (document["format"], document["version"]), document["gpu"], document["fits"]
        whole = all(
            str(fit["source"]).startswith("measured")
            and fit["constants"].keys() == set(NAMES)
            and all(type(value) is int and value > 0 for value in fit["constants"].values())
            for fit in fits.values()
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FitError(f"no fitted constants: {type(error).__name__} {error}. Write them with workbench fit.") from None
    if form != (FORMAT, VERSION) or named != gpu or not whole:
        raise FitError(f"no fitted constants of {gpu} as version {VERSION} has them. Write them with workbench fit.")
    return dict(fits)
