"""The explorer in a real JupyterLab in Chromium: what is on screen is what Python says."""

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from workbench import ScheduleExplorer
from workbench.schedule import DecodePlan
from workbench.widgets import text
from workbench.widgets.colours import DARK, LIGHT
from workbench.widgets.schedule.sentence import over_bound

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import jupyter_page

pytestmark = pytest.mark.browser

SETUP = """
from workbench import ScheduleExplorer
def mine(lengths, num_kv_heads, num_ctas, tile):
    return [[(0, 0, 0, 3)]]
policies = {"mine": mine, "a name that goes on and on " * 8: mine}
policies["<img src=x onerror=alert(1)>"] = lambda *arguments: 1 // 0
explorer = ScheduleExplorer("sample trace", step=700, policies=policies)
explorer
"""
SECOND_VIEW = "explorer"
POLICIES = {"mine": lambda *a: [[(0, 0, 0, 3)]]}


LONG = "a name that goes on and on " * 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def browser(folder):
    from workbench import settings

    jupyter_page.write_notebook(folder / "explorer.ipynb", [SETUP, SECOND_VIEW])
    with jupyter_page.jupyter_lab(folder) as server, jupyter_page.chromium(settings.chromium()) as running:
        yield running, server


@pytest.fixture
def page(browser):
    running, (address, token) = browser
    page = jupyter_page.open_notebook(
        running, address, token, "explorer.ipynb", viewport={"width": 1500, "height": 2400}
    )
    page.set_default_timeout(20_000)
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.wait_for_selector(".wb-explorer[data-frame] >> nth=1")
    yield page
    assert problems == []
    page.context.close()


@pytest.fixture
def view(page):
    return page.locator(".wb-explorer").first


def local(**settings):
    return ScheduleExplorer("sample trace", **{"step": 700} | settings)


def after_frame(page, view, action):
    """Do something that Python answers with a new frame, and wait until the view has drawn it."""
    before = view.get_attribute("data-frame")
    action()
    page.wait_for_function(
        "([root, before]) => root.dataset.frame !== before", arg=[view.element_handle(), before], polling=20
    )


def shown(view, key, metric):
    return view.locator(f"[data-side='{key}'][data-metric='{metric}']").inner_text()


def check_numbers(view, explorer):
    for key, plan in (("A", explorer.plan_a), ("B", explorer.plan_b)):
        m = plan.metrics(explorer.session.cost)
        assert shown(view, key, "call_us") == text.us(m.call_us)
        assert shown(view, key, "efficiency") == text.ratio(over_bound(m))
        assert shown(view, key, "max_over_mean") == text.ratio(m.max_over_mean)
        assert shown(view, key, "idle_fraction") == text.percent(m.idle_fraction)
        assert shown(view, key, "merge_us") == text.us(m.merge_us)
        assert shown(view, key, "partial_bytes") == text.size(m.partial_bytes)
        for line, value in (
            ("makespan", m.makespan_us),
            ("last", m.bins_us),
            ("mean", m.mean_us),
            ("bound", m.bound_us),
        ):
            if line != "last" or m.merge_us:
                assert view.locator(f"[data-line='{line}'][data-side='{key}']").inner_text() == text.us(value)
        for kind, value in (("waiting", m.waiting_us), ("fixed", m.fixed_us), ("reading", m.stream_us)):
            part = view.locator(f"[data-part='{kind}'][data-side='{key}']")
            assert part.get_attribute("data-text") == text.us(value)
    assert view.locator(".wb-footer").inner_text().find(explorer.session.cost.source) >= 0


def pick(view, policy, side):
    return view.locator(f".wb-policy:has([data-policy='{policy}']) .wb-pick-{side}")


def test_numbers_on_screen_are_the_metrics(page, view):
    check_numbers(view, local())
    after_frame(page, view, lambda: view.get_by_label("GPU", exact=True).select_option("H20"))
    after_frame(page, view, lambda: pick(view, "lpt", "b").click())
    check_numbers(view, local(gpu="H20", policy_b="lpt"))
    view.locator("[data-policy='balanced']").filter(has_text=".").wait_for()
    want = local(gpu="H20", policy_b="balanced").plan_b.metrics(local(gpu="H20").session.cost).call_us
    assert view.locator("[data-policy='balanced']").inner_text() == text.us(want)


