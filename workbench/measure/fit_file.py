"""Fits as the file that the cost model reads: constants, what they were fitted to, and their error."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from workbench.measure.fit import Fit, Observation
from workbench.measure.fit_data import SHAPE
from workbench.schedule.fitted import FORMAT, NAMES, VERSION


def document(
    gpu: str, fits: Mapping[str, tuple[Fit, Sequence[Observation]]], *, date: datetime.date
) -> dict[str, object]:
    """The document of a GPU.

    Parameters
    ----------
    gpu : str
        Name in the catalogue.
    fits : mapping of str to (Fit, sequence of Observation)
        By cache type: the fit, and the calls that it was made from.
    date : datetime.date
        Day of the newest measurement.
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "gpu": gpu,
        "shape": SHAPE,
        "date": date.isoformat(),
        "fits": {cache: _fit(gpu, found, observed, date) for cache, (found, observed) in fits.items()},
    }


def _fit(gpu: str, found: Fit, observed: Sequence[Observation], date: datetime.date) -> dict[str, object]:
    with_timelines = f", {found.timelines} with timelines" if found.timelines else ""
    return {
        "source": (
            f"measured: fitted to {len(observed)} calls{with_timelines} on one {gpu} ({date.isoformat()}), "
            f"{found.left_out.rms:.1%} rms on cases left out"
        ),
        "constants": {name: getattr(found.constants, name) for name in NAMES},
        "undetermined": list(found.undetermined),
        "calls": len(observed),
        "timelines": found.timelines,
        "error": asdict(found.error),
        "left_out": asdict(found.left_out),
        "left_out_cases": {case: asdict(error) for case, error in found.left_out_cases.items()},
        "kernel": observed[0].kernel,
        "records": sorted(o.path for o in observed),
    }


def to_text(content: Mapping[str, object]) -> str:
    """The document as it is kept."""
    return json.dumps(content, indent=1) + "\n"
