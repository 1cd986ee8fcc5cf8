"""Timelines and recorded times in a real JupyterLab in Chromium: what is on screen is what Python says."""

import json
import sys
from pathlib import Path

import pytest

from tests.widgets.invented import invented
from workbench import ScheduleExplorer
from workbench.widgets import text
from workbench.widgets.schedule.figures import figures_card

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import jupyter_page  # noqa: E402

pytestmark = pytest.mark.browser

CASE = "2x32K+30x4K"
SETTINGS = {"policy_a": "hpc-ops", "policy_b": "fixed_splits(8)", "ctas_per_sm": 1}
SETUP = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
from tests.widgets.invented import invented
from workbench import ScheduleExplorer
explorer = ScheduleExplorer({CASE!r}, **{SETTINGS!r})
explorer.timeline = invented(explorer.plan_a, explorer.session.cost)
explorer
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from workbench import settings

    folder = tmp_path_factory.mktemp("lab")
    jupyter_page.write_notebook(folder / "timeline.ipynb", [SETUP])
    with jupyter_page.jupyter_lab(folder) as server, jupyter_page.chromium(settings.chromium()) as running:
        yield running, server


@pytest.fixture
def page(browser):
    running, (address, token) = browser
    page = jupyter_page.open_notebook(
        running, address, token, "timeline.ipynb", viewport={"width": 1500, "height": 1900}
    )
    page.set_default_timeout(20_000)
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.wait_for_selector(".wb-explorer[data-frame]")
    page.wait_for_selector(".wb-figures:visible")
    yield page
    assert problems == []
    page.context.close()


@pytest.fixture
def view(page):
    return page.locator(".wb-explorer")


def local(**settings):
    explorer = ScheduleExplorer(CASE, **(SETTINGS | settings))
    explorer.timeline = invented(explorer.plan_a, explorer.session.cost)
    return explorer


def after_frame(page, view, action):
    before = view.get_attribute("data-frame")
    action()
    page.wait_for_function(
        "([root, before]) => root.dataset.frame !== before", arg=[view.element_handle(), before], polling=20
    )


def press(page, view, key):
    view.locator(".wb-overlay").first.focus()
    after_frame(page, view, lambda: page.keyboard.press(key))


def test_numbers_on_screen_are_the_timelines(page, view):
    found = local().session.measured()["A"]

    def shown(metric):
        return view.locator(f"[data-measured='{metric}'][data-side='A']").inner_text()

    assert shown("measured_us") == text.us(found.timeline.makespan_us)
    assert shown("modelled_us") == text.us(found.modelled_us)
    assert shown("busy") == " / ".join(map(text.us, found.busy_us))
    assert shown("imbalance") == text.percent(found.imbalance)
    assert shown("residual_rms") == text.fine_us(found.residual_rms_us)
    for kind, value in (found.stage_us | {"idle": found.idle_us}).items():
        assert view.locator(f"[data-stage='{kind}']").get_attribute("data-text") == text.fine_us(value)
    lines = view.locator("[data-line][data-side='A']")
    kinds = {lines.nth(i).get_attribute("data-line"): lines.nth(i).inner_text() for i in range(lines.count())}
    assert kinds["makespan"] == text.us(found.makespan_us)
    assert kinds["modelled"] == text.us(found.modelled_us)
    assert kinds["last"] == text.us(found.timeline.bins_ns / 1e3)
    assert view.locator("[data-residual='note']:visible").inner_text() == f"rms {text.fine_us(found.residual_rms_us)}"
    assert "measured (timeline given)" in view.locator(".wb-panel-title").first.inner_text()


def test_keys_change_lanes_and_timeline(page, view):
    lanes = view.get_by_role("radiogroup", name="Lanes")
    for value in ("measured", "planned", "both"):
        press(page, view, "m")
        assert lanes.locator("[aria-checked='true']").get_attribute("data-value") == value
        assert view.locator(".wb-ghost-key").count() == (value == "both")
    page.wait_for_timeout(500)
    press(page, view, "t")
    assert view.get_by_label("Timeline", exact=True).input_value() == "none"
    assert not view.locator(".wb-measured").is_visible()
    assert not view.locator(".wb-residual:visible").count()
    assert not lanes.is_visible()
    page.wait_for_timeout(500)
    press(page, view, "t")
    assert view.locator(".wb-measured").is_visible()
    press(page, view, "u")
    assert not view.locator(".wb-residual:visible").count(), "tiles have no time"


def test_the_card_says_what_the_stamps_say_and_keys_step_over_whole_chunks(page, view):
    explorer = local()
    t, plan = explorer.timelines["A"], explorer.plan_a
    view.locator(".wb-overlay").first.focus()
    page.keyboard.press("ArrowRight")
    card = view.locator(".wb-card")
    low, high = plan.bin_offsets[0:2].tolist()
    for at in range(low, high):
        card.get_by_text(f"tokens {plan.descriptors[at]['first_token']:,} to").wait_for()
        words = card.inner_text()
        assert f"SM {t.sm[at]}" in words
        assert "assumed" not in words
        assert f"{text.us(t.start_ns[at] / 1e3)} to {text.us(t.end_ns[at] / 1e3)}" in words
        assert f"waits {text.fine_us((t.arrived_ns[at] - t.start_ns[at]) / 1e3)}" in words
        if t.leader[at]:
            assert "waiting for pieces included" in words
        page.keyboard.press("ArrowUp")


