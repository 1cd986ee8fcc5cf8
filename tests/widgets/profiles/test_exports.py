"""Files: every figure once, hostile text harmless."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from itertools import pairwise

import pandas as pd
import pytest

from tests.widgets.profiles.samples import nsight, reduced
from workbench import ProfileBrowser
from workbench.errors import InvalidArgument, RecordError
from workbench.records import Workload
from workbench.widgets.profiles.exports import COLUMNS
from workbench.widgets.schedule.svg_pen import text_width

HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(2)> & "quotes" ]]> \x0b {brace}'


@pytest.fixture
def browser(filled):
    return ProfileBrowser(filled)


def test_a_row_a_capture_and_figure(browser):
    frame = browser.to_frame()
    assert tuple(frame.columns) == COLUMNS
    counted = frame[frame["counters"]]
    assert counted.groupby("record")["metric"].nunique().sum() == len(counted)
    one = browser.captures[5]
    mine = counted[counted["record"] == one.key].set_index("metric")
    for name, value in one.record.metrics.items():
        assert mine.loc[name, "value"] == pytest.approx(value)
    assert mine.loc["imbalance", "runs"] is pd.NA


def test_benchmark_times_have_a_column_of_their_own(browser):
    frame = browser.to_frame()
    less = frame[~frame["counters"]]
    assert len(less) == 1
    assert less["value"].isna().all()
    assert less["benchmark_us"].tolist() == [16.25]
    assert frame[frame["counters"]]["benchmark_us"].isna().all()


def test_parquet_and_csv_give_the_table_back(browser):
    frame = browser.to_frame()
    again = pd.read_parquet(io.BytesIO(browser.to_parquet()))
    pd.testing.assert_frame_equal(again, frame, check_dtype=False)
    text = pd.read_csv(io.StringIO(browser.to_csv()))
    assert text["value"].tolist() == pytest.approx(frame["value"].tolist(), nan_ok=True)


def test_picked_ones_alone(browser):
    browser.picks = browser.captures[:2]
    assert set(browser.to_frame()["record"]) == {one.key for one in browser.captures[:2]}


def test_files_are_written_and_refusals_told(browser, tmp_path):
    browser.picks = browser.captures[:2]
    for write, name in ((browser.to_csv, "a.csv"), (browser.to_parquet, "a.parquet"), (browser.to_html, "a.html")):
        content = write(tmp_path / name)
        assert (tmp_path / name).read_bytes() == (content if isinstance(content, bytes) else content.encode())
        with pytest.raises(RecordError, match="cannot be written"):
            write(tmp_path / "no" / "such" / "folder")


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.attributes = [], []

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.attributes += [name for name, _ in attrs]


def test_hostile_text_is_text_everywhere(empty):
    metrics = {"gpu__time_duration.sum": 1.0, HOSTILE: 2.0}
    empty.add(nsight(metrics=metrics, units={HOSTILE: HOSTILE}, policy=HOSTILE, configuration={HOSTILE: HOSTILE}))
    empty.add(nsight(provider="x", configuration={"a": HOSTILE}, method=HOSTILE))
    browser = ProfileBrowser(empty)
    browser.picks = browser.captures
    browser.note(browser.captures[0], HOSTILE)
    for view in ("compare", "roofline", "parameter", "schedule", "notes"):
        browser.view = view
        tags = Tags()
        tags.feed(browser.to_html())
        assert not {"script", "img", "iframe"} & set(tags.found)
        assert not [name for name in tags.attributes if name.startswith("on")]
        for theme in ("light", "dark"):
            root = ElementTree.fromstring(browser.to_svg(theme=theme))
            assert not [e for e in root.iter() if e.tag.rpartition("}")[2] in ("script", "img", "foreignObject")]


@pytest.mark.parametrize("picked", [2, 3, 5])
def test_texts_of_the_picture_stay_in_their_columns(browser, picked):
    browser.change(picks=[one for one in browser.shown if one.counted][:picked], view="compare")
    root = ElementTree.fromstring(browser.to_svg())
    width = float(root.get("viewBox").split()[2])
    lines = {}
    for node in root.iter("{http://www.w3.org/2000/svg}text"):
        size, long = float(node.get("font-size", 12)), "".join(node.itertext())
        bold = 1.06 if int(node.get("font-weight", 400)) >= 600 else 1
        left, wide = float(node.get("x")), text_width(long, size) * bold
        left -= {"end": wide, "middle": wide / 2}.get(node.get("text-anchor"), 0)
        lines.setdefault(node.get("y"), []).append((left, left + wide, long))
    assert sum(map(len, lines.values())) > 50
    for texts in lines.values():
        texts.sort()
        assert texts[-1][1] <= width
        for (_, end, one), (start, _, other) in pairwise(texts):
            assert end <= start + 1, (one, other)


def test_the_page_says_which_differences_are_beyond_the_noise(browser, tmp_path):
    browser.change(case="2x32K+30x4K", gpu="H200", sort="isolated", descending=False, view="compare")
    browser.change(picks=browser.shown[:3])
    browser.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    verdicts = [change.verdict for row in browser.session.rows for change in row.differences if change is not None]
    assert page.count('class="b"') == verdicts.count("beyond") > 0
    assert page.count(" (noise)<") == verdicts.count("within")
    assert page.count(" (noise ?)<") == verdicts.count("unknown") > 0


def test_formulas_of_a_spreadsheet_are_disarmed(empty):
    empty.add(nsight(policy="=cmd|' /C calc'!A0", configuration={"=1+1": 2}))
    browser = ProfileBrowser(empty)
    browser.note(browser.captures[0], "@SUM(1)")
    table = pd.read_csv(io.StringIO(browser.to_csv()))
    for column in ("policy", "config", "note"):
        assert table[column].str.startswith("'").all()
    assert browser.to_frame()["note"].tolist()[0] == "@SUM(1)", "only the CSV is changed"


def test_copied_code_opens_the_same_view(filled):
    browser = ProfileBrowser(filled, gpu="H200", config="stages=4", view="roofline", sort="metric", descending=False)
    browser.picks = browser.shown[:2]
    code = browser.copy_as_code().replace("ProfileBrowser(", "ProfileBrowser(store, ")
    space = {"store": filled}
    exec(code, space)
    assert space["browser"].session.state == browser.session.state


def test_comparison_as_a_table(browser):
    a, b = [one for one in browser.captures if one.counted][:2]
    browser.picks = [a, b]
    table = browser.compare().set_index("metric")
    name = "gpu__time_duration.sum"
    assert table.loc[name, "A"] == pytest.approx(a.record.metrics[name])
    assert table.loc[name, "B - A"] == pytest.approx(b.record.metrics[name] - a.record.metrics[name])
    assert set(table["B verdict"]) <= {"beyond", "within", "unknown", "equal", "none"}
    assert ProfileBrowser(browser.session.store).compare().empty


def test_notes_through_the_browser(browser, own):
    one = browser.captures[0]
    assert browser.note(one) == ""
    browser.note(one, "look here")
    assert browser.note(one.key) == "look here"
    assert next(row for row in browser.frame["rows"] if row["key"] == one.key)["note"] == "look here"
    assert (own / ".notes" / f"{one.key}.txt").is_file()
    with pytest.raises(InvalidArgument, match="no capture"):
        browser.note("nsight-" + "0" * 32, "text")


def test_damaged_and_strange_records_do_not_keep_the_browser_from_opening(empty):
    broken = empty.add(nsight(policy="broken"))
    broken.write_bytes(b"{")
    empty.add(nsight(metrics={"a": 1e300, "b": -1e-300, "c": 0.0}, units={"a": "furlong"}, runs=0))
    empty.add(nsight(workload=Workload(case="x" * 60, parameters={}), configuration={"list": [1, {"a": None}]}))
    empty.add(reduced(kernels="none"))
    browser = ProfileBrowser(empty)
    assert len(browser.problems) == 1
    assert "skipped" in browser.frame["problems"][0]
    browser.picks = browser.captures
    for view in ("compare", "roofline", "parameter", "schedule", "notes"):
        browser.view = view
        browser.to_svg()


def test_nothing_compared_is_a_table_without_rows(empty):
    frame = ProfileBrowser(empty).compare()
    assert list(frame.columns) == ["metric", "title", "unit"]
    assert frame.empty
