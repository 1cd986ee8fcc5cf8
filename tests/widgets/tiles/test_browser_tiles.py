"""The tuner in a real JupyterLab in Chromium: what is on screen is what Python says, by pointer and by keys."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from workbench import TileTuner

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import jupyter_page  # noqa: E402

pytestmark = pytest.mark.browser

SETUP = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
import os, tempfile
from pathlib import Path
for name in ("STUDIES", "TABLES", "RECORDS"):
    os.environ[f"WORKBENCH_{{name}}_DIR"] = tempfile.mkdtemp()
from tests.widgets.tiles.samples import slow_bench, store_of
from workbench.tune.spaces import router_space
from workbench import TileTuner
space = router_space(64, 192, 4096)
store = store_of(Path(tempfile.mkdtemp()), space, space.promising(30))
tuner = TileTuner("router", store=store)
tuner.resources
tuner.values = {{"stages": 6}}
tuner.resources
tuner.values = tuner.best
tuner.resources
tuner.values = tuner.default
tuner
"""
STUDY = """
live = TileTuner("router", m=128, most=6, bench=slow_bench, store=store)
live
"""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> TileTuner:
    from tests.widgets.tiles.samples import store_of
    from workbench.tune.spaces import router_space

    space = router_space(64, 192, 4096)
    store = store_of(tmp_path_factory.mktemp("store"), space, space.promising(30))
    tuner = TileTuner("router", store=store)
    tuner.values = tuner.best
    assert not tuner.resources.problem
    return tuner


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from workbench import settings

    folder = tmp_path_factory.mktemp("lab")
    jupyter_page.write_notebook(folder / "tiles.ipynb", [SETUP, "tuner", STUDY])
    with jupyter_page.jupyter_lab(folder) as server, jupyter_page.chromium(settings.chromium()) as running:
        yield running, server


@pytest.fixture
def page(browser: Any) -> Any:
    running, (address, token) = browser
    page = jupyter_page.open_notebook(
        running, address, token, "tiles.ipynb", viewport={"width": 1500, "height": 4200}, accept_downloads=True
    )
    page.set_default_timeout(30_000)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.wait_for_selector(".wb-tiles[data-frame] >> nth=2")
    yield page
    assert problems == []
    page.context.close()


@pytest.fixture
def view(page: Any) -> Any:
    return page.locator(".wb-tiles").first


def check(view: Any, tuner: TileTuner) -> None:
    """The screen says what this Python object says, once it has caught up."""
    from playwright.sync_api import expect

    if not tuner.refused:
        tuner.resources  # noqa: B018 (compiles it)
    expect(view.locator(".wb-sentence")).to_have_text("".join(run["text"] for run in tuner.frame["sentence"]))
    for row in tuner.frame["rows"]:
        cells = view.locator(f"[data-row='{row['key']}'] td").all_inner_texts()[1:]
        marked = [f"{cell} {row['mark']}" if at == 6 else cell for at, cell in enumerate(row["cells"])]
        assert cells == marked


def test_numbers_are_pythons(view: Any, local: TileTuner) -> None:
    local.change(values=local.default)
    check(view, local)
    rows = view.locator(".wb-t-table tbody tr")
    assert rows.count() == len(local.scene["rows"])
    assert view.locator("[data-line]").count() == len(local.scene["rows"])
    points = view.locator("[data-chart='error'] [data-point]")
    assert points.count() == len(local.scene["error"]["points"]) == 30


def test_a_slider_by_keys(page: Any, view: Any, local: TileTuner) -> None:
    slider = view.locator("input[data-parameter='stages']")
    slider.focus()
    page.keyboard.press("ArrowRight")
    local.values = {**local.default.to_dict(), "stages": 6}
    check(view, local)
    assert slider.get_attribute("aria-valuetext") == "6"
    second = page.locator(".wb-tiles").nth(1)
    check(second, local)
    page.keyboard.press("d")
    local.values = local.default
    check(view, local)


def test_what_cannot_run_says_so_while_the_slider_moves(page: Any, view: Any, local: TileTuner) -> None:
    refused = {**local.default.to_dict(), "tile_n": 128}
    local.values = refused
    assert local.refused
    slider = view.locator("input[data-parameter='tile_n']")
    slider.focus()
    page.keyboard.press("End")
    check(view, local)
    assert local.refused in slider.get_attribute("aria-valuetext")
    assert local.refused in view.locator(
        ".wb-t-slider:has([data-parameter='tile_n']) .wb-t-refused"
    ).first.get_attribute("title")
    assert view.locator("[data-row='here']").count() == 0
    page.keyboard.press("d")
    local.values = local.default
    check(view, local)


