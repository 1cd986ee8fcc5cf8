"""The browser in a real JupyterLab in Chromium: what is on screen is what Python says, and text stays text."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.widgets.profiles.samples import OVERVIEW_UNITS, fill, nsight
from workbench import ProfileBrowser
from workbench.records import Store
from workbench.widgets.profiles.frames import frame_of, rows

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import jupyter_page  # noqa: E402

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=\"document.title='owned'\"> & <b>bold</b>"
SETUP = """
import os
os.environ["WORKBENCH_RECORDS_DIR"] = {own!r}
from workbench import ProfileBrowser
browser = ProfileBrowser({store!r}, case="2x32K+30x4K", gpu="H200", sort="isolated", descending=False)
browser.note(browser.shown[1], {hostile!r})
browser
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from workbench import settings

    folder = tmp_path_factory.mktemp("lab")
    few, many, none = (folder / name for name in ("few", "many", "none"))
    fill(Store(few))
    for at in range(2000):
        metrics = dict.fromkeys(OVERVIEW_UNITS, 1000.0 + at)
        Store(many).add(nsight(metrics=metrics, units=OVERVIEW_UNITS, configuration={"at": at % 40, "of": at // 40}))
    setup = SETUP.format(own=str(folder / "own"), store=str(few), hostile=HOSTILE)
    jupyter_page.write_notebook(folder / "few.ipynb", [setup])
    for name, where in (("many", many), ("none", none)):
        cell = f"from workbench import ProfileBrowser\nbrowser = ProfileBrowser({str(where)!r})\nbrowser"
        jupyter_page.write_notebook(folder / f"{name}.ipynb", [cell])
    with jupyter_page.jupyter_lab(folder) as server, jupyter_page.chromium(settings.chromium()) as running:
        yield running, server, folder


def opened(lab: Any, name: str) -> Any:
    running, (address, token), _ = lab
    page = jupyter_page.open_notebook(
        running, address, token, f"{name}.ipynb", viewport={"width": 1500, "height": 1700}, accept_downloads=True
    )
    page.set_default_timeout(20_000)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.wait_for_selector(".wb-profiles[data-frame]")
    return page, problems


@pytest.fixture
def page(lab: Any) -> Any:
    page, problems = opened(lab, "few")
    yield page
    assert problems == []
    page.context.close()


@pytest.fixture
def view(page: Any) -> Any:
    return page.locator(".wb-profiles")


@pytest.fixture
def local(lab: Any) -> ProfileBrowser:
    return ProfileBrowser(lab[2] / "few", case="2x32K+30x4K", gpu="H200", sort="isolated", descending=False)


def after_frame(page: Any, view: Any, action: Any) -> None:
    before = view.get_attribute("data-frame")
    action()
    page.wait_for_function(
        "([root, before]) => root.dataset.frame !== before", arg=[view.element_handle(), before], polling=20
    )


def pick(page: Any, view: Any, *at: int) -> None:
    for one in at:
        after_frame(page, view, view.locator(f".wb-prof-row[data-key] >> nth={one}").click)


def test_the_table_is_the_sessions(page: Any, view: Any, local: ProfileBrowser) -> None:
    expected = rows(local.session, 0, 100)
    found = view.locator(".wb-prof-row[data-key]")
    assert found.count() == len(expected) == 9
    for at, row in enumerate(expected):
        assert found.nth(at).locator("[role=gridcell]").all_inner_texts() == row["cells"]


def test_picking_compares_and_marks_differences_within_the_noise(page: Any, view: Any, local: ProfileBrowser) -> None:
    pick(page, view, 0, 1)
    local.picks = local.shown[:2]
    frame = frame_of(local.session, None)
    assert view.locator(".wb-sentence").inner_text() == frame["sentence"]
    for row in frame["view"]["rows"]:
        line = view.locator(f"tr[data-metric='{row['name']}']")
        assert line.locator(".wb-prof-value span").all_inner_texts() == [cell["value"] for cell in row["cells"]]
        change = line.locator("[data-verdict]")
        assert change.get_attribute("data-verdict") == row["cells"][1]["difference"]["verdict"]
        assert change.locator("b").inner_text() == row["cells"][1]["difference"]["words"]
        weight = change.locator("b").evaluate("node => Number(getComputedStyle(node).fontWeight)")
        assert (weight >= 700) == (row["cells"][1]["difference"]["verdict"] == "beyond")


def test_keys(page: Any, view: Any) -> None:
    view.locator(".wb-prof-scroll").focus()
    page.keyboard.press("ArrowDown")
    after_frame(page, view, lambda: page.keyboard.press("Space"))
    assert view.locator("[aria-selected=true][data-key]").count() == 1
    page.keyboard.press("End")
    after_frame(page, view, lambda: page.keyboard.press("Enter"))
    assert view.locator("[aria-selected=true][data-key]").count() == 2
    for at, name in enumerate(("compare", "roofline", "parameter", "schedule", "notes"), 1):
        if at > 1:
            after_frame(page, view, lambda key=at: page.keyboard.press(str(key)))
        assert view.locator("[role=tab][aria-selected=true]").get_attribute("data-view") == name
    after_frame(page, view, lambda: page.keyboard.press("Escape"))
    assert view.locator("[aria-selected=true][data-key]").count() == 0
    page.keyboard.press("?")
    assert view.get_by_role("dialog").is_visible()


def test_filters_and_sorting(page: Any, view: Any) -> None:
    after_frame(page, view, lambda: view.get_by_label("Policy").select_option("hpc-ops"))
    assert view.locator(".wb-prof-row[data-key]").count() == 3
    field = view.get_by_label("Configuration, kernel or note")
    after_frame(page, view, lambda: field.fill("stages=99"))
    view.get_by_text("No capture has all of this.").wait_for()
    after_frame(page, view, view.get_by_role("button", name="Clear the filters").click)
    assert view.locator(".wb-prof-row[data-key]").count() > 9
    after_frame(page, view, view.locator("[data-sort=metric]").click)
    column = view.locator("[role=columnheader]").evaluate_all("nodes => nodes.findIndex((n) => n.ariaSort !== 'none')")
    cells = view.locator(".wb-prof-row[data-key]").evaluate_all(
        "(nodes, at) => nodes.map((n) => parseFloat(n.querySelectorAll('[role=gridcell]')[at].textContent))", column
    )
    numbers = [value for value in cells if value is not None]
    assert numbers == sorted(numbers, reverse=True)


def test_schedules_are_painted_where_the_pieces_are(page: Any, view: Any, local: ProfileBrowser) -> None:
    pick(page, view, 0, 8)
    page.locator("[data-view=schedule]").click()
    canvases = view.locator(".wb-prof-lane canvas")
    canvases.nth(3).wait_for()
    lanes = [
        lane
        for one in (local.shown[0], local.shown[8])
        for lane in (local.session.beside(one).planned, local.session.beside(one).measured)
    ]
    span = max(lane.span_us for lane in lanes)
    for at, lane in enumerate(lanes):
        filled = canvases.nth(at).evaluate(
            """(canvas) => {
              const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              const ground = data.slice(0, 3).join();
              let painted = 0;
              for (let i = 0; i < data.length; i += 4) painted += data.slice(i, i + 3).join() !== ground;
              return painted / (width * height);
            }"""
        )
        share = float((lane.end - lane.start).sum()) / (lane.columns * span)
        assert filled == pytest.approx(share, abs=0.06)
        assert f"ends at {lane.span_us:.1f} \u00b5s" in view.locator(".wb-prof-lane").nth(at).inner_text()


def test_roofline_and_parameter(page: Any, view: Any) -> None:
    pick(page, view, 0, 5)
    after_frame(page, view, page.locator("[data-view=roofline]").click)
    chart = view.locator(".wb-prof-chart:visible")
    assert chart.locator("circle").count() == 2
    assert "a kernel that only reads 1x128K+31x4K" in chart.inner_text()
    assert "datasheet" in chart.inner_text()
    chart.locator("svg").focus()
    page.keyboard.press("ArrowRight")
    assert "of the measured rate" in view.locator(".wb-prof-card:visible").inner_text()
    after_frame(page, view, page.locator("[data-view=parameter]").click)
    assert chart.locator("circle").count() == 9
    after_frame(page, view, lambda: view.get_by_label("Figure").select_option("gpu__time_duration.sum"))
    assert "duration, isolated" in chart.locator("svg").text_content()


def test_a_hostile_note_is_text(page: Any, view: Any, lab: Any, local: ProfileBrowser) -> None:
    pick(page, view, 1)
    after_frame(page, view, page.locator("[data-view=notes]").click)
    field = view.get_by_label("Note about A")
    assert field.input_value() == HOSTILE
    assert view.locator(".wb-prof-noted b:not(.wb-prof-pick):text('bold')").count() == 0
    assert view.locator("img").count() == 0
    assert page.title() != "owned"
    command = view.locator(".wb-prof-noted code").first.inner_text()
    assert command == f"ncu-ui {local.shown[1].report}"
    field.fill("from the browser")
    after_frame(page, view, field.blur)
    assert (lab[2] / "own" / ".notes" / f"{local.shown[1].key}.txt").read_text() == "from the browser"
    field.fill(HOSTILE)
    after_frame(page, view, field.blur)


@pytest.mark.parametrize("what", ["csv", "parquet", "html", "svg", "png"])
def test_files(page: Any, view: Any, what: str) -> None:
    pick(page, view, 0, 1)
    view.get_by_role("button", name="Export").click()
    with page.expect_download() as waiting:
        view.locator(f"[data-export={what}]").click()
    content = Path(waiting.value.path()).read_bytes()
    if what == "csv":
        assert pd.read_csv(io.BytesIO(content))["record"].nunique() == 2
    elif what == "parquet":
        assert pd.read_parquet(io.BytesIO(content))["record"].nunique() == 2
    else:
        beginning = {"html": b"<!doctype html>", "svg": b"<svg", "png": b"\x89PNG"}
        assert content.startswith(beginning[what])


def test_the_picture_is_hidden_beside_the_live_view_and_kept_in_the_file(page: Any, view: Any) -> None:
    assert not page.locator("img[alt^='Profile browser']").is_visible()
    outputs = page.evaluate("() => jupyterapp.shell.currentWidget.content.model.sharedModel.cells[0].getOutputs()")
    kinds = [sorted(output["data"]) for output in json.loads(json.dumps(outputs)) if "data" in output]
    assert any("text/html" in kind for kind in kinds)
    assert any("application/vnd.jupyter.widget-view+json" in kind for kind in kinds)


def test_two_thousand_captures_scroll(lab: Any) -> None:
    page, problems = opened(lab, "many")
    view = page.locator(".wb-profiles")
    assert view.locator(".wb-prof-row").count() < 40, "only the rows in sight are in the page"
    scroll = view.locator(".wb-prof-scroll")
    scroll.evaluate("node => { node.scrollTop = node.scrollHeight; }")
    store = ProfileBrowser(lab[2] / "many")
    last = store.shown[-1].key
    view.locator(f"[data-key='{last}']").wait_for()
    scroll.focus()
    page.keyboard.press("Home")
    view.locator(f"[data-key='{store.shown[0].key}']").wait_for()
    page.evaluate(
        """() => document.querySelector('.wb-profiles').addEventListener('wb-drawn', ({ detail }) => {
          window.drawn = detail.ended - detail.started;
        })"""
    )
    after_frame(page, view, page.locator("[data-view=parameter]").click)
    assert page.evaluate("() => window.drawn") < 1500
    assert problems == []
    page.context.close()


def test_an_empty_store_helps(lab: Any) -> None:
    page, problems = opened(lab, "none")
    view = page.locator(".wb-profiles")
    words = view.inner_text()
    for what in ("There is no capture in this store yet", "capture(", "import_report(", "counters=False", "reload()"):
        assert what in words
    assert str(lab[2] / "none") in words
    Store(lab[2] / "none").add(nsight())
    after_frame(page, view, lambda: view.get_by_role("button", name="Reload").click())
    assert view.locator(".wb-prof-row[data-key]").count() == 1
    assert problems == []
    page.context.close()