def test_the_slider_steps_and_both_views_follow(page, view):
    slider = view.get_by_label("Step of the trace")
    slider.focus()
    after_frame(page, view, lambda: page.keyboard.press("ArrowRight"))
    explorer = local(step=701)
    check_numbers(view, explorer)
    second = page.locator(".wb-explorer").nth(1)
    page.wait_for_function("() => document.querySelectorAll('.wb-position b')[1].textContent === '701'")
    check_numbers(second, explorer)


def test_the_card_says_what_the_descriptor_says(page, view):
    plot = view.locator(".wb-overlay").nth(1)
    plot.focus()
    page.keyboard.press("ArrowRight")
    card = view.locator(".wb-card")
    card.wait_for()
    plan = local().plan_b
    d = plan.descriptors[0]
    last = d["first_token"] + d["num_tokens"] - 1
    words = card.inner_text()
    assert f"Request {d['request']}" in words
    assert f"KV head {d['kv_head']}, chunk {d['chunk'] + 1} of {plan.chunk_counts[0, d['request']]}" in words
    assert f"tokens {d['first_token']:,} to {last:,}" in words
    assert f"CTA {d['cta']}, SM {d['cta'] % 132} (assumed)" in words
    page.keyboard.press("ArrowRight")
    d = plan.descriptors[1]
    card.get_by_text(f"tokens {d['first_token']:,} to").wait_for()
    after_frame(page, view, lambda: page.keyboard.press("Enter"))
    assert view.locator(".wb-chip[aria-pressed='true'] b").inner_text() == str(d["request"])


def test_keys(page, view):
    plot = view.locator(".wb-overlay").first
    plot.focus()
    for key, label, value in (("o", "Order", "sm"), ("u", "Unit", "tiles"), ("y", "Scale", "own")):
        after_frame(page, view, lambda key=key: page.keyboard.press(key))
        group = view.get_by_role("radiogroup", name=label)
        assert group.locator("[aria-checked='true']").get_attribute("data-value") == value
    assert view.locator("[data-line='makespan'][data-side='A']").inner_text() == str(local().plan_a.metrics().max_tiles)
    after_frame(page, view, lambda: page.keyboard.press("]"))
    assert view.locator(".wb-position b").inner_text() == "701"
    after_frame(page, view, lambda: page.keyboard.press("["))
    assert view.locator(".wb-position b").inner_text() == "700"
    page.keyboard.press("?")
    help_box = view.get_by_role("dialog", name="Shortcuts")
    help_box.wait_for()
    page.keyboard.press("Escape")
    help_box.wait_for(state="hidden")
    plot.focus()
    page.keyboard.press("z")
    view.get_by_text("All CTAs").wait_for()
    page.keyboard.press("Escape")
    view.get_by_text("All CTAs").wait_for(state="hidden")
    assert page.locator(".jp-Notebook .jp-Cell").count() == 2, "a key of the widget reached the notebook"


def wait_for_all_steps(page):
    page.wait_for_function(
        "() => document.querySelector('.wb-strip .wb-note').textContent.startsWith('worst')", timeout=90_000
    )


def test_bad_steps_are_found_and_reached(page, view):
    wait_for_all_steps(page)
    explorer = local()
    strip = explorer.all_steps()
    while not strip.finished:
        strip.advance(1)
    bad = next(step for step in strip.bad_steps() if step > 700)
    view.locator(".wb-overlay").first.focus()
    after_frame(page, view, lambda: page.keyboard.press("n"))
    assert view.locator(".wb-position b").inner_text() == f"{bad:,}"
    cells = view.locator(".wb-strip-table tbody td").all_inner_texts()
    assert cells == [value for row in strip.statistics() for value in row]


def test_everything_that_can_be_pressed_is_reached_by_tab_and_shows_its_focus(page, view):
    view.locator(".wb-export > button").focus()
    seen = set()
    for _ in range(60):
        inside = page.evaluate("""() => {
            const node = document.activeElement;
            if (!node.closest('.wb-explorer')) return null;
            const outline = getComputedStyle(node).outlineStyle;
            return [node.getAttribute('aria-label') ?? node.textContent, outline];
        }""")
        if inside is None:
            break
        assert inside[1] != "none", inside
        seen.add(inside[0])
        page.keyboard.press("Tab")
    for label in ("Workload", "KV heads", "GPU", "CTAs an SM", "Work floor", "KV cache", "Play", "Step of the trace"):
        assert label in seen
    assert any(label.startswith("Policy A, hpc-ops") for label in seen)