def test_a_row_and_a_point_come_on_screen(page: Any, view: Any, local: TileTuner) -> None:
    view.get_by_role("button", name="\u00b5s a call").click()
    row = view.locator(".wb-t-table tbody tr").first
    at = int(row.get_attribute("data-config"))
    local.values = local.scene["rows"][at]["values"]
    row.focus()
    page.keyboard.press("Enter")
    check(view, local)
    chart = view.locator("[data-chart='error'] svg").first
    chart.focus()
    page.keyboard.press("ArrowRight")
    view.locator("[data-chart='error'] .wb-t-card").wait_for()
    page.keyboard.press("Enter")
    first = min(local.scene["error"]["points"], key=lambda point: (point[1], point[2]))[0]
    local.values = local.scene["rows"][first]["values"]
    check(view, local)
    local.values = local.default
    view.locator(".wb-t-compared").get_by_role("button", name="default").click()
    check(view, local)


def test_a_value_of_an_axis_keeps_its_lines(page: Any, view: Any, local: TileTuner) -> None:
    wanted = [row for row in local.scene["rows"] if row["values"]["tile_n"] == 32]
    value = view.locator("[data-filter='tile_n=32']")
    value.focus()
    page.keyboard.press("Enter")
    assert value.get_attribute("aria-checked") == "true"
    assert view.locator("[data-line]").count() == view.locator(".wb-t-table tbody tr").count() == len(wanted)
    view.get_by_role("button", name="show all").click()
    assert view.locator("[data-line]").count() == len(local.scene["rows"])


def test_bad_input_is_told(page: Any, view: Any, local: TileTuner) -> None:
    box = view.get_by_label("K and N of another router")
    box.fill("4096,<img src=x onerror=alert(1)>")
    page.keyboard.press("Enter")
    view.locator(".wb-fault", has_text="is no router").wait_for()
    tokens = view.get_by_label("Tokens M")
    tokens.fill("-3")
    page.keyboard.press("Enter")
    view.locator(".wb-fault", has_text="m is '-3'").wait_for()
    tokens.fill("64.5")
    page.keyboard.press("Enter")
    view.locator(".wb-fault", has_text="m is 'None'").wait_for()
    check(view, local)
    box.fill("")
    view.get_by_role("radio", name="Attention").click()
    view.locator(".wb-facts", has_text="64x4K").wait_for()
    view.get_by_role("radio", name="Router").click()
    local.values = local.default
    check(view, local)


def test_exports(page: Any, view: Any, tmp_path: Path) -> None:
    def export(what: str) -> Path:
        view.get_by_role("button", name="Export").click()
        with page.expect_download() as download:
            view.locator(f"[data-export='{what}']").click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path

    assert export("table").read_text().startswith("tile_m,tile_n,stages")
    assert export("svg").read_text().startswith("<svg")
    assert export("png").read_bytes().startswith(b"\x89PNG")


def test_a_study(page: Any) -> None:
    view = page.locator(".wb-tiles").nth(2)
    view.get_by_role("button", name="Start a study").click()
    view.get_by_role("button", name="Pause").click()
    view.get_by_role("button", name="Resume").click()
    view.locator(".wb-t-study .wb-hint", has_text="6 trials, measured now (NVIDIA H200)").wait_for(timeout=90_000)
    assert view.get_by_role("button", name="Apply as the default").is_visible()
    assert "default" in view.locator(".wb-t-verdict").inner_text()


def test_without_a_gpu_it_says_so(view: Any, local: TileTuner) -> None:
    if not local.session.study.unavailable:
        pytest.skip("there is a GPU here")
    words = view.locator(".wb-t-study").inner_text()
    assert "A study needs a GPU" in words
    assert "30 configurations recorded (NVIDIA H200, 2026-11-30)" in words
    assert view.get_by_role("button", name="Start a study").count() == 0


def test_the_static_picture_is_hidden_beside_a_live_view(page: Any) -> None:
    pictures = page.locator("img[alt^='Tile tuner']")
    assert pictures.count() == 3
    assert not any(pictures.nth(i).is_visible() for i in range(3))
