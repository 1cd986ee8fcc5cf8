"""How long the explorer takes from an input event to the end of its draw, kernel round trip included.

Opens a real JupyterLab in headless Chromium, moves the step slider of a trace whose steps have some 5,000 segments on
528 bins, and times each move: from the input event to the end of the draw, and to the next presented frame. The same
with a timeline laid over a plan of as many chunks, where the key for the order of the CTAs is pressed. Then opens the
home notebook in a new JupyterLab a few times, and times its first chart from the moment at which the kernel is
ready and all cells are run. Writes ``docs/performance/explorer.json`` with the date and the machine.

    python benchmarks/explorer_latency.py [--moves 60] [--openings 5] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from jupyter_page import chromium, jupyter_lab, open_notebook, run_all, write_notebook  # noqa: E402

from workbench import paths, settings  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Page

# 2,470 requests in flight, ever the same number: about 2,500 + 2,500 segments for A and B on 528 bins.
NOTEBOOK = """
import numpy as np
from workbench import ScheduleExplorer
from workbench.workloads import RequestTrace, lognormal, simulate

requests = 2470
lengths = lognormal(requests, median=600, seed=1)
trace = RequestTrace(np.zeros(requests), lengths, np.full(requests, 400), name="benchmark")
steps = simulate(trace, max_batch=requests, kv_capacity=10_000_000)
first = int(np.argmax(steps.batch_sizes == requests))
explorer = ScheduleExplorer(steps[first : first + 200], policy_b="fixed_splits(1)")
explorer
"""

# As many chunks with a timeline of A's plan; nobody measured it, but it has the stages and merges of one that was.
TIMELINE_NOTEBOOK = """
import sys
sys.path.insert(0, ROOT)
from tests.widgets.invented import invented
from workbench import ScheduleExplorer
from workbench.workloads import lognormal

explorer = ScheduleExplorer(lognormal(2470, median=800, seed=1), policy_b="fixed_splits(1)")
explorer.timeline = invented(explorer.plan_a, explorer.session.cost)
explorer
"""

# One input, and what is timed of it: [input to end of draw, input to presented frame, drawing alone] in milliseconds.
INPUT = """
(act, argument) => new Promise((resolve) => {
  const root = document.querySelector(".wb-explorer");
  const start = performance.now();
  root.addEventListener("wb-drawn", (event) => {
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      const { started, ended } = event.detail;
      channel.port1.onmessage = () => resolve([ended - start, performance.now() - start, ended - started]);
      channel.port2.postMessage(null);
    });
  }, { once: true });
  act(root, argument);
})
"""

MOVE_SLIDER = """
(root, step) => {
  const slider = root.querySelector("input[type=range]");
  slider.value = step;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
}
"""

PRESS_ORDER = """
(root) => root.querySelector(".wb-overlay").dispatchEvent(new KeyboardEvent("keydown", { key: "o", bubbles: true }))
"""

SIZES = "() => [...document.querySelectorAll('.wb-panel-title')].map((node) => node.textContent)"


def percentile(values: list[float], share: float) -> float:
    """The value below which ``share`` of the sorted values lie, by nearest rank."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def first_chart(executable: Path) -> float:
    """Seconds from a kernel that is ready to the first chart of the home notebook, all cells being run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "notebooks"
        shutil.copytree(paths.notebooks_dir(), folder)
        with jupyter_lab(folder) as (address, token), chromium(executable) as browser:
            page = open_notebook(browser, address, token, "00_workbench.ipynb", run=False)
            start = time.perf_counter()
            run_all(page)
            page.wait_for_selector(".wb-explorer[data-frame]", state="attached")
            return time.perf_counter() - start


def measure(moves: int, openings: int) -> dict[str, object]:
    """Time slider moves and openings of the home notebook; returns the record."""
    executable = settings.chromium()
    if executable is None:
        raise SystemExit("no Chromium here: install Debian's `chromium`, or set WORKBENCH_CHROMIUM")
    busy = _busy_share()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_notebook(folder / "latency.ipynb", [NOTEBOOK])
        write_notebook(folder / "timeline.ipynb", [TIMELINE_NOTEBOOK.replace("ROOT", repr(str(ROOT)))])
        with jupyter_lab(folder) as (address, token), chromium(executable) as browser:
            page = open_notebook(browser, address, token, "latency.ipynb")
            page.wait_for_selector(".wb-explorer[data-frame]")
            page.wait_for_function("() => !document.querySelector('.wb-strip .wb-note').textContent.includes('%')")
            times = _inputs(page, MOVE_SLIDER, moves)
            panels, version = page.evaluate(SIZES), browser.version
            page.context.close()
            page = open_notebook(browser, address, token, "timeline.ipynb")
            page.wait_for_selector(".wb-explorer[data-frame]")
            measured = _inputs(page, PRESS_ORDER, moves)
            measured_panels = page.evaluate(SIZES)
    charts = sorted(round(first_chart(executable), 2) for _ in range(openings))
    return {
        "what": "explorer: step slider moved, kernel round trip included",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cpu": _cpu(), "cores": _cores(), "python": platform.python_version(), "chromium": version},
        "busy_before": busy,
        "panels": panels,
        "moves": moves,
        **_summaries(times),
        "target_p95_ms": 50,
        "with_a_timeline": {
            "what": "order of the CTAs changed, kernel round trip included; the timeline is invented",
            "panels": measured_panels,
            **_summaries(measured),
        },
        "home_notebook_to_first_chart_s": {
            "openings": charts,
            "median": statistics.median(charts) if charts else None,
            "target": 5,
        },
    }


def _inputs(page: Page, act: str, count: int) -> list[list[float]]:
    """Times of ``count`` inputs, as INPUT gives them."""
    script = f"(argument) => ({INPUT})({act}, argument)"
    for step in range(1, 6):  # the first draws compile the script
        page.evaluate(script, step)
    times = []
    for step in range(10, 10 + count):
        page.wait_for_timeout(150)
        times.append(page.evaluate(script, step))
    return times


def _summaries(times: list[list[float]]) -> dict[str, dict[str, float]]:
    names = ("input_to_end_of_draw", "input_to_presented_frame", "drawing_alone")

    def summary(values: list[float]) -> dict[str, float]:
        return {
            "median_ms": round(statistics.median(values), 1),
            "p95_ms": round(percentile(values, 0.95), 1),
            "worst_ms": round(max(values), 1),
        }

    return {name: summary(list(column)) for name, column in zip(names, zip(*times, strict=True), strict=True)}


def _busy_share(seconds: float = 3.0) -> float | None:
    """Share of all cores that is busy before anything is measured: on a busy machine the times mean little."""
    stat = Path("/proc/stat")
    if not stat.is_file():
        return None

    def read() -> tuple[int, int]:
        ticks = [int(value) for value in stat.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
        return sum(ticks), ticks[3] + ticks[4]

    (total, idle), _ = read(), time.sleep(seconds)
    later_total, later_idle = read()
    return round(1 - (later_idle - idle) / (later_total - total), 2)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        if names:
            return names[0]
    return platform.processor() or platform.machine()


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moves", type=int, default=60)
    parser.add_argument("--openings", type=int, default=5)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "performance" / "explorer.json")
    arguments = parser.parse_args()
    record = measure(arguments.moves, arguments.openings)
    text = json.dumps(record, indent=2) + "\n"
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
