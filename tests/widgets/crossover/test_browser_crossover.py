"""The tuner in a real JupyterLab in Chromium: what is on screen is what Python says, and a drag is answered at once."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from tests.browser import ROOT, Lab, after_frame, expect, jupyter_lab, until
from tests.widgets.crossover.meters import references
from workbench import CrossoverTuner

pytestmark = pytest.mark.browser

PROVIDERS = ("hpc", "cublas-fp32", "cublas-tf32", "cublas-bf16")
SETTINGS = f"'longcat-chat', precision='tf32', providers={PROVIDERS!r}"
SETUP = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
from tests.widgets.crossover.meters import references
from workbench import CrossoverTuner
tuner = CrossoverTuner({SETTINGS}, store=references())
tuner
"""
LIVE = """
from pathlib import Path
from time import sleep
from tests.widgets.crossover.meters import Meter, environment
class Held(Meter):  # at its fourth point until the test lets it go on, so that it cannot be done before it is cancelled
    def measure(self, providers, m, rounds):
        while len(self.lab.calls) >= 3 and not Path("go").exists():
            sleep(0.01)
        return super().measure(providers, m, rounds)
live = CrossoverTuner("hy3", meter=Held, environment=environment, figures="live")
live
"""


def local(**settings: Any) -> CrossoverTuner:
    defaults = {"router": "longcat-chat", "precision": "tf32", "providers": PROVIDERS, "store": references()}
    return CrossoverTuner(**defaults | settings)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with jupyter_lab(tmp_path_factory.mktemp("lab"), crossover=[SETUP, "tuner", LIVE]) as running:
        yield running


@pytest.fixture
def page(lab: Lab) -> Iterator[Page]:
    with lab.page("crossover", ".wb-crossover[data-frame] >> nth=2", height=3000) as page:
        yield page


@pytest.fixture
def view(page: Page) -> Locator:
    return page.locator(".wb-crossover").first


def check_answer(view: Locator, shown: CrossoverTuner) -> None:
    answer = shown.frame["answer"]
    expect(view.locator(".wb-sentence")).to_have_text("".join(run["text"] for run in answer["sentence"]))
    for row in answer["rows"]:
        cells = view.locator(f"[data-rule='{row['key']}'] td")
        if not row["problem"]:
            for at, what in ((0, "cost"), (2, "lost"), (3, "interval"), (4, "a_pass")):
                expect(cells.nth(at)).to_have_text(row[what])
            expect(cells).to_have_count(5)
    expect(view.locator(".wb-footer")).to_contain_text(shown.frame["footer"][0])


def centre(locator: Locator) -> tuple[float, float]:
    box = locator.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_numbers_are_pythons(page: Page, view: Locator) -> None:
    shown = local()
    check_answer(view, shown)
    expect(view.locator("[data-curve]")).to_have_count(4)
    zones = view.locator("[data-zone='fastest']")
    assert [zones.nth(i).get_attribute("data-provider") or None for i in range(zones.count())] == [
        zone["provider"] for zone in shown.scene["scene"]["fastest"]
    ]
    view.get_by_role("radio", name="split").click()
    check_answer(view, local(precision="split"))
    view.get_by_label("Traffic").select_option("even")
    check_answer(view, local(precision="split", traffic="even"))


def test_a_drag_is_answered_and_both_views_follow(page: Page, view: Locator) -> None:
    handle = view.locator("[data-threshold='1']")
    x, y = centre(handle.locator(".wb-cross-grip"))
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, 21):
        page.mouse.move(x - 3 * step, y)
    page.mouse.up()
    m = int(handle.get_attribute("aria-valuenow") or 0)
    assert 40 < m < 90
    pieces = [(0, "hpc"), (m, "cublas-tf32"), (246, "hpc"), (294, "cublas-tf32")]
    shown = local(thresholds=pieces)
    check_answer(view, shown)
    second = page.locator(".wb-crossover").nth(1)
    check_answer(second, shown)
    for each in (view, second):
        expect(each.locator("[data-threshold='1']")).to_have_attribute("aria-valuenow", str(m))


