"""The tuner in a real JupyterLab in Chromium: what is on screen is what Python says, by pointer and by keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from tests.browser import ROOT, Lab, expect, jupyter_lab, resize
from tests.widgets.tiles.samples import Gate, store_of
from workbench import TileTuner
from workbench.tune.spaces import router_space

pytestmark = pytest.mark.browser

TIME = 6
"""Cell of a row that has a mark beside it, which says where the time is from."""

SETUP = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
import os, tempfile
from pathlib import Path
for name in ("STUDIES", "TABLES", "RECORDS"):
    os.environ[f"WORKBENCH_{{name}}_DIR"] = tempfile.mkdtemp()
from tests.widgets.tiles.samples import Gate, store_of
from workbench.tune.spaces import router_space
from workbench import TileTuner
space = router_space(64, 192, 4096)
store = store_of(Path(tempfile.mkdtemp()), space, space.promising(30))
tuner = TileTuner("router", store=store)
tuner
"""
STUDY = """
live = TileTuner("router", m=128, most=6, bench=Gate(Path("gate").resolve()).bench, store=store)
live
"""


@pytest.fixture
def local(tmp_path: Path) -> TileTuner:
    """The tuner of the notebook's first cell; what the comparison on screen needs is compiled."""
    space = router_space(64, 192, 4096)
    tuner = TileTuner("router", store=store_of(tmp_path / "store", space, space.promising(30)))
    for config in (tuner.best, tuner.default):
        tuner.values = config
        assert not tuner.resources.problem
    return tuner


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with jupyter_lab(tmp_path_factory.mktemp("lab"), tiles=[SETUP, "tuner", STUDY]) as running:
        yield running


@pytest.fixture
def page(lab: Lab) -> Iterator[Page]:
    """The notebook, run anew: two views of one tuner, and one that has a study to run behind `gate`."""
    with lab.page("tiles", ".wb-tiles[data-frame] >> nth=2", height=4200) as page:
        yield page


@pytest.fixture
def view(page: Page) -> Locator:
    return page.locator(".wb-tiles").first


@pytest.fixture
def gate(lab: Lab) -> Gate:
    """Of the study's bench."""
    return Gate(lab.folder / "gate")


def check(view: Locator, tuner: TileTuner) -> None:
    """The screen says what this Python object says, once it has caught up."""
    if not tuner.refused:
        assert not tuner.resources.problem
    expect(view.locator(".wb-sentence")).to_have_text("".join(run["text"] for run in tuner.frame["sentence"]))
    for row in tuner.frame["rows"]:
        cells = [f"{cell} {row['mark']}" if at == TIME else cell for at, cell in enumerate(row["cells"])]
        expect(view.locator(f"[data-row='{row['key']}'] td:not(.wb-tcol-1)")).to_have_text(cells)


def test_numbers_are_pythons(view: Locator, local: TileTuner) -> None:
    check(view, local)
    rows = len(local.scene["rows"])
    expect(view.locator(".wb-t-table tbody tr")).to_have_count(rows)
    expect(view.locator("[data-line]")).to_have_count(rows)
    assert len(local.scene["error"]["points"]) == 30
    expect(view.locator("[data-chart='error'] [data-point]")).to_have_count(30)


def test_a_slider_by_keys(page: Page, view: Locator, local: TileTuner) -> None:
    slider = view.locator("input[data-parameter='stages']")
    slider.focus()
    page.keyboard.press("ArrowRight")
    local.values = {"stages": 6}
    check(view, local)
    expect(slider).to_have_attribute("aria-valuetext", "6")
    check(page.locator(".wb-tiles").nth(1), local)
    page.keyboard.press("d")
    local.values = local.default
    check(view, local)


def test_what_cannot_run_says_so_while_the_slider_moves(page: Page, view: Locator, local: TileTuner) -> None:
    local.values = {"tile_n": 128}
    assert local.refused
    slider = view.locator("input[data-parameter='tile_n']")
    slider.focus()
    page.keyboard.press("End")
    check(view, local)
    said = re.compile(re.escape(local.refused))
    expect(slider).to_have_attribute("aria-valuetext", said)
    struck = view.locator(".wb-t-slider:has([data-parameter='tile_n']) .wb-t-refused")
    expect(struck.first).to_have_attribute("title", said)
    expect(view.locator("[data-row='here']")).to_have_count(0)
    expect(view.locator(".wb-t-below")).not_to_contain_text("Known when it is compiled")
    page.keyboard.press("d")
    local.values = local.default
    check(view, local)


def test_a_row_and_a_point_come_on_screen(page: Page, view: Locator, local: TileTuner) -> None:
    header = view.get_by_role("button", name="\u00b5s a call")
    header.click()
    expect(view.locator("th[aria-sort='ascending']")).to_have_text(re.compile("\u00b5s a call"))
    fastest = min(range(len(local.scene["rows"])), key=lambda at: local.scene["rows"][at]["keys"][-3])
    row = view.locator(".wb-t-table tbody tr").first
    expect(row).to_have_attribute("data-config", str(fastest))
    row.focus()
    page.keyboard.press("Enter")
    local.values = local.scene["rows"][fastest]["values"]
    check(view, local)
    view.locator("[data-chart='error'] svg").first.focus()
    page.keyboard.press("ArrowRight")
    expect(view.locator("[data-chart='error'] .wb-t-card")).to_be_visible()
    page.keyboard.press("Enter")
    first = min(local.scene["error"]["points"], key=lambda point: (point[1], point[2]))[0]
    local.values = local.scene["rows"][first]["values"]
    check(view, local)
    view.locator(".wb-t-compared").get_by_role("button", name="default").click()
    local.values = local.default
    check(view, local)


