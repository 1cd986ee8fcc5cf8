"""The explorer's settings: plain data, checked once, and the code that gives the same view again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from keyword import iskeyword
from typing import Any

from workbench import devices
from workbench.errors import InvalidArgument
from workbench.schedule.costs import CACHE_BYTES
from workbench.schedule.problem import TILES, check_count
from workbench.widgets.schedule.batches import MAX_BATCH
from workbench.widgets.schedule.panel import LANES, ORDERS, UNITS
from workbench.widgets.schedule.scene import SCALES

METRICS = {"over_bound": "makespan / bound", "call_us": "call, \u00b5s", "idle": "idle, %"}
"""What the strip can show of every step, with its title."""

CHOICES: dict[str, Collection[Any]] = {
    "tile": TILES,
    "cache": tuple(CACHE_BYTES),
    "order": ORDERS,
    "unit": UNITS,
    "scale": SCALES,
    "strip": tuple(METRICS),
    "lanes": LANES,
}
"""Settings that are one of a few values."""

RANGES = {
    "ctas_per_sm": (1, 32),
    "min_process_len": (0, 1 << 24),
    "num_kv_heads": (1, 128),
    "q_len": (1, 64),
    "max_batch": (1, 4096),
}
"""Settings that are whole numbers: least and most."""

PARAMETERS = {"fixed_splits": (1, 1 << 16), "fixed_chunk": (1, 1 << 30)}
"""Least and most of the number that a policy of the list takes."""


def checked(name: str, value: Any) -> int:
    """A whole number of :data:`RANGES`; raises InvalidArgument for any other value."""
    return check_count(name, value, *RANGES[name])


@dataclass(frozen=True, kw_only=True)
class State:
    """Every setting of the explorer except the workload.

    Attributes
    ----------
    gpu : devices.Gpu
    ctas_per_sm, tile, min_process_len, num_kv_heads, q_len, cache
        As for ``plan_decode`` and ``cost_model``; ``num_ctas`` is SMs times ``ctas_per_sm``.
    policy_a, policy_b : str
        Names: of a built-in policy with its parameter, or of one that the user gave.
    splits, chunk : int
        Parameters of the two fixed policies in the list while neither A nor B uses them.
    max_batch : int
        Most requests of a step where a trace is simulated.
    order, unit, scale, strip : str
        How it is drawn; see :data:`CHOICES`.
    timeline : str
        "none", "recorded", "given", or the name of one record.
    lanes : str
        What is drawn where there is a timeline.
    step : int
        Step of the trace.
    selection : int or None
        Highlighted request of the step; None highlights the one that the slower plan waits for.
    """

    gpu: devices.Gpu
    ctas_per_sm: int = 4
    policy_a: str = "hpc-ops"
    policy_b: str = "fixed_splits(32)"
    splits: int = 32
    chunk: int = 4096
    tile: int = 64
    min_process_len: int = 512
    num_kv_heads: int = 1
    q_len: int = 1
    cache: str = "fp8"
    max_batch: int = MAX_BATCH
    order: str = "cta"
    unit: str = "us"
    scale: str = "shared"
    strip: str = "over_bound"
    timeline: str = "none"
    lanes: str = "both"
    step: int = 0
    selection: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "gpu", devices.gpu(self.gpu))
        for name, allowed in CHOICES.items():
            if (value := getattr(self, name)) not in allowed:
                raise InvalidArgument(f"{name} is {value!r}. Give one of {', '.join(map(str, allowed))}.")
        for name in RANGES:
            object.__setattr__(self, name, checked(name, getattr(self, name)))

    @property
    def num_ctas(self) -> int:
        """CTAs resident at once."""
        return self.gpu.sms * self.ctas_per_sm

    def plan_arguments(self) -> dict[str, Any]:
        """Keyword arguments of ``plan_decode`` but for the policy."""
        names = ("tile", "min_process_len", "num_kv_heads", "q_len")
        return {"num_ctas": self.num_ctas, **{name: getattr(self, name) for name in names}}

    def change(self, **changes: Any) -> State:
        """A copy with some settings changed.

        Raises
        ------
        InvalidArgument
            A setting does not exist or its value is not allowed.
        """
        if unknown := sorted(set(changes) - set(self.__dataclass_fields__)):
            raise InvalidArgument(f"the explorer has no setting {', '.join(unknown)}.")
        return replace(self, **changes)


SHOWN_IN_CODE = (
    "gpu", "policy_a", "policy_b", "tile", "ctas_per_sm", "min_process_len", "num_kv_heads", "q_len", "cache",
    "max_batch", "step", "selection", "order", "unit", "scale", "strip", "timeline", "lanes",
)  # fmt: skip


def as_code(state: State, workload: str | list[int], *, note: str = "", step: int, custom: Collection[str] = ()) -> str:
    """Python that opens the explorer on the same view.

    Parameters
    ----------
    state
        The settings.
    workload
        Preset, expression or lengths.
    note
        A comment above the call.
    step
        Step within ``workload``.
    custom
        Names of policies that the user gave; the code refers to them by these names.
    """
    gpu = state.gpu
    known = devices.CATALOGUE.get(gpu.name) == gpu
    lines = ["from workbench import ScheduleExplorer"] + ([] if known else ["from workbench import devices"])
    lines += ["", *(f"# {line}" for line in note.splitlines())]
    lines += ["ScheduleExplorer(", f"    workload={workload!r},"]
    for name in SHOWN_IN_CODE:
        value = getattr(state, name)
        if name == "gpu":
            shown = repr(gpu.name) if known else _custom(gpu)
        elif name == "step":
            shown = repr(step)
        elif (
            (name == "max_batch" and value == MAX_BATCH)
            or (name == "selection" and value is None)
            or (name in ("timeline", "lanes") and state.timeline == "none")
        ):
            continue
        elif name == "timeline" and value == "given":
            shown = "timeline"  # the reader's own
        else:
            shown = repr(value)
        lines.append(f"    {name}={shown},")
    used = [name for name in (state.policy_a, state.policy_b) if name in custom]
    if used:
        pairs = ", ".join(
            f"{name!r}: {name if name.isidentifier() and not iskeyword(name) else '...'}"
            for name in dict.fromkeys(used)
        )
        lines.append(f"    policies={{{pairs}}},")
    return "\n".join([*lines, ")"]) + "\n"


def _custom(gpu: devices.Gpu) -> str:
    """The call that makes a GPU which the catalogue lacks, from the entry that it differs from least."""

    def different(base: devices.Gpu) -> dict[str, Any]:
        names = {field.name for field in fields(gpu)} - {"name", "sms", "aliases"}
        found = {name: getattr(gpu, name) for name in sorted(names) if getattr(gpu, name) != getattr(base, name)}
        if "memory_bandwidth" in found:  # else `custom` would drop the measured one
            found["measured_read_bandwidth"] = gpu.measured_read_bandwidth
        return found

    bases = [(name, different(base)) for name, base in devices.CATALOGUE.items()]
    like, changes = min(bases, key=lambda base: (len(base[1]), base[0] != "H200"))
    base = "" if like == "H200" else f", like={like!r}"  # what `custom` starts from unless told
    values = "".join(f", {name}={value!r}" for name, value in changes.items())
    return f"devices.custom({gpu.name!r}, sms={gpu.sms}{base}{values})"
