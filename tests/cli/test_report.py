"""``workbench report``: its numbers are those of the sweep, and the page needs nothing but a browser."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from tests.waiting import SECONDS, until
from workbench.report.page import _percent
from workbench.schedule import balanced, cost_model, plan_decode
from workbench.schedule.search import search_static
from workbench.schedule.sweep import sweep
from workbench.widgets import text
from workbench.widgets.schedule.side import policy_title
from workbench.workloads import read_trace, simulate, synthetic_trace

HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}.jsonl"


def write_trace(path, num_requests=60, **options):
    trace = synthetic_trace(num_requests, rate=8.0, longest_output=200, median_output=60, **options)
    trace.to_frame().to_json(path, orient="records", lines=True)
    return path


class Page(HTMLParser):
    """What the tests look at: elements by tag, text of scripts by id, and the cells of tables."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.scripts, self.rows, self._open = [], {}, [], None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        self._open = (tag, dict(attrs))
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open and self._open[0] == "script":
            self.scripts[self._open[1].get("id")] = data
        elif self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

    def table(self, name):
        """Rows, as lists of cell texts, of all tables; those whose first cell is ``name``."""
        return [[" ".join(cell.split()) for cell in row] for row in self.rows if row and row[0].strip() == name]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A report with its trace and JSON, made once."""
    from typer.testing import CliRunner

    from workbench.cli import app

    folder = tmp_path_factory.mktemp("report")
    trace, output = write_trace(folder / HOSTILE), folder / "r.html"
    words = ["report", str(trace), "-o", str(output), "--gpu", "H100", "--every", "3", "--jobs", "1", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return trace, output, json.loads(done.stdout)


def expected(trace_path):
    steps = simulate(read_trace(trace_path))[::3]
    batches, cost = list(steps), cost_model("H100")
    search = search_static(batches, num_kv_heads=1, num_ctas=528, cost=cost)
    best = [search.best("fixed_splits"), search.best("fixed_chunk")]
    other = [name for name in ("fixed_splits(8)", "fixed_chunk(4096)") if name not in best]
    policies = [balanced(cost), "hpc-ops", "lpt", *best, *other]
    return steps, search, sweep(batches, policies=policies, num_kv_heads=1, num_ctas=528, cost=cost)


def test_json_is_the_sweep(made):
    trace, _, found = made
    steps, search, wanted = expected(trace)
    assert [row["policy"] for row in found["policies"]] == list(wanted.policies)
    assert found["steps"]["evaluated"] == len(steps) == wanted.num_steps
    best = wanted.call_us.min(axis=0)
    for i, row in enumerate(found["policies"]):
        call = wanted.call_us[i]
        assert row["median_us"] == np.median(call)
        assert row["p95_us"] == pytest.approx(np.quantile(call, 0.95), rel=1e-15)
        assert row["worst_us"] == call.max()
        assert row["over"] == [(call > 1.5 * best).mean(), (call > 2 * best).mean()]
        assert row["lost_us"] == pytest.approx((call - best).sum(), rel=1e-12)
        assert row["worst_ratio"] == (call / best).max()
    assert found["static_search"]["mean_call_us"] == dict(
        zip(search.settings, search.mean_call_us.tolist(), strict=True)
    )
    static = {name: wanted.call_us[wanted.index(name)].sum() for name in wanted.policies[3:5]}
    assert found["best_static"] == min(static, key=static.get)
    for step in found["worst_steps"]:
        at = step["index"]
        plan = plan_decode(steps.lengths(at), num_kv_heads=1, num_ctas=528, policy=step["policy"])
        assert step["call_us"] == plan.metrics(cost_model("H100")).call_us
        assert step["number"] == 3 * at
    first = found["worst_steps"][0]
    assert first["ratio"] == (wanted.call_us[wanted.index(found["best_static"])] / best).max()


def test_page_shows_the_same_numbers(made):
    _, output, found = made
    page = Page(output.read_text(encoding="utf-8"))
    numbers = json.loads(page.scripts["numbers"])
    assert numbers == {name: value for name, value in found.items() if name != "output"}
    for row in found["policies"]:
        cells = page.table(policy_title(row["policy"]))[0]
        assert cells[2:5] == [f"{text.us(row[name])} \u00b5s" for name in ("median_us", "p95_us", "worst_us")]
        assert cells[5] == f"{text.ratio(row['worst_ratio'])}\u00d7"
        assert cells[6:8] == [_percent(share) for share in row["over"]]
        assert cells[8:10] == [_percent(row["lost_share"]), f"{row['lost_us'] / 1e3:,.1f}"]
    columns = json.loads(page.scripts["hover"])["columns"]
    assert len(columns) == min(found["steps"]["evaluated"], 880)
    assert "simulated" in output.read_text()
    assert found["source"] in output.read_text().replace("&#39;", "'")


def test_hover_tells_the_worst_step_of_each_column(made):
    trace, output, found = made
    steps, _, wanted = expected(trace)
    columns = json.loads(Page(output.read_text(encoding="utf-8")).scripts["hover"])["columns"]
    b = wanted.index(found["best_static"])
    edges = np.arange(len(columns) + 1) * len(steps) // len(columns)
    for i in range(0, len(columns), 37):
        at = edges[i] + int(np.argmax(wanted.over_best[b, edges[i] : edges[i + 1]]))
        assert columns[i][0].startswith(f"step {3 * at:,},")
        title = policy_title(found["best_static"])
        assert (
            f"{title}: {text.us(wanted.call_us[b, at])} \u00b5s, {text.ratio(wanted.over_best[b, at])}\u00d7"
            in columns[i]
        )


def test_the_page_holds_no_address_and_escapes_names(made):
    _, output, found = made
    html = output.read_text(encoding="utf-8")
    page = Page(html)
    assert found["trace"]["name"] == HOSTILE
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        for name in ("src", "href", "srcset"):
            assert attributes.get(name, "data:").startswith("data:")
    assert [a for tag, a in page.tags if tag == "img" and not a["src"].startswith("data:image/svg+xml")] == []
    assert "{{7*7}}" in html  # a name is no template
    assert "49.jsonl" not in html
    (policy,) = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")


def test_the_command_shown_makes_the_same_page(made, run):
    import shlex

    _, output, _ = made
    html = output.read_text(encoding="utf-8")
    shown = re.search(r"<pre><code>(.*?)</code></pre>", html, re.DOTALL)
    from html import unescape

    words = shlex.split(unescape(shown[1]))
    assert words[:2] == ["workbench", "report"]
    assert run(*words[1:]).code == 0
    assert output.read_text(encoding="utf-8") == html


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_in_a_browser_without_network_or_errors(made, chromium, scheme):
    from tests.browser import expect, running_chromium

    _, output, found = made
    asked, said = [], []
    with running_chromium(chromium) as browser:
        context = browser.new_context(color_scheme=scheme, viewport={"width": 1240, "height": 900}, offline=True)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.goto(output.as_uri())
        expect(page.locator("figure img")).to_have_count(len(found["worst_steps"]))
        until(lambda: all(page.evaluate("[...document.images].map((i) => i.complete && i.naturalWidth)")))
        tip, columns = page.locator("#tip"), json.loads(page.locator("#hover").text_content())["columns"]
        page.locator("#strip-box").focus()
        for key, column in (("End", -1), ("ArrowLeft", -2)):
            page.keyboard.press(key)
            expect(tip.locator("div")).to_have_text(columns[column])
        page.keyboard.press("Escape")
        expect(tip).to_be_hidden()
        box = page.locator("#strip").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 100)
        expect(tip).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 1240
        shade = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (shade == "rgb(255, 255, 255)") == (scheme == "light")
        page.set_viewport_size({"width": 480, "height": 800})
        until(lambda: page.evaluate("document.documentElement.scrollWidth") <= 480)  # redrawn after a frame
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_a_users_policy_takes_part(run, tmp_path):
    policy = tmp_path / "mine.py"
    policy.write_text(
        "def whole(lengths, heads, ctas, tile):\n"
        "    pieces = [[(h, r, 0, -(-int(n) // tile))] for h in range(heads) for r, n in enumerate(lengths)]\n"
        "    return pieces if len(pieces) <= ctas else [sum(pieces[c::ctas], []) for c in range(ctas)]\n"
    )
    trace = write_trace(tmp_path / "t.jsonl", 12)
    words = ["report", trace, "-o", tmp_path / "r.html", "--policy", f"{policy}:whole", "--every", "20", "--json"]
    found = json.loads(run(*words).out)
    (row,) = [row for row in found["policies"] if row["kind"] == "dynamic"]
    assert row["policy"] == "mine.py:whole"
    steps = simulate(read_trace(trace))[::20]
    calls = [
        plan_decode(batch, num_kv_heads=1, num_ctas=528, policy="fixed_splits(1)").metrics().call_us for batch in steps
    ]
    assert row["worst_us"] == max(calls)


def test_a_users_policy_does_not_take_the_place_of_ours(run, tmp_path):
    policy = tmp_path / "mine.py"
    policy.write_text("def lpt(lengths, heads, ctas, tile):\n    return [[(0, r, 0, -(-int(n) // tile))"
                      " for r, n in enumerate(lengths)]]\n")  # fmt: skip
    trace = write_trace(tmp_path / "t.jsonl", 12)
    words = ["report", trace, "-o", tmp_path / "r.html", "--every", "20", "--json", "--policy", "lpt"]
    alone = json.loads(run(*words).out)["policies"]
    both = json.loads(run(*words, "--policy", f"{policy}:lpt", "--policy", "lpt").out)["policies"]
    assert [row["policy"] for row in both][:2] == ["lpt", "mine.py:lpt"]
    assert both[0]["total_us"] == alone[0]["total_us"] < both[1]["total_us"]


def test_a_policy_that_exits_does_not_pass_for_success(refused, tmp_path):
    policy = tmp_path / "mine.py"
    policy.write_text("def leave(lengths, heads, ctas, tile):\n    raise SystemExit\n")
    trace = write_trace(tmp_path / "t.jsonl", 3)
    said = refused("report", trace, "-o", tmp_path / "r.html", "--policy", f"{policy}:leave")
    assert "mine.py:leave fails" in said
    assert "line 2" in said
    policy.write_text("import sys\nsys.exit()\n")
    assert "fails to run: line 2" in refused("report", trace, "--policy", f"{policy}:f", "-o", tmp_path / "r.html")


def test_the_trace_is_not_overwritten(refused, tmp_path):
    trace = write_trace(tmp_path / "t.jsonl", 3)
    before = trace.read_bytes()
    link = tmp_path / "link.html"
    link.symlink_to(trace)
    for output in (trace, link):
        assert "is the file that is read" in refused("report", trace, "-o", output)
    assert trace.read_bytes() == before


def test_names_that_are_not_text(run, tmp_path):
    name = os.fsdecode(b"\xff trace")
    trace = write_trace(tmp_path / "t.jsonl", 3).rename(tmp_path / f"{name}.jsonl")
    output = tmp_path / f"{name}.html"
    assert run("report", trace, "-o", output).code == 0
    assert "\\udcff trace.jsonl" in output.read_text(encoding="utf-8")


def started(*words, **options):
    """The command line in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), **options.pop("env", {})}
    command = [sys.executable, "-m", "workbench", *map(str, words)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, **options)