def test_keys(page: Page, view: Locator) -> None:
    handle = view.locator("[data-threshold='1']")
    handle.focus()
    for key, m in (("ArrowRight", "101"), ("PageUp", "128"), ("Shift+ArrowLeft", "108")):
        after_frame(view, lambda key=key: page.keyboard.press(key))
        expect(handle).to_have_attribute("aria-valuenow", m)
    page.keyboard.press("Delete")
    expect(view.locator("[data-threshold]")).to_have_count(2)
    check_answer(view, local(thresholds=[(0, "hpc"), (246, "hpc"), (294, "cublas-tf32")]))
    assert page.locator(".jp-Notebook .jp-Cell").count() == 3, "the notebook's own shortcuts stayed quiet"


def test_a_piece_can_be_changed_split_and_joined(page: Page, view: Locator) -> None:
    view.get_by_role("button", name="table in use").click()
    expect(view.locator("[data-piece]")).to_have_count(2)
    shown = local()
    shown.thresholds = "in use"
    check_answer(view, shown)
    view.locator("[data-piece='hpc']").focus()
    page.keyboard.press("Enter")
    view.get_by_role("menuitemradio", name="cuBLAS TF32").click()
    check_answer(view, local(thresholds=[(0, "cublas-fp32"), (64, "cublas-tf32")]))
    view.locator("[data-piece='cublas-fp32']").focus()
    page.keyboard.press("Enter")
    after_frame(view, view.get_by_role("menuitem", name="Split at M = 8").click)
    expect(view.locator("[data-piece]")).to_have_count(3)
    view.get_by_role("button", name="best choice").click()
    check_answer(view, local())


def test_the_card(page: Page, view: Locator) -> None:
    view.locator(".wb-cross-overlay").focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    card = view.locator(".wb-cross-card")
    expect(card).to_contain_text("M = 128")
    expect(card).to_contain_text("cuBLAS TF32 is fastest")
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()


def test_what_cannot_be_is_said(page: Page, view: Locator) -> None:
    box = view.get_by_label("K and N of another router")
    box.fill("4096,<img src=x onerror=alert(1)>")
    page.keyboard.press("Enter")
    expect(view.locator(".wb-fault:visible")).to_contain_text("is no router")
    check_answer(view, local())
    view.get_by_role("radio", name="Live").click()
    expect(view.locator(".wb-fault:visible")).to_contain_text("figures='recorded'")
    check_answer(view, local())


def test_exports(page: Page, view: Locator, tmp_path: Path) -> None:
    def export(what: str) -> Path:
        view.get_by_role("button", name="Export").click()
        with page.expect_download() as download:
            view.locator(f"[data-export='{what}']").click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path

    text = export("sglang").read_text()
    assert ast.literal_eval(text[text.index("{") :]) == {(6144, 768): 1}
    notice = view.locator(".wb-cross-notice")
    expect(notice).to_contain_text("one threshold and no names")
    expect(notice).to_contain_text("cublas-tf32 is wanted")
    assert json.loads(export("table").read_text())["kind"] == "router-dispatch"
    assert export("svg").read_text().startswith("<svg")
    assert export("png").read_bytes().startswith(b"\x89PNG")
    expect(notice).to_be_hidden()


def test_live_measuring(page: Page, lab: Lab) -> None:
    view = page.locator(".wb-crossover").nth(2)
    expect(view.locator(".wb-sentence")).to_contain_text("Nothing was measured yet")
    view.get_by_role("button", name="Measure here").click()
    expect(view.locator(".wb-cross-live")).to_contain_text("3 of ~")
    view.get_by_role("button", name="Cancel").click()
    view.get_by_role("button", name="Stopping").wait_for()
    (lab.folder / "go").touch()
    view.get_by_role("button", name="Resume").wait_for()
    view.locator("[data-curve='flat']").wait_for()
    expect(view).to_contain_text("what was measured stays")
    view.get_by_role("button", name="Resume").click()
    view.get_by_role("button", name="Finished").wait_for()
    pieces = "(root) => [...root.querySelectorAll('[data-piece]')].map((node) => node.dataset.piece)"
    until(lambda: view.evaluate(pieces), lambda found: found == ["steep", "flat"])
    handle = view.locator("[data-threshold='1']")
    until(lambda: int(handle.get_attribute("aria-valuenow") or 0), lambda m: 140 < m < 160)
    expect(view.locator(".wb-footer")).to_contain_text("measured now")


def test_the_static_picture_is_hidden_beside_a_live_view(page: Page) -> None:
    pictures = page.locator("img[alt^='Crossover tuner']")
    expect(pictures).to_have_count(3)
    for at in range(3):
        expect(pictures.nth(at)).to_be_hidden()
