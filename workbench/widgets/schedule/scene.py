"""One screen described once: the canvas in the browser and the static SVG both draw this and nothing else.

Heights in pixels are decided here, because labels must not overlap; widths are left to whoever draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from workbench.widgets import text
from workbench.widgets.colours import FIRST_STEP, request_classes
from workbench.widgets.schedule.lane import Lane
from workbench.widgets.schedule.layout import Layout, make_layouts
from workbench.widgets.schedule.measured import Measured
from workbench.widgets.schedule.panel import Panel, make_panel
from workbench.widgets.schedule.residual import Residual
from workbench.widgets.schedule.sentence import Row, Run, mark, rows, sentence
from workbench.widgets.schedule.side import Side
from workbench.widgets.schedule.summary import MeasuredRow, in_words, measured_rows

SCALES = ("shared", "own")

ASSUMED = "SM = CTA mod SMs is assumed"


@dataclass(frozen=True)
class View:
    """How the plans are looked at.

    Attributes
    ----------
    order, unit, scale, lanes : str
        See `ORDERS`, `UNITS` and `LANES` in ``panel``, and :data:`SCALES`.
    selected : int or None
        Index of the highlighted request.
    """

    order: str = "cta"
    unit: str = "us"
    scale: str = "shared"
    selected: int | None = None
    lanes: str = "both"


@dataclass(frozen=True)
class Chip:
    """One entry of the legend: a request, or all others together."""

    colour: int
    label: str
    detail: str
    request: int | None
    selected: bool = False


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything one screen shows of two plans.

    Attributes
    ----------
    header : tuple of str
        Facts of the step, from general to particular.
    sentence : tuple of Run
        The answer.
    rows : tuple of Row
        The table.
    legend : tuple of Chip
    panels : tuple of Panel
        Those sides that have a plan.
    layouts : tuple of Layout
        One a panel.
    columns, sms : int
        Resident CTAs, and SMs they share.
    unit, order : str
    footer : tuple of str
        Where the numbers come from.
    description : str
        The screen in words, for readers who cannot see it.
    mark : str
        Stands before every number that the cost model is in, and before its source.
    measured : tuple of MeasuredRow
        The table of timelines, empty without one.
    axis : str
        What the columns are called.
    """

    header: tuple[str, ...]
    sentence: tuple[Run, ...]
    rows: tuple[Row, ...]
    legend: tuple[Chip, ...]
    panels: tuple[Panel, ...]
    layouts: tuple[Layout, ...]
    columns: int
    sms: int
    unit: str
    order: str
    footer: tuple[str, ...]
    description: str
    mark: str = ""
    measured: tuple[MeasuredRow, ...] = ()
    axis: str = ""

    def to_message(self) -> dict[str, Any]:
        """The scene as plain data; arrays as bytes, little-endian, in the types that `Panel` names."""
        listed = ("sentence", "rows", "legend", "layouts", "measured")
        message = {name: [_plain(item) for item in getattr(self, name)] for name in listed}
        named = ("columns", "sms", "unit", "order", "description", "mark", "axis")
        plain = {name: getattr(self, name) for name in named}
        lists = {"header": list(self.header), "footer": list(self.footer)}
        return message | plain | lists | {"panels": [_panel_message(panel) for panel in self.panels]}


def make_scene(
    a: Side | None,
    b: Side | None,
    *,
    sms: int,
    view: View | None = None,
    header: Sequence[str] = (),
    titles: tuple[str, str] = ("", ""),
    problems: tuple[str, str] = ("", ""),
    measured: Mapping[str, Measured] | None = None,
) -> Scene:
    """Describe the screen of two plans.

    Parameters
    ----------
    a, b
        What :func:`workbench.widgets.schedule.side.evaluate` made of the plans; None where a policy gives none.
    sms
        Streaming multiprocessors of the GPU.
    view
        How to look at it; a selection of None picks the request that the slower plan waits for.
    header
        Facts about the workload that the plans do not know, such as its name.
    titles, problems
        For a side that is None: the policy's name, and why it has no plan.
    measured
        Timelines of the plans by side.
    """
    view, measured = view or View(), measured or {}
    sides = [side for side in (a, b) if side]
    words = sentence(a, b)
    table = rows(a, b, (a.title if a else titles[0], b.title if b else titles[1]), problems)
    description = "".join(run.text for run in words)
    if not sides:
        return Scene(tuple(header), words, table, (), (), (), 0, sms, view.unit, view.order, (), description)
    lengths = sides[0].plan.lengths
    selected = view.selected if view.selected is not None else culprit(sides)
    classes, heavy = request_classes(lengths, selected, hues=view.order != "sm")  # one hue stands out among SMs
    others = {"A": b, "B": a}
    columns = max([side.columns for side in sides] + [found.slots for found in measured.values()])
    panels = tuple(
        make_panel(
            side, classes, order=view.order, unit=view.unit, sms=sms, columns=columns, other=others[side.key],
            measured=measured.get(side.key), lanes=view.lanes,
        )
        for side in sides
    )  # fmt: skip
    table_measured = measured_rows(sides, measured)
    told = [description, *(f"{panel.key}, {panel.title}: {panel.note}." for panel in panels), in_words(table_measured)]
    return Scene(
        header=(*header, *_facts(sides[0])),
        sentence=words,
        rows=table,
        legend=_legend(sides[0], selected, heavy),
        panels=panels,
        layouts=make_layouts(panels, view.scale),
        columns=columns,
        sms=sms,
        unit=view.unit,
        order=view.order,
        footer=_footer(sides, measured),
        description=" ".join(filter(None, told)),
        mark=mark(sides[0].metrics.source),
        measured=table_measured,
        axis=_axis_name(panels, view.order),
    )


