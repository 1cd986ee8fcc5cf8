"""Figures as tables show them, whether measured now, recorded, or somebody else's. Needs neither torch nor a GPU."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from workbench import devices
from workbench.errors import InvalidArgument, RecordWarning
from workbench.measure.attention_case import VARIANTS, variant_of
from workbench.records import Record, ReferenceRecord, Store, TimingRecord, is_of_study

READ = "read"
"""Provider of the bare read."""

ATTENTION, TASK_MAP, ROUTER = "attention_decode", "task_map", "router_gemm"
"""Operators, as records call them."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One time, or the reason why there is none.

    Attributes
    ----------
    operator, case, dtype, provider, policy, configuration, notes
        As in a record; `dtype` is "" where the case has none.
    variant : str
        How it is launched, in a word.
    state : str
        "timed", "wrong", "failed" or "missing".
    reason : str
        Why there is no time.
    median_us, low_us, high_us : float or None
        Median and the ends of its interval, microseconds.
    rel_error : float or None
        Against float64.
    origin : str
        Where the figure comes from, in words: "measured now", "recorded (...)", "reference (...)".
    throttled : tuple of str
        What held the clocks down.
    """

    operator: str
    case: str
    dtype: str
    provider: str
    origin: str
    policy: str | None = None
    variant: str = ""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    state: str = "timed"
    reason: str = ""
    median_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    rel_error: float | None = None
    throttled: tuple[str, ...] = ()
    notes: str = ""

    @property
    def is_reference(self) -> bool:
        """Whether somebody else measured it."""
        return self.origin.startswith("reference")

    @property
    def is_read(self) -> bool:
        """Whether it only reads the bytes."""
        return self.provider == READ

    def to_dict(self) -> dict[str, Any]:
        """The figure as plain data."""
        return asdict(self)


LARGE_MAP = "2048x4K"
"""Batch whose map is built besides those of the cases."""


def floor_us(kv_bytes: int, operations: int, gpu: devices.Gpu) -> float:
    """The least time by arithmetic: bytes over the GPU's reading speed, or operations over its bf16 speed."""
    by_bytes = kv_bytes / gpu.read_bandwidth
    by_operations = operations / gpu.bf16_flops if gpu.bf16_flops else 0.0
    return max(by_bytes, by_operations) * 1e6


def known_gpu(name: str) -> devices.Gpu | None:
    """A GPU of the catalogue by the name that its driver gives it, or None."""
    try:
        return devices.gpu(name)
    except InvalidArgument:
        return None


def stored_figures(
    store: Store, *, operator: str, gpu: str, cases: Sequence[str], dtypes: Sequence[str], kinds: Sequence[str]
) -> list[Figure]:
    """Figures of a store, the newest of each provider, policy and launch; of one day the fastest configuration.

    What a tuning study measured is left out: it has many configurations of one policy, and the others have one.

    Parameters
    ----------
    store
        Files of it that cannot be read are left out; ``store.problems`` lists them.
    operator, gpu, cases, dtypes
        What is wanted; `dtypes` without effect on operators whose cases have none.
    kinds
        "timing" for what this project measured, "reference" for the figures of others.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)
        rows = store.rows(operator=operator, gpu=gpu, case=list(cases), kind=list(kinds))
    newest: dict[tuple[str, ...], Figure] = {}
    for row in sorted(rows, key=lambda row: (str(row["date"]), -float(row["median_us"] or 0))):
        if is_of_study(row["method"]) or (row["dtype"] is not None and row["dtype"] not in dtypes):
            continue
        configuration = json.loads(str(row["config"]))
        key = tuple(str(row[name]) for name in ("case", "dtype", "provider", "policy", "kind"))
        shown = Figure(
            operator=operator,
            case=str(row["case"]),
            dtype=str(row["dtype"] or "") if operator != TASK_MAP else "",
            provider=str(row["provider"]),
            policy=None if row["policy"] is None else str(row["policy"]),
            variant=variant_of(configuration) if operator == ATTENTION else map_variant(configuration),
            configuration=configuration,
            origin=str(row["origin"]),
            median_us=_number(row["median_us"]),
            low_us=_number(row["low_us"]),
            high_us=_number(row["high_us"]),
            rel_error=_number(row["rel_error"]),
            **_told_by(store.read(str(row["path"]))),
        )
        newest[(*key, shown.variant)] = shown
    return sorted(newest.values(), key=table_order)


def map_variant(configuration: Mapping[str, Any]) -> str:
    """Size of a map in words, as the tables' heading; "" where the figure does not say."""
    return f"{configuration['num_ctas']} CTAs" if "num_ctas" in configuration else ""


def _told_by(record: Record) -> dict[str, Any]:
    """What a row of a store leaves out."""
    if isinstance(record, ReferenceRecord):
        return {"notes": record.provenance.software or ""}
    if isinstance(record, TimingRecord):
        return {"notes": record.notes or "", "throttled": record.throttled}
    return {}


def sources(figures: Sequence[Figure]) -> list[str]:
    """Where figures come from, a line for each provider and origin."""
    lines = []
    for figure in sorted(figures, key=table_order):
        software = f": {figure.notes}" if figure.is_reference and figure.notes else ""
        lines.append(f"{figure.provider}{software} - {figure.origin}")
    return list(dict.fromkeys(lines))


def table_order(figure: Figure) -> tuple[object, ...]:
    """Sorts figures for a table: the bare read, our kernel by policy and launch, other providers, references."""
    launches = list(VARIANTS)
    policy, parameter = re.fullmatch(r"([^(]*)(?:\((\d+)\))?", figure.policy or "").groups()  # type: ignore[union-attr]
    return (
        figure.is_reference,
        not figure.is_read,
        figure.provider != "cuda",
        figure.provider,
        parameter is not None,
        policy,
        int(parameter or 0),
        launches.index(figure.variant) if figure.variant in launches else len(launches),
    )


def _number(value: str | int | float | None) -> float | None:
    return None if value is None else float(value)
