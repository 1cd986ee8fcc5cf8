"""The browser in a real JupyterLab in Chromium: what is on screen is what Python says, and text stays text."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Locator, Page

from tests.browser import Lab, after_frame, expect, jupyter_lab, until
from tests.widgets.profiles.samples import OVERVIEW_UNITS, fill, nsight
from workbench import ProfileBrowser
from workbench.records import Store
from workbench.widgets.profiles.frames import frame_of, rows

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
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    few, many, none = (folder / name for name in ("few", "many", "none"))
    fill(Store(few))
    for at in range(2000):
        metrics = dict.fromkeys(OVERVIEW_UNITS, 1000.0 + at)
        Store(many).add(nsight(metrics=metrics, units=OVERVIEW_UNITS, configuration={"at": at % 40, "of": at // 40}))
    setup = SETUP.format(own=str(folder / "own"), store=str(few), hostile=HOSTILE)
    other = "from workbench import ProfileBrowser\nbrowser = ProfileBrowser({!r})\nbrowser"
    cells = {"few": [setup], "many": [other.format(str(many))], "none": [other.format(str(none))]}
    with jupyter_lab(folder, **cells) as running:
        yield running


@pytest.fixture
def page(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Page]:
    """The notebook "few", or the one that a test names."""
    with lab.page(getattr(request, "param", "few"), ".wb-profiles[data-frame]", height=1700) as page:
        yield page


@pytest.fixture
def view(page: Page) -> Locator:
    return page.locator(".wb-profiles")


@pytest.fixture
def local(lab: Lab) -> ProfileBrowser:
    return ProfileBrowser(lab.folder / "few", case="2x32K+30x4K", gpu="H200", sort="isolated", descending=False)


def pick(view: Locator, *at: int) -> None:
    for picked, one in enumerate(at, 1):
        after_frame(view, view.locator(f".wb-prof-row[data-key] >> nth={one}").click)
        expect(picked_rows(view)).to_have_count(picked)


def picked_rows(view: Locator) -> Locator:
    return view.locator("[aria-selected=true][data-key]")


def test_the_table_is_the_sessions(view: Locator, local: ProfileBrowser) -> None:
    expected = rows(local.session, 0, 100)
    found = view.locator(".wb-prof-row[data-key]")
    expect(found).to_have_count(9)
    assert len(expected) == 9
    for at, row in enumerate(expected):
        expect(found.nth(at).locator("[role=gridcell]")).to_have_text(row["cells"])


def test_picking_compares_and_marks_differences_within_the_noise(view: Locator, local: ProfileBrowser) -> None:
    pick(view, 0, 1)
    local.picks = local.shown[:2]
    frame = frame_of(local.session, None)
    expect(view.locator(".wb-sentence")).to_have_text(frame["sentence"])
    for row in frame["view"]["rows"]:
        line = view.locator(f"tr[data-metric='{row['name']}']")
        expect(line.locator(".wb-prof-value span")).to_have_text([cell["value"] for cell in row["cells"]])
        change = line.locator("[data-verdict]")
        expect(change).to_have_attribute("data-verdict", row["cells"][1]["difference"]["verdict"])
        expect(change.locator("b")).to_have_text(row["cells"][1]["difference"]["words"])
        weight = change.locator("b").evaluate("node => Number(getComputedStyle(node).fontWeight)")
        assert (weight >= 700) == (row["cells"][1]["difference"]["verdict"] == "beyond")


def test_keys(page: Page, view: Locator) -> None:
    view.locator(".wb-prof-scroll").focus()
    page.keyboard.press("ArrowDown")
    after_frame(view, lambda: page.keyboard.press("Space"))
    expect(picked_rows(view)).to_have_count(1)
    page.keyboard.press("End")
    after_frame(view, lambda: page.keyboard.press("Enter"))
    expect(picked_rows(view)).to_have_count(2)
    for at, name in enumerate(("compare", "roofline", "parameter", "schedule", "notes"), 1):
        if at > 1:
            page.keyboard.press(str(at))
        expect(view.locator("[role=tab][aria-selected=true]")).to_have_attribute("data-view", name)
    page.keyboard.press("Escape")
    expect(picked_rows(view)).to_have_count(0)
    page.keyboard.press("?")
    expect(view.get_by_role("dialog")).to_be_visible()


def test_filters_and_sorting(page: Page, view: Locator) -> None:
    found = view.locator(".wb-prof-row[data-key]")
    view.get_by_label("Policy").select_option("hpc-ops")
    expect(found).to_have_count(3)
    view.get_by_label("Configuration, kernel or note").fill("stages=99")
    view.get_by_text("No capture has all of this.").wait_for()
    after_frame(view, view.get_by_role("button", name="Clear the filters").click)
    until(found.count, lambda count: count > 9)
    expect(view.locator("[role=columnheader][aria-sort=descending]")).to_have_count(0)
    view.locator("[data-sort=metric]").click()
    expect(view.locator("[role=columnheader][aria-sort=descending] [data-sort=metric]")).to_be_visible()
    column = view.locator("[role=columnheader]").evaluate_all("nodes => nodes.findIndex((n) => n.ariaSort !== 'none')")
    cells = view.locator(".wb-prof-row[data-key]").evaluate_all(
        "(nodes, at) => nodes.map((n) => parseFloat(n.querySelectorAll('[role=gridcell]')[at].textContent))", column
    )
    numbers = [value for value in cells if value is not None]
    assert numbers == sorted(numbers, reverse=True)


def test_schedules_are_painted_where_the_pieces_are(page: Page, view: Locator, local: ProfileBrowser) -> None:
    pick(view, 0, 8)
    view.locator("[data-view=schedule]").click()
    canvases = view.locator(".wb-prof-lane canvas")
    canvases.nth(3).wait_for()
    lanes = [
        lane
        for one in (local.shown[0], local.shown[8])
        for lane in (local.session.beside(one).planned, local.session.beside(one).measured)
    ]
    span = max(lane.span_us for lane in lanes)
    filled = """(canvas) => {
        const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const ground = data.slice(0, 3).join();
        let painted = 0;
        for (let i = 0; i < data.length; i += 4) painted += data.slice(i, i + 3).join() !== ground;
        return painted / (width * height);
    }"""
    for at, lane in enumerate(lanes):
        expect(view.locator(".wb-prof-lane").nth(at)).to_contain_text(f"ends at {lane.span_us:.1f} \u00b5s")
        share = float((lane.end - lane.start).sum()) / (lane.columns * span)
        until(lambda at=at: canvases.nth(at).evaluate(filled), pytest.approx(share, abs=0.06).__eq__)


def test_roofline_and_parameter(page: Page, view: Locator) -> None:
    pick(view, 0, 5)
    view.locator("[data-view=roofline]").click()
    chart = view.locator(".wb-prof-chart:visible")
    expect(chart.locator("circle")).to_have_count(2)
    expect(chart).to_contain_text("a kernel that only reads 1x128K+31x4K")
    expect(chart).to_contain_text("datasheet")
    chart.locator("svg").focus()
    page.keyboard.press("ArrowRight")
    expect(view.locator(".wb-prof-card:visible")).to_contain_text("of the measured rate")
    view.locator("[data-view=parameter]").click()
    expect(chart.locator("circle")).to_have_count(9)
    view.get_by_label("Figure").select_option("gpu__time_duration.sum")
    expect(chart.locator("svg")).to_contain_text("duration, isolated")


def test_a_hostile_note_is_text(page: Page, view: Locator, lab: Lab, local: ProfileBrowser) -> None:
    pick(view, 1)
    view.locator("[data-view=notes]").click()
    field = view.get_by_label("Note about A")
    expect(field).to_have_value(HOSTILE)
    assert view.locator(".wb-prof-noted b:not(.wb-prof-pick):text('bold')").count() == 0
    assert view.locator("img").count() == 0
    assert page.title() != "owned"
    expect(view.locator(".wb-prof-noted code").first).to_have_text(f"ncu-ui {local.shown[1].report}")
    kept = lab.folder / "own" / ".notes" / f"{local.shown[1].key}.txt"
    for words in ("from the browser", HOSTILE):
        field.fill(words)
        after_frame(view, field.blur)
        until(kept.read_text, words.__eq__)


@pytest.mark.parametrize("what", ["csv", "parquet", "html", "svg", "png"])
def test_files(page: Page, view: Locator, what: str) -> None:
    pick(view, 0, 1)
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


def test_the_picture_is_hidden_beside_the_live_view_and_kept_in_the_file(page: Page, view: Locator) -> None:
    picture = page.locator("img[alt^='Profile browser']")
    expect(picture).to_be_attached()
    expect(picture).to_be_hidden()
    outputs = page.evaluate("() => jupyterapp.shell.currentWidget.content.model.sharedModel.cells[0].getOutputs()")
    kinds = [sorted(output["data"]) for output in outputs if "data" in output]
    assert any("text/html" in kind for kind in kinds)
    assert any("application/vnd.jupyter.widget-view+json" in kind for kind in kinds)


@pytest.mark.parametrize("page", ["many"], indirect=True)
def test_two_thousand_captures_scroll(page: Page, view: Locator, lab: Lab) -> None:
    assert 10 <= view.locator(".wb-prof-row").count() < 40, "only the rows in sight are in the page"
    scroll = view.locator(".wb-prof-scroll")
    scroll.evaluate("node => { node.scrollTop = node.scrollHeight; }")
    store = ProfileBrowser(lab.folder / "many")
    last = store.shown[-1].key
    view.locator(f"[data-key='{last}']").wait_for()
    scroll.focus()
    page.keyboard.press("Home")
    view.locator(f"[data-key='{store.shown[0].key}']").wait_for()
    view.locator("[data-view=parameter]").click()
    expect(view.locator(".wb-prof-chart:visible circle")).not_to_have_count(0)


@pytest.mark.parametrize("page", ["none"], indirect=True)
def test_an_empty_store_helps(page: Page, view: Locator, lab: Lab) -> None:
    for what in ("There is no capture in this store yet", "capture(", "import_report(", "counters=False", "reload()"):
        expect(view).to_contain_text(what)
    expect(view).to_contain_text(str(lab.folder / "none"))
    Store(lab.folder / "none").add(nsight())
    view.get_by_role("button", name="Reload").click()
    expect(view.locator(".wb-prof-row[data-key]")).to_have_count(1)