def test_a_terminal_without_our_characters_still_shows_the_answer(tmp_path):
    trace = write_trace(tmp_path / "t.jsonl", 3)
    env = {"PYTHONIOENCODING": "ascii"}
    done = started("report", trace, "-o", tmp_path / "r.html", stdout=subprocess.PIPE, env=env)
    out, said = done.communicate(timeout=SECONDS)
    assert (done.returncode, said) == (0, "")
    assert "1.5\\xd7" in out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux' /dev/full")
@pytest.mark.parametrize("words", [("plan", "4K"), ("plan", "4K", "--json"), ("doctor",)], ids=" ".join)
def test_standard_output_on_a_full_disk_is_told(words):
    with Path("/dev/full").open("w") as full:
        done = started(*words, stdout=full)
        _, said = done.communicate(timeout=SECONDS)
    assert done.returncode == 1
    assert said == "Error: standard output cannot be written: No space left on device. Send it elsewhere.\n"


def with_its_workers(run):
    """Wait until a report has started its two workers and their resource tracker; the numbers of these processes."""
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    found: set[int] = set()

    def all_there():
        assert run.poll() is None, "it ended before its workers were there"
        found.update(map(int, children.read_text().split()))
        return len(found) >= 3

    until(all_there, seconds=300)  # the search for the best static settings comes first
    return found


