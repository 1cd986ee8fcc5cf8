"""The explorer in a real JupyterLab in Chromium: what is on screen is what Python says."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from tests.browser import after_frame, expect, jupyter_lab, resize, until
from workbench import ScheduleExplorer
from workbench.schedule import DecodePlan
from workbench.widgets import text
from workbench.widgets.colours import DARK, LIGHT
from workbench.widgets.schedule.sentence import over_bound

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
LONG = "a name that goes on and on " * 8


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with jupyter_lab(tmp_path_factory.mktemp("lab"), explorer=[SETUP, SECOND_VIEW]) as running:
        yield running


@pytest.fixture
def page(lab):
    with lab.page("explorer", ".wb-explorer[data-frame] >> nth=1", height=2400) as page:
        yield page


@pytest.fixture
def view(page):
    return page.locator(".wb-explorer").first


def local(**settings):
    return ScheduleExplorer("sample trace", **{"step": 700} | settings)


def check_numbers(view, explorer):
    for key, plan in (("A", explorer.plan_a), ("B", explorer.plan_b)):
        m = plan.metrics(explorer.session.cost)
        for metric, words in (
            ("call_us", text.us(m.call_us)),
            ("efficiency", text.ratio(over_bound(m))),
            ("max_over_mean", text.ratio(m.max_over_mean)),
            ("idle_fraction", text.percent(m.idle_fraction)),
            ("merge_us", text.us(m.merge_us)),
            ("partial_bytes", text.size(m.partial_bytes)),
        ):
            expect(view.locator(f"[data-side='{key}'][data-metric='{metric}']")).to_have_text(words)
        for line, value in (
            ("makespan", m.makespan_us),
            ("last", m.bins_us),
            ("mean", m.mean_us),
            ("bound", m.bound_us),
        ):
            if line != "last" or m.merge_us:
                expect(view.locator(f"[data-line='{line}'][data-side='{key}']")).to_have_text(text.us(value))
        for kind, value in (("waiting", m.waiting_us), ("fixed", m.fixed_us), ("reading", m.stream_us)):
            part = view.locator(f"[data-part='{kind}'][data-side='{key}']")
            expect(part).to_have_attribute("data-text", text.us(value))
    expect(view.locator(".wb-footer")).to_contain_text(explorer.session.cost.source)


def pick(view, policy, side):
    return view.locator(f".wb-policy:has([data-policy='{policy}']) .wb-pick-{side}")


def test_numbers_on_screen_are_the_metrics(page, view):
    check_numbers(view, local())
    after_frame(view, lambda: view.get_by_label("GPU", exact=True).select_option("H20"))
    after_frame(view, lambda: pick(view, "lpt", "b").click())
    check_numbers(view, local(gpu="H20", policy_b="lpt"))
    want = local(gpu="H20", policy_b="balanced").plan_b.metrics(local(gpu="H20").session.cost).call_us
    expect(view.locator("[data-policy='balanced']")).to_have_text(text.us(want))


def test_the_slider_steps_and_both_views_follow(page, view):
    slider = view.get_by_label("Step of the trace")
    slider.focus()
    page.keyboard.press("ArrowRight")
    explorer = local(step=701)
    for each in (view, page.locator(".wb-explorer").nth(1)):
        expect(each.locator(".wb-position b")).to_have_text("701")
        check_numbers(each, explorer)


def test_the_card_says_what_the_descriptor_says(page, view):
    plot = view.locator(".wb-overlay").nth(1)
    plot.focus()
    page.keyboard.press("ArrowRight")
    card = view.locator(".wb-card")
    plan = local().plan_b
    d = plan.descriptors[0]
    last = d["first_token"] + d["num_tokens"] - 1
    for words in (
        f"Request {d['request']}",
        f"KV head {d['kv_head']}, chunk {d['chunk'] + 1} of {plan.chunk_counts[0, d['request']]}",
        f"tokens {d['first_token']:,} to {last:,}",
        f"CTA {d['cta']}, SM {d['cta'] % 132} (assumed)",
    ):
        expect(card).to_contain_text(words)
    page.keyboard.press("ArrowRight")
    d = plan.descriptors[1]
    expect(card).to_contain_text(f"tokens {d['first_token']:,} to")
    page.keyboard.press("Enter")
    expect(view.locator(".wb-chip[aria-pressed='true'] b")).to_have_text(str(d["request"]))


def test_keys(page, view):
    plot = view.locator(".wb-overlay").first
    plot.focus()
    for key, label, value in (("o", "Order", "sm"), ("u", "Unit", "tiles"), ("y", "Scale", "own")):
        page.keyboard.press(key)
        group = view.get_by_role("radiogroup", name=label)
        expect(group.locator("[aria-checked='true']")).to_have_attribute("data-value", value)
    tiles = str(local().plan_a.metrics().max_tiles)
    expect(view.locator("[data-line='makespan'][data-side='A']")).to_have_text(tiles)
    for key, step in (("]", "701"), ("[", "700")):
        page.keyboard.press(key)
        expect(view.locator(".wb-position b")).to_have_text(step)
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


def wait_for_all_steps(view):
    expect(view.locator(".wb-strip .wb-note")).to_have_text(re.compile("^worst"), timeout=180_000)


def test_bad_steps_are_found_and_reached(page, view):
    wait_for_all_steps(view)
    explorer = local()
    strip = explorer.all_steps()
    while not strip.finished:
        strip.advance(1)
    bad = next(step for step in strip.bad_steps() if step > 700)
    view.locator(".wb-overlay").first.focus()
    page.keyboard.press("n")
    expect(view.locator(".wb-position b")).to_have_text(f"{bad:,}")
    cells = [value for row in strip.statistics() for value in row]
    expect(view.locator(".wb-strip-table tbody td")).to_have_text(cells)


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
    box.fill("64x4K + 2xfoo")
    expect(view.get_by_role("alert")).to_contain_text("2xfoo")
    expect(view.locator("[data-metric]:visible")).to_have_count(0)
    expect(view.locator("[data-line]:visible")).to_have_count(0)
    expect(view.locator(".wb-policy")).to_have_count(0)
    box.fill("2x8K")
    expect(view.locator(".wb-facts")).to_contain_text("2 requests")
    check_numbers(view, ScheduleExplorer("2x8K"))


def test_a_policy_that_fails_is_told_in_words_and_names_are_not_markup(page, view):
    pick(view, "mine", "b").click()
    expect(view.locator(".wb-problem")).to_contain_text("assigned to no CTA")
    expect(view.locator("[data-side='B'][data-metric]")).to_have_count(0)
    view.locator(".wb-policy").last.locator(".wb-pick-a").click()
    expect(view.locator(".wb-problem").first).to_contain_text("ZeroDivisionError")
    expect(view.locator(".wb-sentence")).to_contain_text("Neither policy gives a valid plan")
    assert view.locator("img").count() == 0


def test_times_that_arrive_leave_the_buttons_where_they_are(page, view):
    # Looks at the list as the view draws the new GPU, before any of its times can have come.
    words = view.evaluate("""(root) => new Promise((resolve) => {
        const before = Number(root.dataset.frame);
        root.addEventListener('wb-drawn', ({ detail }) => {
            if (detail.number === before) return;
            window.buttons = [...root.querySelectorAll('.wb-pick')];
            resolve([...root.querySelectorAll('.wb-policy-time')].map((node) => node.textContent));
        });
        const menu = root.querySelector("select[aria-label='GPU']");
        menu.value = 'B200';
        menu.dispatchEvent(new Event('change'));
    })""")
    assert "\u00b7" in words
    expect(view.locator(".wb-policy-time", has_text="\u00b7")).to_have_count(0)
    assert view.evaluate("(root) => window.buttons.every((node) => root.contains(node))")


def test_the_theme_follows_jupyterlab(page, view):
    def background():
        return view.evaluate("(root) => getComputedStyle(root).getPropertyValue('--wb-background').trim()")

    view.locator(".wb-overlay").first.focus()
    page.keyboard.press("ArrowRight")
    view.locator(".wb-card").wait_for()
    assert until(background) == LIGHT.background
    page.evaluate("() => { jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' }); }")
    page.wait_for_selector(".wb-explorer.wb-dark")
    expect(view.locator(".wb-card")).to_be_hidden()  # its lens has the colours of the theme before
    until(background, lambda found: found == DARK.background)
    page.evaluate("() => { jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' }); }")
    page.wait_for_selector(".wb-explorer:not(.wb-dark)")


@pytest.mark.parametrize("width", [680, 780, 950, 1150, 1500])
def test_nothing_sticks_out_and_no_labels_overlap(page, view, width):
    resize(view, width=width, height=2400)
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
    pick(view, LONG, "b").click()
    expect(view.locator(".wb-problem")).to_contain_text("assigned to no CTA")
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
        expect(heads).to_have_value("1")
    after_frame(view, lambda: typed(heads, "1e9"))
    expect(heads).to_have_value("128")
    after_frame(view, lambda: typed(heads, "2", "Tab"))
    splits = view.get_by_label("Parameter of fixed splits", exact=True)
    typed(splits, "many")
    expect(splits).to_have_value("32")
    typed(splits, "7")
    expect(view.locator(".wb-panel-title").nth(1)).to_contain_text("fixed splits 7")
    check_numbers(view, local(num_kv_heads=2, policy_b="fixed_splits(7)"))
    typed(splits, "99999999")
    expect(splits).to_have_value("65536")  # the largest that the policy takes, not a screen without a list


def test_another_batch_cap_gives_other_steps(page, view):
    cap = view.get_by_label("Batch cap", exact=True)
    cap.fill("4")
    cap.press("Enter")
    explorer = local(max_batch=4)
    expect(view.locator(".wb-facts")).to_contain_text(f"step 700 of {len(explorer.workload):,}")
    check_numbers(view, explorer)
    view.get_by_label("KV lengths: an expression or pasted numbers").fill("2x8K")
    expect(cap).to_be_hidden()  # a batch has no cap


def test_zoom_ends_when_the_gpu_changes(page, view):
    box = view.locator(".wb-overlay").first.bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 650, box["y"] + 60, steps=4)
    page.mouse.up()
    view.get_by_text("All CTAs").wait_for()
    view.get_by_label("GPU", exact=True).select_option("H20")
    expect(view.get_by_text("All CTAs")).to_be_hidden()
    expect(view.locator(".wb-panels .wb-axis span").first).to_have_text("CTA 0")


def test_stepping_moves_nothing_that_is_below(page, view):
    wait_for_all_steps(view)
    view.locator(".wb-overlay").first.focus()
    position = view.locator(".wb-position b")
    tops = []

    def step(key):
        before = position.inner_text()
        page.keyboard.press(key)
        expect(position).not_to_have_text(before)
        return view.locator(".wb-transport").bounding_box()["y"]

    for _ in range(5):
        tops.append(step("n"))
    assert tops == sorted(tops), "the answer may grow, it never shrinks again"
    for _ in range(4):
        assert step("p") == tops[-1]


def test_a_restarted_kernel_is_told_in_words(page, view):
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    until(lambda: page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.status"), "idle".__eq__)
    view.get_by_label("KV cache").select_option("bf16")
    view.get_by_text("run its cell again").wait_for()


def test_a_saved_notebook_shows_a_picture_without_its_kernel(page, view, lab):
    picture = "[class^=wb-static-]"
    expect(page.locator(picture)).to_have_count(2)
    expect(page.locator(f"{picture}:visible")).to_have_count(0)  # not beside the live view
    page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    until(lambda: not page.evaluate("jupyterapp.shell.currentWidget.context.model.dirty"))
    (lab.folder / "saved.ipynb").write_text((lab.folder / "explorer.ipynb").read_text())
    page.goto(f"{lab.address}/lab/tree/saved.ipynb?token={lab.token}&reset")
    expect(page.locator(f"{picture}:visible")).to_have_count(2)
    image = page.locator(f"{picture} img").first
    assert image.evaluate("(img) => img.decode().then(() => img.naturalWidth)") == 1024
    assert image.get_attribute("alt") == local().session.scene().description
