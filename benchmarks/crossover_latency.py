"""How long the crossover tuner takes from moving a threshold to the end of its draw, kernel round trip included.

Opens a real JupyterLab in headless Chromium and moves a threshold with the arrow keys under two traffics: the shipped
sample, and one with every M from 1 to 8,192. Writes ``docs/performance/crossover_tuner.json`` with the date and the
machine.

    python benchmarks/crossover_latency.py [--moves 60] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "benchmarks")]

from explorer_latency import _busy_share, _cores, _cpu, _summaries  # noqa: E402
from jupyter_page import chromium, jupyter_lab, open_notebook, write_notebook  # noqa: E402

from workbench import settings  # noqa: E402

NOTEBOOK = """
from workbench import CrossoverTuner
tuner = CrossoverTuner("longcat-chat", precision="tf32", traffic="{traffic}", providers=("hpc", "cublas-tf32"))
tuner.thresholds = [(0, "cublas-tf32"), (64, "hpc")]
tuner
"""
TRAFFICS = ("sample", "even")
TARGET_P95_MS = 50

# One move, and what is timed of it: [input to end of draw, input to presented frame, drawing alone] in milliseconds.
MOVE = """
(key) => new Promise((resolve) => {
  const root = document.querySelector(".wb-crossover");
  const start = performance.now();
  root.addEventListener("wb-drawn", (event) => {
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      const { started, ended } = event.detail;
      channel.port1.onmessage = () => resolve([ended - start, performance.now() - start, ended - started]);
      channel.port2.postMessage(null);
    });
  }, { once: true });
  root.querySelector("[data-threshold]").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
})
"""


def measure(moves: int) -> dict[str, object]:
    """Time moves of a threshold under each traffic; returns the record."""
    executable = settings.chromium()
    if executable is None:
        raise SystemExit("no Chromium here: install Debian's `chromium`, or set WORKBENCH_CHROMIUM")
    busy = _busy_share()
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for traffic in TRAFFICS:
            write_notebook(folder / f"{traffic}.ipynb", [NOTEBOOK.format(traffic=traffic)])
        with jupyter_lab(folder) as (address, token), chromium(executable) as browser:
            version = browser.version
            for traffic in TRAFFICS:
                page = open_notebook(browser, address, token, f"{traffic}.ipynb")
                page.wait_for_selector(".wb-crossover [data-threshold]")
                for _ in range(5):  # the first draws compile the script
                    page.evaluate(MOVE, "ArrowRight")
                times = []
                for move in range(moves):
                    page.wait_for_timeout(150)
                    times.append(page.evaluate(MOVE, "ArrowRight" if move % 2 else "ArrowLeft"))
                found[traffic] = _summaries(times)
                page.context.close()
    return {
        "what": "crossover tuner: a threshold moved by one row, kernel round trip included",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cpu": _cpu(), "cores": _cores(), "python": platform.python_version(), "chromium": version},
        "busy_before": busy,
        "moves": moves,
        "target_p95_ms": TARGET_P95_MS,
        **found,
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=60)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "performance" / "crossover_tuner.json")
    arguments = parser.parse_args()
    record = json.dumps(measure(arguments.moves), indent=2)
    print(record)
    arguments.output.write_text(record + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
