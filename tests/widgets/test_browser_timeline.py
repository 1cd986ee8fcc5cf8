"""Timelines and recorded times in a real JupyterLab in Chromium: what is on screen is what Python says."""

import json

import pytest

from tests.browser import ROOT, after_frame, expect, jupyter_lab, resize
from tests.widgets.invented import invented
from workbench import ScheduleExplorer
from workbench.widgets import text
from workbench.widgets.schedule.figures import figures_card

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
def lab(tmp_path_factory):
    with jupyter_lab(tmp_path_factory.mktemp("lab"), timeline=[SETUP]) as running:
        yield running


@pytest.fixture
def page(lab):
    with lab.page("timeline", ".wb-explorer[data-frame] .wb-figures[aria-busy='false']:visible", height=1900) as page:
        yield page


@pytest.fixture
def view(page):
    return page.locator(".wb-explorer")


def local(**settings):
    explorer = ScheduleExplorer(CASE, **(SETTINGS | settings))
    explorer.timeline = invented(explorer.plan_a, explorer.session.cost)
    return explorer


def press(page, view, key):
    view.locator(".wb-overlay").first.focus()
    after_frame(view, lambda: page.keyboard.press(key))


def records_are_read(view):
    """The answer about the records of what is on screen has come, and with it the choice of timelines."""
    expect(view.locator(".wb-figures")).to_have_attribute("aria-busy", "false")


def test_numbers_on_screen_are_the_timelines(page, view):
    found = local().session.measured()["A"]
    for metric, words in (
        ("measured_us", text.us(found.timeline.makespan_us)),
        ("modelled_us", text.us(found.modelled_us)),
        ("busy", " / ".join(map(text.us, found.busy_us))),
        ("imbalance", text.percent(found.imbalance)),
        ("residual_rms", text.fine_us(found.residual_rms_us)),
    ):
        expect(view.locator(f"[data-measured='{metric}'][data-side='A']")).to_have_text(words)
    for kind, value in (found.stage_us | {"idle": found.idle_us}).items():
        expect(view.locator(f"[data-stage='{kind}']")).to_have_attribute("data-text", text.fine_us(value))
    ends = {"makespan": found.makespan_us, "modelled": found.modelled_us, "last": found.timeline.bins_ns / 1e3}
    for kind, value in ends.items():
        expect(view.locator(f"[data-line='{kind}'][data-side='A']")).to_have_text(text.us(value))
    rms = f"rms {text.fine_us(found.residual_rms_us)}"
    expect(view.locator("[data-residual='note']:visible")).to_have_text(rms)
    expect(view.locator(".wb-panel-title").first).to_contain_text("measured (timeline given)")


def test_keys_change_lanes_and_timeline(page, view):
    lanes = view.get_by_role("radiogroup", name="Lanes")
    for value in ("measured", "planned", "both"):
        press(page, view, "m")
        expect(lanes.locator("[aria-checked='true']")).to_have_attribute("data-value", value)
        expect(view.locator(".wb-ghost-key")).to_have_count(int(value == "both"))
    records_are_read(view)
    press(page, view, "t")
    expect(view.get_by_label("Timeline", exact=True)).to_have_value("none")
    expect(view.locator(".wb-measured")).to_be_hidden()
    expect(view.locator(".wb-residual:visible")).to_have_count(0)
    expect(lanes).to_be_hidden()
    records_are_read(view)
    press(page, view, "t")
    expect(view.locator(".wb-measured")).to_be_visible()
    expect(view.locator(".wb-residual:visible")).not_to_have_count(0)
    press(page, view, "u")
    expect(view.locator(".wb-residual:visible")).to_have_count(0)  # tiles have no time


def test_the_card_says_what_the_stamps_say_and_keys_step_over_whole_chunks(page, view):
    explorer = local()
    t, plan = explorer.timelines["A"], explorer.plan_a
    view.locator(".wb-overlay").first.focus()
    page.keyboard.press("ArrowRight")
    card = view.locator(".wb-card")
    low, high = plan.bin_offsets[0:2].tolist()
    for at in range(low, high):
        expect(card).to_contain_text(f"tokens {plan.descriptors[at]['first_token']:,} to")
        expect(card).to_contain_text(f"SM {t.sm[at]}")
        expect(card).not_to_contain_text("assumed")
        expect(card).to_contain_text(f"{text.us(t.start_ns[at] / 1e3)} to {text.us(t.end_ns[at] / 1e3)}")
        expect(card).to_contain_text(f"waits {text.fine_us((t.arrived_ns[at] - t.start_ns[at]) / 1e3)}")
        if t.leader[at]:
            expect(card).to_contain_text("waiting for pieces included")
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
    expect(view.locator(".wb-card")).to_contain_text(f"Request {explorer.plan_a.request[0]}")


def test_recorded_times_are_those_of_the_store(page, view):
    card = figures_card(local().session)
    expect(view.locator(".wb-figures-words")).to_have_text(card.sentence)
    rows = view.locator("[data-figure]")
    brief = [line for line in card.lines if line.brief]
    expect(rows).to_have_count(len(brief))
    assert [rows.nth(i).get_attribute("data-figure") for i in range(rows.count())] == [line.title for line in brief]
    for line in brief:
        cells = [line.median, "", line.interval, line.error, line.modelled, line.source]
        expect(view.locator(f"[data-figure='{line.title}'] td")).to_have_text(cells)
    view.locator(".wb-overlay").first.focus()
    page.keyboard.press("r")
    expect(rows).to_have_count(len(card.lines))


def test_recorded_times_of_another_screen_are_greyed_until_its_own_are_there(page, view):
    section = view.locator(".wb-figures")
    records_are_read(view)
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
    expect(section).to_contain_text(bf16.sentence)
    press(page, view, "o")
    assert section.get_attribute("aria-busy") == "false", "the order of the CTAs plays no part"


def test_where_nothing_is_recorded_a_case_is_one_press_away(page, view):
    box = view.get_by_label("KV lengths: an expression or pasted numbers")
    box.fill("3x32K+30x4K")
    view.get_by_text("Nothing is recorded of 3x32K+30x4K").wait_for()
    expect(view.locator("[data-figure]")).to_have_count(0)
    expect(view.locator(".wb-measured")).to_be_hidden()
    hint = view.locator(".wb-hint:visible").first
    expect(hint).to_contain_text("it is of 32 requests, the plan of 33")
    expect(hint).not_to_contain_text("33 requests")
    view.locator(".wb-figures .wb-offer").first.click()
    expect(view.locator(".wb-measured")).to_be_visible()  # its plan is on screen again
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
    resize(view, width=width, height=1900)
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