def test_bad_lengths_are_told_in_place_and_leave_no_number(page, view):
    box = view.get_by_label("KV lengths: an expression or pasted numbers")
    after_frame(page, view, lambda: box.fill("64x4K + 2xfoo"))
    assert "2xfoo" in view.get_by_role("alert").inner_text()
    assert view.locator("[data-metric]:visible").count() == 0
    assert view.locator("[data-line]:visible").count() == 0
    assert view.locator(".wb-policy").count() == 0
    after_frame(page, view, lambda: box.fill("2x8K"))
    assert "2 requests" in view.locator(".wb-facts").inner_text()
    check_numbers(view, ScheduleExplorer("2x8K"))


def test_a_policy_that_fails_is_told_in_words_and_names_are_not_markup(page, view):
    after_frame(page, view, lambda: pick(view, "mine", "b").click())
    assert "assigned to no CTA" in view.locator(".wb-problem").inner_text()
    assert view.locator("[data-side='B'][data-metric]").count() == 0
    after_frame(page, view, lambda: view.locator(".wb-policy").last.locator(".wb-pick-a").click())
    assert "ZeroDivisionError" in view.locator(".wb-problem").first.inner_text()
    assert view.locator("img").count() == 0
    assert "Neither policy gives a valid plan" in view.locator(".wb-sentence").inner_text()


def test_times_that_arrive_leave_the_buttons_where_they_are(page, view):
    after_frame(page, view, lambda: view.get_by_label("GPU", exact=True).select_option("B200"))
    times = "[...root.querySelectorAll('.wb-policy-time')].map((node) => node.textContent)"
    before = view.evaluate(f"(root) => {{ window.buttons = [...root.querySelectorAll('.wb-pick')]; return {times}; }}")
    page.wait_for_function(f"(root) => !{times}.includes('\u00b7')", arg=view.element_handle())
    assert "\u00b7" in before
    assert view.evaluate("(root) => window.buttons.every((node) => root.contains(node))")


def test_the_theme_follows_jupyterlab(page, view):
    def background():
        return view.evaluate("(root) => getComputedStyle(root).getPropertyValue('--wb-background').trim()")

    view.locator(".wb-overlay").first.focus()
    page.keyboard.press("ArrowRight")
    view.locator(".wb-card").wait_for()
    assert background() == LIGHT.background
    page.evaluate("() => { jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' }); }")
    page.wait_for_selector(".wb-explorer.wb-dark")
    assert not view.locator(".wb-card").is_visible(), "its lens has the colours of the theme before"
    assert background() == DARK.background
    page.evaluate("() => { jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' }); }")
    page.wait_for_selector(".wb-explorer:not(.wb-dark)")


@pytest.mark.parametrize("width", [680, 780, 950, 1150, 1500])
def test_nothing_sticks_out_and_no_labels_overlap(page, view, width):
    page.set_viewport_size({"width": width, "height": 2400})
    page.wait_for_timeout(400)
    overlaps = view.evaluate("""(root) => {
        const box = root.getBoundingClientRect();
        const out = [...root.querySelectorAll('.wb-main *')].filter((node) => {
            const { right, width } = node.getBoundingClientRect();
            return width > 0 && right > box.right + 1 && getComputedStyle(node).position !== 'absolute';
        }).map((node) => node.className);
        const lines = [...root.querySelectorAll('.wb-line')].map((node) => node.getBoundingClientRect());
        const over = (a, b) => a.bottom > b.top + 1 && b.bottom > a.top + 1;
        const hits = lines.filter((a, i) => lines.some((b, j) => i < j && over(a, b)));
        return [...out, ...hits.map(() => 'labels overlap')];
    }""")
    assert overlaps == []


@pytest.mark.parametrize("what", ["svg", "png", "plans", "trace"])
def test_exports(page, view, what, tmp_path):
    view.get_by_text("Export").click()
    with page.expect_download() as download:
        view.locator(f"[data-export='{what}']").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    if what == "svg":
        assert ElementTree.fromstring(path.read_text()).tag.endswith("svg")
    elif what == "png":
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert len(path.read_bytes()) > 20_000
    elif what == "plans":
        first = json.loads(path.read_text())["sides"][0]["plan"]
        assert DecodePlan.from_json(json.dumps(first)).to_json() == local().plan_a.to_json()
    else:
        events = json.loads(path.read_text())["traceEvents"]
        plans = local().plan_a, local().plan_b
        assert sum(e.get("cat") == "chunk" for e in events) == sum(plan.num_descriptors for plan in plans)


