"""The HTML page around the numbers and figures; it loads nothing and asks nothing of the network."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined, select_autoescape
from markupsafe import Markup

import workbench
from workbench.report import figures
from workbench.report.analysis import LEVELS, Analysis, WorstStep
from workbench.widgets import text
from workbench.widgets.schedule.scene import Scene, make_scene
from workbench.widgets.schedule.side import evaluate, policy_title
from workbench.widgets.schedule.svg import render_svg

PICTURE_WIDTH = 1080


def render(analysis: Analysis, *, command: str) -> str:
    """The report as one HTML document.

    Parameters
    ----------
    analysis
        From :func:`workbench.report.analysis.analyse`.
    command
        The command line that makes this report, shown for whoever wants to repeat it.
    """
    templates = files("workbench.report") / "templates"
    environment = Environment(
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "us": text.us, "ratio": text.ratio, "percent": _percent, "tokens": text.tokens, "title": policy_title,
        "clock": figures.clock, "ordinal": text.ordinal, "plural": text.plural, "gain": _gain,
    }  # fmt: skip
    strip = figures.strip(analysis)
    hover = {"left": strip.left, "pitch": strip.pitch, "columns": strip.columns}
    template = environment.from_string((templates / "report.html.j2").read_text(encoding="utf-8"))
    return template.render(
        a=analysis.row(analysis.a),
        b=analysis.row(analysis.b),
        analysis=analysis,
        answer=answer(analysis),
        best_total_us=min(row.total_us for row in analysis.rows),
        command=command,
        constants=asdict(analysis.kernel.cost.constants),
        cost=analysis.kernel.cost,
        curve=Markup(figures.settings_curve(analysis)),
        histogram=Markup(figures.length_histogram(analysis)),
        hover=_script_json(hover),
        groups=_groups(analysis),
        kernel=analysis.kernel,
        levels=LEVELS,
        lost_ms=lambda row: f"{row.lost_us / 1e3:,.1f}",
        numbers=_script_json(analysis.to_dict()),
        pictures=[_picture(analysis, step) for step in analysis.worst],
        quantiles=_quantiles(analysis),
        retuned=analysis.search.retuned_call_us,
        same_steps=dict(zip(analysis.sweep.policies, _sampled(analysis), strict=True)),
        script=Markup((templates / "report.js").read_text(encoding="utf-8")),
        strip=Markup(strip.svg),
        style=Markup((templates / "report.css").read_text(encoding="utf-8")),
        version=workbench.__version__,
        worst=analysis.worst,
    )


def answer(analysis: Analysis) -> list[tuple[str, bool]]:
    """At which steps static splitting loses and by how much, as (words, whether they are stressed)."""
    b = analysis.row(analysis.b)
    steps = analysis.sweep.num_steps
    over = round(b.over[0] * steps)
    worst = next(step for step in analysis.worst if step.policy == analysis.b)
    runs = [
        ("The best static setting for this trace, ", False),
        (policy_title(b.policy), True),
        (", loses ", False),
        (_percent(b.lost_share), True),
        (" to the best policy of each step: ", False),
        (f"{over:,} of {steps:,} steps", True),
        (f" take over {LEVELS[0]:g}\u00d7 as long, at worst ", False),
        (f"{text.ratio(b.worst_ratio)}\u00d7", True),
        (f" (step {worst.number:,}, {figures.clock(worst.start_s)}). ", False),
    ]
    other = [row for row in analysis.rows if row.kind == "other static"]
    if other:
        row = max(other, key=lambda row: row.total_us)
        runs += [
            ("Not chosen for the trace, ", False),
            (policy_title(row.policy), True),
            (" loses ", False),
            (_percent(row.lost_share), True),
            (", with ", False),
            (_percent(row.over[0]), True),
            (f" of the steps over {LEVELS[0]:g}\u00d7. ", False),
        ]
    a = analysis.row(analysis.a)
    return [
        *runs,
        (policy_title(a.policy), True),
        (" has no setting and loses ", False),
        (_percent(a.lost_share) + ".", True),
    ]


def _percent(share: float) -> str:
    """A share: one decimal below ten percent, so that a small loss does not read as none."""
    if share == 0:
        return "0 %"
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %" if share < 0.0995 else f"{100 * share:,.0f} %"


def _quantiles(analysis: Analysis) -> list[tuple[str, list[str]]]:
    """Rows of the table of lengths: a name, then minimum, median, p95, p99 and maximum."""
    trace, table = analysis.trace, analysis.table
    columns = (
        ("prompt tokens of a request", trace.input_tokens, text.tokens),
        ("output tokens of a request", trace.output_tokens, text.tokens),
        ("requests in a step", table.batch, text.count),
        ("KV tokens of a step", table.kv_tokens, text.tokens),
        ("longest request of a step", table.max_length, text.tokens),
    )
    levels = (0, 0.5, 0.95, 0.99, 1)
    return [
        (name, [written(round(float(v))) for v in np.quantile(values, levels)]) for name, values, written in columns
    ]


def _gain(share: float) -> str:
    """A share with its sign."""
    return _percent(share) if share == 0 or share < 0.0005 else f"+{_percent(share)}"


def _sampled(analysis: Analysis) -> list[float]:
    """Mean call of each policy on the steps on which static settings were tried."""
    means: list[float] = analysis.sweep.call_us[:, analysis.search.steps].mean(axis=1).tolist()
    return means


def _groups(analysis: Analysis) -> list[tuple[str, int, list[tuple[float, float]]]]:
    """Steps by batch size: a label, how many, and for each policy the mean call and what it loses to the best."""
    sweep, batch = analysis.sweep, analysis.table.batch
    found = []
    size = 1
    while size <= batch.max():
        inside = (batch >= size) & (batch < 2 * size)
        if inside.any():
            best = sweep.best_call_us[inside].sum()
            calls = sweep.call_us[:, inside]
            cells = zip(calls.mean(axis=1).tolist(), (calls.sum(axis=1) / best - 1).tolist(), strict=True)
            last = min(2 * size - 1, int(batch.max()))
            label = f"{size}" if size == last else f"{size} to {last}"
            found.append((label, int(inside.sum()), list(cells)))
        size *= 2
    return found


def _picture(analysis: Analysis, step: WorstStep) -> dict[str, Any]:
    """The bins of one step under A and the static policy, for both themes."""
    titles = (analysis.a, step.policy)
    sides = [
        evaluate(key, policy_title(name), analysis.plan(name, step.index), analysis.kernel.cost)
        for key, name in zip("AB", titles, strict=True)
    ]
    header = (f"step {step.number:,}", figures.clock(step.start_s), "simulated", analysis.kernel.gpu)
    scene = make_scene(*sides, sms=analysis.kernel.sms, header=header)
    images = {theme: _data_url(scene, theme) for theme in ("light", "dark")}
    return {"step": step, "alt": scene.description, **images}


def _data_url(scene: Scene, theme: str) -> str:
    # An image of its own keeps the ids of its patterns apart from those of its neighbours.
    svg = render_svg(scene, theme=theme, width=PICTURE_WIDTH)
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _script_json(value: object) -> Markup:
    """JSON that cannot end the script element that holds it."""
    words = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        words = words.replace(character, f"\\u{ord(character):04x}")
    return Markup(words)
