"""The tuner in a real JupyterLab in Chromium: what is on screen is what Python says, and a drag is answered at once."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.widgets.crossover.meters import references
from workbench import CrossoverTuner

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import jupyter_page  # noqa: E402

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
from tests.widgets.crossover.meters import Meter, environment
class Slow(Meter):
    seconds = 0.1
live = CrossoverTuner("hy3", meter=Slow, environment=environment, figures="live")
live
"""


def local(**settings: Any) -> CrossoverTuner:
    defaults = {"router": "longcat-chat", "precision": "tf32", "providers": PROVIDERS, "store": references()}
    return CrossoverTuner(**defaults | settings)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from workbench import settings

    folder = tmp_path_factory.mktemp("lab")
    jupyter_page.write_notebook(folder / "crossover.ipynb", [SETUP, "tuner", LIVE])
    with jupyter_page.jupyter_lab(folder) as server, jupyter_page.chromium(settings.chromium()) as running:
        yield running, server


@pytest.fixture
def page(browser: Any) -> Any:
    running, (address, token) = browser
    page = jupyter_page.open_notebook(
        running, address, token, "crossover.ipynb", viewport={"width": 1500, "height": 3000}, accept_downloads=True
    )
    page.set_default_timeout(20_000)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.wait_for_selector(".wb-crossover[data-frame] >> nth=2")
    yield page
    assert problems == []
    page.context.close()


@pytest.fixture
def view(page: Any) -> Any:
    return page.locator(".wb-crossover").first


def after_frame(page: Any, view: Any, action: Any) -> None:
    before = view.get_attribute("data-frame")
    action()
    page.wait_for_function(
        "([root, before]) => root.dataset.frame !== before", arg=[view.element_handle(), before], polling=20
    )


def check_answer(view: Any, shown: CrossoverTuner) -> None:
    answer = shown.frame["answer"]
    assert view.locator(".wb-sentence").inner_text() == "".join(run["text"] for run in answer["sentence"])
    for row in answer["rows"]:
        line = view.locator(f"[data-rule='{row['key']}']")
        if not row["problem"]:
            texts = line.locator("td").all_inner_texts()
            assert [texts[0], *texts[2:]] == [row["cost"], row["lost"], row["interval"], row["a_pass"]]
    assert view.locator(".wb-footer").inner_text().startswith(shown.frame["footer"][0])


def centre(locator: Any) -> tuple[float, float]:
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_numbers_are_pythons(page: Any, view: Any) -> None:
    shown = local()
    check_answer(view, shown)
    assert view.locator("[data-curve]").count() == 4
    zones = view.locator("[data-zone='fastest']")
    assert [zones.nth(i).get_attribute("data-provider") or None for i in range(zones.count())] == [
        zone["provider"] for zone in shown.scene["scene"]["fastest"]
    ]
    after_frame(page, view, lambda: view.get_by_role("radio", name="split").click())
    check_answer(view, local(precision="split"))
    after_frame(page, view, lambda: view.get_by_label("Traffic").select_option("even"))
    check_answer(view, local(precision="split", traffic="even"))


def test_a_drag_is_answered_and_both_views_follow(page: Any, view: Any) -> None:
    handle = view.locator("[data-threshold='1']")
    x, y = centre(handle.locator(".wb-cross-grip"))
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, 21):
        page.mouse.move(x - 3 * step, y)
        page.wait_for_timeout(15)
    page.mouse.up()
    page.wait_for_timeout(500)
    m = int(handle.get_attribute("aria-valuenow"))
    assert 40 < m < 90
    pieces = [(0, "hpc"), (m, "cublas-tf32"), (246, "hpc"), (294, "cublas-tf32")]
    shown = local(thresholds=pieces)
    check_answer(view, shown)
    second = page.locator(".wb-crossover").nth(1)
    check_answer(second, shown)
    assert second.locator("[data-threshold='1']").get_attribute("aria-valuenow") == str(m)