def test_a_long_name_widens_nothing(page, view):
    wide = view.evaluate("(root) => root.querySelector('.wb-controls').getBoundingClientRect().width")
    assert wide < 220
    after_frame(page, view, lambda: pick(view, LONG, "b").click())
    boxes = view.evaluate("""(root) => [...root.querySelectorAll('.wb-controls *, .wb-table *, .wb-panel-title *')].map(
        (node) => node.getBoundingClientRect().right - root.getBoundingClientRect().right)""")
    assert max(boxes) <= 1


def test_numbers_typed_into_fields(page, view):
    def typed(field, words, key="Enter"):
        field.click()
        page.keyboard.press("Control+a")
        page.keyboard.type(words)
        page.keyboard.press(key)

    heads = view.get_by_label("KV heads", exact=True)
    for words in ("abc", "", "1e999"):
        typed(heads, words)
        assert heads.input_value() == "1"
    after_frame(page, view, lambda: typed(heads, "1e9"))
    assert heads.input_value() == "128"
    after_frame(page, view, lambda: typed(heads, "2", "Tab"))
    splits = view.get_by_label("Parameter of fixed splits", exact=True)
    typed(splits, "many")
    assert splits.input_value() == "32"
    after_frame(page, view, lambda: typed(splits, "7"))
    assert "fixed splits 7" in view.locator(".wb-panel-title").nth(1).inner_text()
    check_numbers(view, local(num_kv_heads=2, policy_b="fixed_splits(7)"))
    after_frame(page, view, lambda: typed(splits, "99999999"))
    assert splits.input_value() == "65536", "the largest that the policy takes, not a screen without a list"


def test_another_batch_cap_gives_other_steps(page, view):
    cap = view.get_by_label("Batch cap", exact=True)
    cap.fill("4")
    after_frame(page, view, lambda: cap.press("Enter"))
    explorer = local(max_batch=4)
    assert f"step 700 of {len(explorer.workload):,}" in view.locator(".wb-facts").inner_text()
    check_numbers(view, explorer)
    box = view.get_by_label("KV lengths: an expression or pasted numbers")
    after_frame(page, view, lambda: box.fill("2x8K"))
    assert not cap.is_visible(), "a batch has no cap"


def test_zoom_ends_when_the_gpu_changes(page, view):
    box = view.locator(".wb-overlay").first.bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 650, box["y"] + 60, steps=4)
    page.mouse.up()
    view.get_by_text("All CTAs").wait_for()
    after_frame(page, view, lambda: view.get_by_label("GPU", exact=True).select_option("H20"))
    assert not view.get_by_text("All CTAs").is_visible()
    assert view.locator(".wb-panels .wb-axis span").first.inner_text() == "CTA 0"


def test_stepping_moves_nothing_that_is_below(page, view):
    wait_for_all_steps(page)
    view.locator(".wb-overlay").first.focus()
    tops = []
    for _ in range(5):
        after_frame(page, view, lambda: page.keyboard.press("n"))
        tops.append(view.locator(".wb-transport").bounding_box()["y"])
    assert tops == sorted(tops), "the answer may grow, it never shrinks again"
    for _ in range(4):
        after_frame(page, view, lambda: page.keyboard.press("p"))
        assert view.locator(".wb-transport").bounding_box()["y"] == tops[-1]


def test_a_restarted_kernel_is_told_in_words(page, view):
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.wait_for_function("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'")
    view.get_by_label("KV cache").select_option("bf16")
    view.get_by_text("run its cell again").wait_for()


def test_a_saved_notebook_shows_a_picture_without_its_kernel(page, view, folder, browser):
    picture = "[class^=wb-static-]"
    assert page.locator(f"{picture}:visible").count() == 0, "not beside the live view"
    page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("() => !jupyterapp.shell.currentWidget.context.model.dirty")
    (folder / "saved.ipynb").write_text((folder / "explorer.ipynb").read_text())
    _, (address, token) = browser
    page.goto(f"{address}/lab/tree/saved.ipynb?token={token}&reset")
    page.locator(f"{picture}:visible").first.wait_for()
    assert page.locator(f"{picture}:visible").count() == 2
    image = page.locator(f"{picture} img").first
    assert image.evaluate("(img) => img.decode().then(() => img.naturalWidth)") == 1024
    assert image.get_attribute("alt") == local().session.scene().description