def test_zoomed_in_plan_and_measurement_stand_beside_each_other(page, view):
    view.locator(".wb-overlay").first.focus()
    page.keyboard.press("ArrowRight")
    for _ in range(3):
        page.keyboard.press("+")
    view.get_by_text("pale: plan, full: measured").wait_for()
    explorer = local()
    box = view.locator(".wb-overlay").first.bounding_box()
    columns = 132 / 8
    x, y = box["x"] + 0.25 * (box["width"] - 90) / columns, box["y"] + box["height"] - 8
    page.mouse.move(x, y)
    view.locator(".wb-card").wait_for()
    assert f"Request {explorer.plan_a.request[0]}" in view.locator(".wb-card").inner_text()


def test_recorded_times_are_those_of_the_store(page, view):
    card = figures_card(local().session)
    assert view.locator(".wb-figures-words").inner_text() == card.sentence
    rows = view.locator("[data-figure]")
    brief = [line for line in card.lines if line.brief]
    assert [rows.nth(i).get_attribute("data-figure") for i in range(rows.count())] == [line.title for line in brief]
    for line in brief:
        cells = view.locator(f"[data-figure='{line.title}'] td").all_inner_texts()
        assert cells == [line.median, "", line.interval, line.error, line.modelled, line.source]
    view.locator(".wb-overlay").first.focus()
    page.keyboard.press("r")
    assert rows.count() == len(card.lines)


def test_recorded_times_of_another_screen_are_greyed_until_its_own_are_there(page, view):
    section = view.locator(".wb-figures")
    page.wait_for_function("() => document.querySelector('.wb-figures').getAttribute('aria-busy') === 'false'")
    states = view.evaluate("""(root) => new Promise((resolve) => {
        const node = root.querySelector('.wb-figures');
        const seen = [];
        new MutationObserver(() => {
            seen.push([node.getAttribute('aria-busy'), node.querySelectorAll('[data-figure]').length]);
            if (seen.at(-1)[0] === 'false') resolve(seen);
        }).observe(node, { attributes: true, attributeFilter: ['aria-busy'] });
        const menu = root.querySelector("select[aria-label='KV cache']");
        menu.value = 'bf16';
        menu.dispatchEvent(new Event('change'));
    })""")
    assert states[0][0] == "true"
    bf16 = figures_card(ScheduleExplorer(CASE, **(SETTINGS | {"cache": "bf16"})).session)
    section.get_by_text(bf16.sentence).wait_for()
    press(page, view, "o")
    assert section.get_attribute("aria-busy") == "false", "the order of the CTAs plays no part"


def test_where_nothing_is_recorded_a_case_is_one_press_away(page, view):
    box = view.get_by_label("KV lengths: an expression or pasted numbers")
    after_frame(page, view, lambda: box.fill("3x32K+30x4K"))
    view.get_by_text("Nothing is recorded of 3x32K+30x4K").wait_for()
    assert view.locator("[data-figure]").count() == 0
    assert not view.locator(".wb-measured").is_visible()
    assert "33 requests" not in view.locator(".wb-hint:visible").first.inner_text()
    assert "it is of 32 requests, the plan of 33" in view.locator(".wb-hint:visible").first.inner_text()
    offer = view.locator(".wb-figures .wb-offer").first
    after_frame(page, view, lambda: offer.click())
    assert view.locator(".wb-measured").is_visible(), "its plan is on screen again"
    view.locator("[data-figure='FlashInfer']").wait_for()


def test_the_trace_has_both_lanes(page, view, tmp_path):
    view.get_by_text("Export").click()
    with page.expect_download() as download:
        view.locator("[data-export='trace']").click()
    path = tmp_path / "trace.json"
    download.value.save_as(path)
    assert json.loads(path.read_text()) == json.loads(local().to_trace_json())


@pytest.mark.parametrize("width", [680, 780, 950, 1150, 1500])
def test_nothing_sticks_out(page, view, width):
    page.set_viewport_size({"width": width, "height": 1900})
    page.wait_for_timeout(400)
    out = view.evaluate("""(root) => {
        const box = root.getBoundingClientRect();
        return [...root.querySelectorAll('.wb-main *, .wb-controls *')].filter((node) => {
            const { right, width } = node.getBoundingClientRect();
            return width > 0 && right > box.right + 1 && !node.closest('.wb-figures-table .wb-fcol-6');
        }).map((node) => node.className || node.tagName);
    }""")
    assert out == []
    fields = view.evaluate("""(root) => [...root.querySelectorAll('.wb-controls section')].flatMap((section) => {
        const { right } = section.getBoundingClientRect();
        const fields = [...section.querySelectorAll('button, select, input')];
        return fields.filter((node) => node.getBoundingClientRect().right > right + 1).map((node) => node.textContent);
    })""")
    assert fields == []