def culprit(sides: Sequence[Side]) -> int | None:
    """The request that the slower plan waits for."""
    return max(sides, key=lambda side: side.metrics.call_us).metrics.culprit_request


def _facts(side: Side) -> tuple[str, ...]:
    plan = side.plan
    facts = [text.plural(plan.problem.batch, "request"), text.of_tokens(int(plan.lengths.sum())).replace(" ", " KV ")]
    if plan.num_kv_heads > 1:
        facts.append(text.plural(plan.num_kv_heads, "KV head"))
    return tuple(facts)


def _legend(side: Side, selected: int | None, heavy: tuple[int, ...]) -> tuple[Chip, ...]:
    lengths = side.plan.lengths
    total = int(lengths.sum())
    chosen = ([selected] if selected is not None else []) + list(heavy)
    chips = []
    for request in chosen:
        length = int(lengths[request])
        detail = f"{text.tokens(length)}  {text.percent(length / total)}" if total else text.tokens(length)
        colour = 0 if request == selected else 1 + heavy.index(request)
        chips.append(Chip(colour, str(request), detail, request, request == selected))
    rest = np.delete(lengths, chosen)
    if rest.size:
        low, high = text.tokens(int(rest.min())), text.tokens(int(rest.max()))
        chips.append(
            Chip(FIRST_STEP, text.plural(rest.size, "other"), low if low == high else f"{low} to {high}", None)
        )
    return tuple(chips)


def _footer(sides: Sequence[Side], measured: Mapping[str, Measured]) -> tuple[str, ...]:
    sources = dict.fromkeys(side.metrics.source for side in sides)
    decides = ("balanced decides by these times",) if any(side.plan.policy == "balanced" for side in sides) else ()
    origins = dict.fromkeys(found.source for found in measured.values())
    stamps = [
        f"{origin}: {' and '.join(key for key, found in measured.items() if found.source == origin)}"
        for origin in origins
    ]
    assumed = [side.key for side in sides if side.key not in measured]
    words = ASSUMED if len(assumed) == len(sides) else f"{ASSUMED} of {assumed[0]}" if assumed else "SMs as stamped"
    return (*(f"{mark(source)} {source}" for source in sources), *stamps, *decides, words, "K is 1,024 tokens")


def _axis_name(panels: Sequence[Panel], order: str) -> str:
    """What the numbers below the columns count; SMs of one panel only, where the other's lie elsewhere."""
    if order != "sm":
        return "CTA"
    same = all(np.array_equal(panel.sm, panels[0].sm) for panel in panels)
    return "SM" if same else f"SM of {panels[0].key}"


def _plain(value: Any) -> Any:
    """Frozen dataclasses and tuples as dictionaries and lists; unlike ``asdict`` it copies nothing else."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return {name: _plain(item) for name, item in vars(value).items()} if is_dataclass(value) else value


def _panel_message(panel: Panel | Lane | Residual) -> dict[str, Any]:
    """A panel and what hangs on it; arrays as bytes."""
    message: dict[str, Any] = {}
    for spec in fields(panel):
        value = getattr(panel, spec.name)
        if isinstance(value, np.ndarray):
            message[spec.name] = value.tobytes()
        elif isinstance(value, (Lane, Residual)):
            message[spec.name] = _panel_message(value)
        elif spec.name == "blocks":
            message[spec.name] = [_plain(block) for block in value]
        elif spec.name != "lines":
            message[spec.name] = value
    return message
