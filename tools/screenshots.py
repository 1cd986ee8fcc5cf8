"""Screenshots of the real widgets in JupyterLab, for README and docs: ``docs/images/*.png``.

    python tools/screenshots.py [--output FOLDER] [--trace FILE]

Without a trace the sample that ships with the workbench is used. The pictures of a timeline show a recorded one;
without a record of it they are left out, and the last line says so. Those of the profile browser show shipped captures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from jupyter_page import chromium, jupyter_lab, open_notebook, write_notebook  # noqa: E402

from workbench import settings  # noqa: E402
from workbench.widgets.schedule.session import Session  # noqa: E402

TRACE = """
from workbench import ScheduleExplorer
from workbench.workloads import read_trace, sample_trace, simulate
trace = read_trace({path!r}) if {path!r} else sample_trace()
steps = simulate(trace, max_batch=64)[:4096]
explorer = ScheduleExplorer(steps, policy_b="fixed_splits(32)")
strip = explorer.all_steps()
while not strip.finished:
    strip.advance(1)
ratio = strip.call_us[1] / strip.call_us[0]
explorer.step = int((ratio * (steps.batch_sizes > 20)).argmax())
explorer
"""

MANY = """
from workbench import ScheduleExplorer
from workbench.workloads import lognormal
ScheduleExplorer(lognormal(2048, median=900, sigma=1.1, seed=2), policy_a="balanced", policy_b="hpc-ops")
"""

# A recorded timeline over its plan, and the recorded times of the same batch below.
CASE = "2x32K+30x4K"
RECORDED = {"policy_a": "hpc-ops", "policy_b": "fixed_splits(8)", "ctas_per_sm": 1, "timeline": "recorded"}
TIMELINE = f"""
from workbench import ScheduleExplorer
ScheduleExplorer({CASE!r}, **{RECORDED!r})
"""

# Dynamic and static maps of that batch, captured with the default configuration: plan, stamps and counters.
PROFILES = f"""
from workbench import ProfileBrowser
browser = ProfileBrowser(operator="attention_decode", case={CASE!r}, sort="isolated", descending=False)
default = [one for one in browser.shown if one.runs >= 3 and one.record.configuration["stages"] == 3]
browser.picks = [one for one in default if one.policy in ("balanced", "fixed_splits(8)")]
browser.view = "schedule"
browser
"""

SCALE = 1.5
ATTEMPTS = 5


def shoot(folder: Path, cell: str, path: Path, *, dark: bool = False, panel: int = 1) -> None:
    """Run one cell and photograph the explorer that it shows, with the card of a chunk of one panel open."""
    write_notebook(folder / "shot.ipynb", [cell])
    with jupyter_lab(folder, dark=dark) as (address, token), chromium(chromium_here()) as browser:
        view = {"viewport": {"width": 1366, "height": 1300}, "device_scale_factor": SCALE}
        page = open_notebook(browser, address, token, "shot.ipynb", **view)
        page.wait_for_selector(".wb-explorer[data-frame]")
        page.wait_for_function(
            "() => [...document.querySelectorAll('.wb-policy-time')].every((node) => node.textContent !== '\\u00b7')"
        )
        if page.locator(".wb-strip:visible").count():
            page.wait_for_function("() => document.querySelector('.wb-strip .wb-note').textContent.startsWith('worst')")
        page.locator(".wb-figures:visible").wait_for()
        plot, card = page.locator(".wb-overlay").nth(panel), page.locator(".wb-card")
        for _ in range(ATTEMPTS):  # a frame that comes meanwhile closes the card, and may move the plot
            box, found = plot.bounding_box(), page.evaluate(LONGEST, panel)
            assert box is not None
            page.mouse.move(0, 0)
            page.mouse.move(box["x"] + found[0], box["y"] + found[1])
            card.wait_for()
            picture = page.locator(".wb-explorer").screenshot()
            if card.is_visible():
                path.write_bytes(picture)
                return
        raise SystemExit(f"{path.name}: the card of a chunk does not stay open")


def shoot_profiles(folder: Path, path: Path, *, dark: bool) -> None:
    """Photograph the profile browser with the schedules of two captures."""
    write_notebook(folder / "shot.ipynb", [PROFILES])
    with jupyter_lab(folder, dark=dark) as (address, token), chromium(chromium_here()) as browser:
        view = {"viewport": {"width": 1366, "height": 1300}, "device_scale_factor": SCALE}
        page = open_notebook(browser, address, token, "shot.ipynb", **view)
        found = page.locator(".wb-profiles[data-frame]")
        found.locator("canvas").nth(3).wait_for()  # plan and stamps of both
        path.write_bytes(found.screenshot())


def chromium_here() -> Path:
    """The browser that takes the pictures."""
    executable = settings.chromium()
    if executable is None:
        raise SystemExit("no Chromium here: install Debian's `chromium`, or set WORKBENCH_CHROMIUM")
    return executable


# A point in the selected request's tallest block of a panel, found by its colour on the canvas.
LONGEST = """
(panel) => {
  const canvas = document.querySelectorAll(".wb-plot canvas:first-child")[panel];
  const ratio = window.devicePixelRatio;
  const style = getComputedStyle(document.querySelector(".wb-explorer")).getPropertyValue("--wb-request-0").trim();
  const want = [1, 3, 5].map((at) => parseInt(style.slice(at, at + 2), 16));
  const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let best = [0, 0, 0];
  for (let x = 0; x < width; x += 1) {
    const rows = [];
    for (let y = 0; y < height; y += 1) {
      const at = 4 * (y * width + x);
      if (want.every((value, i) => data[at + i] === value)) rows.push(y);
    }
    if (rows.length > best[2]) best = [x, rows[Math.floor(0.7 * rows.length)], rows.length];
  }
  return [(best[0] + 0.5) / ratio, best[1] / ratio];
}
"""


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--trace", default="", help="request trace to show; default: the sample")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    trace = TRACE.format(path=str(Path(arguments.trace).resolve()) if arguments.trace else "")
    pictures = [("light", trace, False, 1), ("dark", trace, True, 1), ("2048-requests", MANY, False, 1)]
    if recorded := bool(Session(CASE, **RECORDED).measured()):
        pictures += [("timeline-light", TIMELINE, False, 0), ("timeline-dark", TIMELINE, True, 0)]
    for name, cell, dark, panel in pictures:
        with tempfile.TemporaryDirectory() as folder:
            shoot(Path(folder), cell, arguments.output / f"explorer-{name}.png", dark=dark, panel=panel)
    for name, dark in (("light", False), ("dark", True)):
        with tempfile.TemporaryDirectory() as folder:
            shoot_profiles(Path(folder), arguments.output / f"profiles-{name}.png", dark=dark)
    if not recorded:
        print(f"no timeline of {CASE} under {RECORDED['policy_a']} is recorded: pictures of it are left out")


if __name__ == "__main__":
    main()