def test_keys(page: Any, view: Any) -> None:
    handle = view.locator("[data-threshold='1']")
    handle.focus()
    after_frame(page, view, lambda: page.keyboard.press("ArrowRight"))
    assert handle.get_attribute("aria-valuenow") == "101"
    page.keyboard.press("PageUp")
    assert handle.get_attribute("aria-valuenow") == "128"
    page.keyboard.press("Shift+ArrowLeft")
    assert handle.get_attribute("aria-valuenow") == "108"
    after_frame(page, view, lambda: page.keyboard.press("Delete"))
    page.wait_for_timeout(300)
    assert view.locator("[data-threshold]").count() == 2
    check_answer(view, local(thresholds=[(0, "hpc"), (246, "hpc"), (294, "cublas-tf32")]))
    assert page.locator(".jp-Notebook .jp-Cell").count() == 3, "the notebook's own shortcuts stayed quiet"


def test_a_piece_can_be_changed_split_and_joined(page: Any, view: Any) -> None:
    after_frame(page, view, lambda: view.get_by_role("button", name="table in use").click())
    assert view.locator("[data-piece]").count() == 2
    view.locator("[data-piece='hpc']").focus()
    page.keyboard.press("Enter")
    after_frame(page, view, lambda: view.get_by_role("menuitemradio", name="cuBLAS TF32").click())
    check_answer(view, local(thresholds=[(0, "cublas-fp32"), (64, "cublas-tf32")]))
    view.locator("[data-piece='cublas-fp32']").focus()
    page.keyboard.press("Enter")
    after_frame(page, view, lambda: view.get_by_role("menuitem", name="Split at M = 8").click())
    assert view.locator("[data-piece]").count() == 3
    after_frame(page, view, lambda: view.get_by_role("button", name="best choice").click())
    check_answer(view, local())


def test_the_card(page: Any, view: Any) -> None:
    view.locator(".wb-cross-overlay").focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    card = view.locator(".wb-cross-card")
    card.get_by_text("M = 128").wait_for()
    assert "cuBLAS TF32 is fastest" in card.inner_text()
    page.keyboard.press("Escape")
    assert not card.is_visible()


def test_what_cannot_be_is_said(page: Any, view: Any) -> None:
    box = view.get_by_label("K and N of another router")
    box.fill("4096,<img src=x onerror=alert(1)>")
    after_frame(page, view, lambda: page.keyboard.press("Enter"))
    assert "is no router" in view.locator(".wb-fault:visible").inner_text()
    check_answer(view, local())
    after_frame(page, view, lambda: view.get_by_role("radio", name="Live").click())
    assert "figures='recorded'" in view.locator(".wb-fault:visible").inner_text()
    check_answer(view, local())


def test_exports(page: Any, view: Any, tmp_path: Path) -> None:
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
    assert "one threshold and no names" in notice.inner_text()
    assert "cublas-tf32 is wanted" in notice.inner_text()
    assert json.loads(export("table").read_text())["kind"] == "router-dispatch"
    assert export("svg").read_text().startswith("<svg")
    assert export("png").read_bytes().startswith(b"\x89PNG")
    assert not notice.is_visible()


def test_live_measuring(page: Any) -> None:
    view = page.locator(".wb-crossover").nth(2)
    assert "Nothing was measured yet" in view.locator(".wb-sentence").inner_text()
    view.get_by_role("button", name="Measure here").click()
    view.locator("[data-curve='flat']").wait_for()
    view.get_by_role("button", name="Cancel").click()
    view.get_by_role("button", name="Resume").wait_for()
    assert "what was measured stays" in view.inner_text()
    view.get_by_role("button", name="Resume").click()
    view.get_by_role("button", name="Finished").wait_for()
    pieces = view.locator("[data-piece]")
    assert [pieces.nth(i).get_attribute("data-piece") for i in range(pieces.count())] == ["steep", "flat"]
    assert 140 < int(view.locator("[data-threshold='1']").get_attribute("aria-valuenow")) < 160
    assert "measured now" in view.locator(".wb-footer").inner_text()


def test_the_static_picture_is_hidden_beside_a_live_view(page: Any) -> None:
    pictures = page.locator("img[alt^='Crossover tuner']")
    assert pictures.count() == 3
    assert not any(pictures.nth(i).is_visible() for i in range(3))
