"""Small parts of the report's figures; the whole page is in ``tests/cli/test_report.py``."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, replace

import pytest

from workbench import devices
from workbench.report import figures
from workbench.report.analysis import analyse
from workbench.report.kernel import Kernel
from workbench.schedule import resolve
from workbench.workloads import RequestTrace, simulate, synthetic_trace

H200 = Kernel(devices.gpu("H200"), 4, 1, 8, 128, 64, 512, 1, "fp8")


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (61.9, "1:01"), (2463, "41:03"), (3753.2, "1:02:33")])
def test_clock(seconds, shown):
    assert figures.clock(seconds) == shown


def test_a_long_name_keeps_the_end_that_tells_it_apart():
    @dataclass(frozen=True)
    class Policy:
        name: str = "a_file_of_policies_of_mine.py:greedy"

        def plan(self, problem):
            return replace(resolve("lpt").plan(problem), policy=self.name)

    trace = RequestTrace([0.0], [10], [2])
    found = analyse(trace, simulate(trace), H200, given=[Policy()], every=1)
    words = ["".join(text.itertext()) for text in ElementTree.fromstring(figures.strip(found).svg).iter("text")]
    (shown,) = [word for word in words if word.endswith("greedy")]
    assert shown == "\u2026of_mine.py:greedy"
    assert len(shown) == figures.LABEL


@pytest.mark.parametrize(
    "trace",
    [RequestTrace([0.0], [10], [2]), RequestTrace([0.0, 0.0], [500, 500], [3, 3]), synthetic_trace(30)],
    ids=["one step", "equal requests", "usual"],
)
def test_figures_are_well_formed_and_name_the_extremes(trace):
    found = analyse(trace, simulate(trace), H200, given=[resolve("balanced")], every=1)
    strip = figures.strip(found)
    assert len(strip.columns) == min(found.sweep.num_steps, figures.PLOT)
    drawing = ElementTree.fromstring(strip.svg)
    words = ["".join(text.itertext()) for text in drawing.iter("text")]
    for row in found.rows:
        assert f"{row.worst_ratio:.2f}\u00d7" in words
    marks = [path for path in drawing.iter("path") if path.get("class") == "mark"]
    assert len(marks) == len(found.worst)
    for curve in figures.settings_curve(found).split("</svg>")[:-1]:
        spots = [c for c in ElementTree.fromstring(curve + "</svg>").iter("circle") if "best" in c.get("class")]
        assert len(spots) == 1
    bars = ElementTree.fromstring(figures.length_histogram(found)).iter("rect")
    counts = [bar.findtext("title").rpartition(": ")[2].split()[0] for bar in bars]
    assert sum(int(count.replace(",", "")) for count in counts) == len(trace)