def test_a_value_of_an_axis_keeps_its_lines(page: Page, view: Locator, local: TileTuner) -> None:
    wanted = [row for row in local.scene["rows"] if row["values"]["tile_n"] == 32]
    lines, rows = view.locator("[data-line]"), view.locator(".wb-t-table tbody tr")
    value = view.locator("[data-filter='tile_n=32']")
    value.focus()
    page.keyboard.press("Enter")
    expect(value).to_have_attribute("aria-checked", "true")
    expect(value).to_be_focused()
    expect(lines).to_have_count(len(wanted))
    expect(rows).to_have_count(len(wanted))
    view.get_by_role("button", name="show all").click()
    expect(lines).to_have_count(len(local.scene["rows"]))


def test_bad_input_is_told(page: Page, view: Locator, local: TileTuner) -> None:
    fault = view.locator(".wb-controls .wb-fault")
    box = view.get_by_label("K and N of another router")
    box.fill("4096,<img src=x onerror=alert(1)>")
    page.keyboard.press("Enter")
    expect(fault).to_contain_text("is no router")
    tokens = view.get_by_label("Tokens M")
    for typed, said in (("-3", "m is '-3'"), ("64.5", "m is '64.5'")):
        tokens.fill(typed)
        page.keyboard.press("Enter")
        expect(fault).to_contain_text(said)
    check(view, local)
    view.get_by_role("radio", name="Attention").click()
    expect(view.locator(".wb-facts")).to_contain_text("64x4K")
    expect(view.locator("[data-chart='error']")).to_contain_text("nothing of this workload was")
    expect(view.locator("[data-chart='error'] svg")).to_be_hidden()
    expect(fault).to_be_hidden()
    view.get_by_role("radio", name="Router").click()
    expect(view.locator(".wb-facts")).to_contain_text("M64")
    check(view, local)


def test_exports(page: Page, view: Locator, tmp_path: Path) -> None:
    menu = view.get_by_role("button", name="Export")

    def export(what: str) -> Path:
        menu.click()
        with page.expect_download() as download:
            view.locator(f"[data-export='{what}']").click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path

    assert export("table").read_text().startswith("tile_m,tile_n,stages")
    assert export("svg").read_text().startswith("<svg")
    assert export("png").read_bytes().startswith(b"\x89PNG")
    menu.click()
    expect(view.locator("[data-export='table']")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(view.locator("[data-export='code']")).to_be_focused()
    page.keyboard.press("Escape")
    expect(view.get_by_role("menu")).to_be_hidden()
    expect(menu).to_be_focused()


def test_the_shortcuts_are_listed(page: Page, view: Locator) -> None:
    view.locator("input[data-parameter='stages']").focus()
    page.keyboard.press("?")
    card = view.get_by_role("dialog", name="Shortcuts")
    expect(card).to_contain_text("back to the default")
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()


OUTSIDE = """
(root) => {
  const { right } = root.getBoundingClientRect();
  const scrolled = root.querySelector(".wb-t-scroll");
  return [...root.querySelectorAll("*")]
    .filter((node) => node.getBoundingClientRect().right > right + 1 && !scrolled.contains(node.parentElement))
    .map((node) => `${node.tagName} ${node.getAttribute("class")}: ${node.textContent.slice(0, 40)}`);
}
"""
"""What sticks out of the widget; the table of configurations scrolls."""


@pytest.mark.parametrize("width", [600, 1000])
def test_nothing_sticks_out_of_a_narrow_view(view: Locator, width: int) -> None:
    expect(view).not_to_have_class(re.compile("wb-narrow"))
    resize(view, width=width, height=4200)
    expect(view).to_have_class(re.compile("wb-narrow.*wb-slim.*wb-t-stacked" if width == 600 else "wb-narrow"))
    assert view.evaluate(OUTSIDE) == []


def test_a_study(page: Page, gate: Gate) -> None:
    view = page.locator(".wb-tiles").nth(2)
    counts, words = view.locator(".wb-t-counts"), view.locator(".wb-t-study .wb-hint")
    gate.let(2)
    view.get_by_role("button", name="Start a study").click()
    expect(counts).to_contain_text("2 of 6 tried")
    view.get_by_role("button", name="Pause").click()
    expect(words).to_have_text("pausing after the trial in flight")
    gate.let(1)
    expect(words).to_have_text("paused; the GPU is kept")
    expect(counts).to_contain_text("3 of 6 tried")
    gate.let(100)
    view.get_by_role("button", name="Resume").click()
    expect(words).to_have_text("6 trials, measured now (NVIDIA H200)")
    expect(view.get_by_role("button", name="Apply as the default")).to_be_visible()
    expect(view.locator(".wb-t-verdict")).to_contain_text("default")


def test_without_a_gpu_it_says_so(view: Locator, local: TileTuner) -> None:
    if not local.session.study.unavailable:
        pytest.skip("there is a GPU here")
    study = view.locator(".wb-t-study")
    expect(study).to_contain_text("A study needs a GPU")
    expect(study).to_contain_text("30 configurations recorded (NVIDIA H200, 2026-11-30)")
    expect(view.get_by_role("button", name="Start a study")).to_have_count(0)


def test_the_static_picture_is_hidden_beside_a_live_view(page: Page) -> None:
    pictures = page.locator("img[alt^='Tile tuner']")
    expect(pictures).to_have_count(3)
    for at in range(3):
        expect(pictures.nth(at)).to_be_hidden()
