"""One record as one row of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workbench import devices
from workbench.errors import InvalidArgument
from workbench.records.documents import Record
from workbench.records.labels import origin_label
from workbench.records.layout import slug

Row = dict[str, str | int | float | None]

TEXT = (
    "gpu", "operator", "provider", "case", "dtype", "policy", "config", "date", "kind", "model", "method", "origin",
    "path",
)  # fmt: skip
NUMBERS = ("median_us", "low_us", "high_us", "rel_error")
COUNTS = ("m", "n", "k", "tp", "ep", "tokens")
COLUMNS = (
    "gpu", "operator", "provider", "case", "dtype", "policy", "config", "median_us", "low_us", "high_us", "rel_error",
    "date", "kind", "m", "n", "k", "model", "tp", "ep", "tokens", "method", "origin",
    "path",
)  # fmt: skip


def row_of(record: Record) -> Row:
    """Values by column, all of `COLUMNS` but ``path``; None where a kind has no such value.

    ``config`` is the configuration as JSON with sorted keys, so rows can be grouped by it.
    """
    work = record.workload
    provenance = getattr(record, "provenance", None)
    who = getattr(provenance, "measured_by", None)
    day, gpu = record.environment.date.isoformat(), record.environment.gpu
    row: Row = {
        "gpu": gpu,
        "operator": record.operator,
        "provider": record.provider,
        "case": work.case,
        "dtype": work.dtype,
        "policy": record.policy,
        "config": json.dumps(record.configuration, sort_keys=True),
        "date": day,
        "kind": record.kind,
        "model": work.model,
        "method": getattr(record, "method", None),
        "origin": origin_label("reference" if who else "recorded", gpu=gpu, date=day, by=who),
    }
    row |= {name: getattr(work, name) for name in COUNTS}
    known = type(record).model_fields
    row |= {name: getattr(record, name) if name in known else None for name in NUMBERS}
    return row


def row_filter(wanted: Mapping[str, Any]) -> Callable[[Row], bool]:
    """A test of rows.

    Parameters
    ----------
    wanted
        By column a value, or several of which one must match; None is ignored. A GPU may be given by any name of the
        catalogue, or as its folder is called.

    Raises
    ------
    InvalidArgument
        There is no such column.
    """
    if unknown := sorted(wanted.keys() - set(COLUMNS)):
        raise InvalidArgument(f"records have no column {', '.join(unknown)}; filter by {', '.join(COLUMNS)}.")
    allowed: dict[str, set[Any]] = {}
    for column, value in wanted.items():
        if value is not None:
            values = {value} if isinstance(value, str) or not isinstance(value, Iterable) else set(value)
            allowed[column] = {name for given in values for name in _gpu_folders(given)} if column == "gpu" else values

    def test(row: Row) -> bool:
        return all((slug(str(row[c])) if c == "gpu" else row[c]) in values for c, values in allowed.items())

    return test


def _gpu_folders(name: Any) -> set[str]:
    try:
        gpu = devices.gpu(name)
    except InvalidArgument:  # a GPU that the catalogue does not have: by the name in its records
        return {slug(str(name))}
    return {slug(known) for known in (gpu.name, *gpu.aliases, str(name))}
