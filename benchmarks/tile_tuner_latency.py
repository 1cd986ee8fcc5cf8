"""How long the tile tuner takes from moving a slider to its resources on screen, where the kernel is in the cache.

Opens a real JupyterLab in headless Chromium, with the kernels of some stages in the cache, and moves the slider through
them. A move ends with the first draw that has the resources of what the slider shows.
Writes ``docs/performance/tuning_widget.json`` with the date and the machine.

    python benchmarks/tile_tuner_latency.py [--moves 60] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "benchmarks")]

from explorer_latency import _busy_share, _cores, _cpu, _summaries  # noqa: E402
from jupyter_page import chromium, jupyter_lab, open_notebook, write_notebook  # noqa: E402

from workbench import settings  # noqa: E402
from workbench.tune.resources import resources  # noqa: E402
from workbench.tune.spaces import attention_space, router_space  # noqa: E402

NOTEBOOK = """
from workbench import TileTuner
tuner = TileTuner("{operator}")
tuner
"""
TARGET_MS = 150
STAGES = {"attention": (2, 3, 4, 6), "router": (3, 4, 5, 6, 7, 8)}

TITLES = "(ticks) => ticks.map((tick) => tick.title)"

# One move, and what is timed of it: [input to end of draw, input to presented frame, drawing alone] in milliseconds. It
# ends with the first draw that has the resources of what the slider shows.
MOVE = """
(at) => new Promise((resolve) => {
  const root = document.querySelector(".wb-tiles");
  const slider = root.querySelector("input[data-parameter='stages']");
  const start = performance.now();
  const listener = (event) => {
    if (root.dataset.state !== "ready" || Number(root.dataset.ack) <= before) return;
    root.removeEventListener("wb-drawn", listener);
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      const { started, ended } = event.detail;
      channel.port1.onmessage = () => resolve([ended - start, performance.now() - start, ended - started]);
      channel.port2.postMessage(null);
    });
  };
  const before = Number(root.dataset.ack);
  root.addEventListener("wb-drawn", listener);
  slider.value = at;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})
"""


def compile_all() -> None:
    """Have every kernel that the benchmark moves to in the cache on disk."""
    attention, router = attention_space("64x4K"), router_space(64, 192, 4096)
    for space, name in ((attention, "attention"), (router, "router")):
        default = space.default()
        configs = [space.make({**default.to_dict(), "stages": stages}) for stages in STAGES[name]]
        assert not any(found.problem for found in resources(space, configs))


def measure(moves: int) -> dict[str, Any]:
    """Time moves of a slider of each operator; returns the record."""
    executable = settings.chromium()
    if executable is None:
        raise SystemExit("no Chromium here: install Debian's `chromium`, or set WORKBENCH_CHROMIUM")
    compile_all()
    busy = _busy_share()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for operator in STAGES:
            write_notebook(folder / f"{operator}.ipynb", [NOTEBOOK.format(operator=operator)])
        with jupyter_lab(folder) as (address, token), chromium(executable) as browser:
            version = browser.version
            for operator, stages in STAGES.items():
                page = open_notebook(browser, address, token, f"{operator}.ipynb")
                page.wait_for_selector(".wb-tiles[data-frame]")
                page.wait_for_timeout(8000)  # what lies in the cache has been looked through
                titles = page.locator(".wb-t-slider:has([data-parameter='stages']) i").evaluate_all(TITLES)
                able = [at for at, title in enumerate(titles) if int(title.split(",")[0].split(":")[0]) in stages]
                times = []
                for move in range(moves + 5):
                    page.wait_for_timeout(150)
                    times.append(page.evaluate(MOVE, able[move % len(able)]))
                found[operator] = _summaries(times[5:])  # the first draws compile the script
                page.context.close()
    return {
        "what": "tile tuner: a slider moved to a configuration whose kernel is cached, until its resources are drawn",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cpu": _cpu(), "cores": _cores(), "python": platform.python_version(), "chromium": version},
        "busy_before": busy,
        "moves": moves,
        "target_ms": TARGET_MS,
        **found,
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=60)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "performance" / "tuning_widget.json")
    arguments = parser.parse_args()
    record = json.dumps(measure(arguments.moves), indent=2)
    print(record)
    arguments.output.write_text(record + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