finds_processes = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes in Linux' /proc")


@finds_processes
def test_a_killed_report_leaves_no_process(tmp_path):
    """Nobody is left to tell the workers: each watches its parent."""
    run = started("report", "-o", tmp_path / "r.html", "--jobs", "2", "--every", "1", stdout=subprocess.DEVNULL)
    found = with_its_workers(run)
    time.sleep(0.5)  # most often the workers are past their start by then; before it they have to end too
    run.kill()
    run.communicate(timeout=SECONDS)
    until(lambda: [pid for pid in found if running(pid)], lambda left: left == [])


def running(pid):
    """Whether a process is there and not merely waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_sample_and_default_output(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("report", "--every", "400")
    assert done.code == 0
    assert "The best static setting for this trace" in done.out
    assert "Wrote report.html" in done.out
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@finds_processes
@pytest.mark.usefixtures("heeds_interruptions")
def test_an_interruption_ends_at_once_and_leaves_no_file(tmp_path):
    options = {"cwd": tmp_path, "start_new_session": True}  # the signal goes to its processes, and to no other
    with started("report", "-o", "r.html", "--jobs", "2", stdout=subprocess.DEVNULL, **options) as report:
        try:
            with_its_workers(report)
            os.killpg(report.pid, signal.SIGINT)
            _, said = report.communicate(timeout=SECONDS)
        finally:
            report.kill()
    assert report.returncode == 130, said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_bad_input_leaves_the_old_report(refused, tmp_path):
    output = tmp_path / "r.html"
    output.write_text("old")
    good = write_trace(tmp_path / "good.jsonl", 5)
    line = '{"arrival_s": 0, "input_tokens": 10, "output_tokens": 5}\n'
    for name, content in {
        "half.jsonl": line + '{"arrival_s": 1, "inp',
        "negative.jsonl": line + line.replace("10", "-10"),
        "empty.jsonl": "",
        "silent.jsonl": line.replace('"output_tokens": 5', '"output_tokens": 1'),
        "other.csv": "a,b\n1,2\n",
    }.items():
        (tmp_path / name).write_text(content)
    for words, said in (
        ([tmp_path / "none.jsonl"], "no such file"),
        ([tmp_path / "half.jsonl"], "line 2"),
        ([tmp_path / "negative.jsonl"], "line 2"),
        ([tmp_path / "empty.jsonl"], "empty.jsonl"),
        ([tmp_path / "silent.jsonl"], "no request decodes"),
        ([tmp_path / "other.csv"], "no known format"),
        ([good, "--gpu", "TPU"], "nor a .toml or .json"),
        ([good, "--policy", "fixed_splits(2)"], "all static"),
        ([good, "--policy", "best"], "not known"),
        ([good, "--every", "0"], "every"),
        ([good, "--kv-capacity", "10"], "kv_capacity"),
        (["--rate", "3"], "Give the trace"),
    ):
        assert said.lower() in refused("report", *words, "-o", output).lower()
    assert "no folder" in refused("report", good, "-o", tmp_path / "no" / "r.html")
    assert output.read_text() == "old"
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_mooncake_in_the_report(run, reference_data, tmp_path):
    """The real trace, thinned: the page says which steps were evaluated and that they are simulated."""
    trace = reference_data / "traces" / "mooncake_conversation_trace.jsonl"
    done = run("report", trace, "-o", tmp_path / "r.html", "--every", "500")
    assert done.code == 0
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "every 500th of 175,933" in " ".join(html.split())
    assert "<b>simulated</b>" in html
