import base64
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from workbench import ScheduleExplorer
from workbench.errors import InvalidArgument, WorkbenchError
from workbench.schedule import plan_decode
from workbench.widgets import assets
from workbench.widgets.schedule.explorer import SCRIPTS
from workbench.workloads import RequestTrace, simulate


def call_of(explorer, key):
    row = next(row for row in explorer.frame["scene"]["rows"] if row["key"] == key)
    return row["cells"][0]["text"]


def test_settings_read_and_write_and_every_change_is_one_frame():
    explorer = ScheduleExplorer("64x4K + 2x32K", policy_b="lpt")
    number = explorer.frame["number"]
    explorer.change(gpu="H20", tile=32, ctas_per_sm=2)
    assert explorer.frame["number"] == number + 1
    assert (explorer.gpu.name, explorer.tile, explorer.plan.num_ctas) == ("H20", 32, 156)
    assert (
        explorer.plan_b.to_json()
        == plan_decode(explorer.lengths, num_kv_heads=1, num_ctas=156, tile=32, policy="lpt").to_json()
    )
    explorer.policy_b = "fixed_splits(4)"
    assert call_of(explorer, "B") == f"{explorer.plan_b.metrics(explorer.session.cost).call_us:.1f}"
    explorer.selection = 65
    assert explorer.selection == 65
    explorer.selection = None
    assert explorer.selection in (64, 65)


def test_an_error_from_python_raises_and_keeps_the_frame():
    explorer = ScheduleExplorer("64x4K")
    frame = explorer.frame
    for name, value in (("gpu", "X"), ("step", 9), ("policy_a", "greedy"), ("workload", "64x")):
        with pytest.raises(WorkbenchError):
            setattr(explorer, name, value)
    assert explorer.frame is frame
    with pytest.raises(InvalidArgument, match="takes no colour"):
        ScheduleExplorer("64x4K", colour=1)


def test_an_error_from_a_view_blanks_every_number_until_it_is_mended():
    explorer = ScheduleExplorer("64x4K")
    explorer.set_from_view("v", 1, {"pasted": "64x4K + 2xfoo"})
    frame = explorer.frame
    assert frame["fault"]["field"] == "pasted"
    assert "2xfoo" in frame["fault"]["text"]
    assert frame["scene"] is None
    assert frame["policies"] == []
    assert frame["ack"] == {"v": 1}
    explorer.set_from_view("v", 2, {"pasted": "2x8K"})
    assert explorer.frame["fault"] is None
    assert explorer.lengths.tolist() == [8192, 8192]
    explorer.set_from_view("v", 3, {"num_kv_heads": 10**6})
    assert explorer.frame["scene"] is None
    explorer.num_kv_heads = 2
    assert explorer.frame["scene"] is not None


def test_arrays_travel_as_bytes_of_the_declared_types():
    explorer = ScheduleExplorer("64x4K + 2x32K", policy_b="fixed_splits(16)")
    panel = explorer.frame["scene"]["panels"][1]
    end = np.frombuffer(panel["end"], "<f4")
    assert end.size == explorer.plan_b.num_descriptors
    assert np.frombuffer(panel["offsets"], "<u4").size == explorer.plan_b.num_ctas + 1
    assert end.max() == pytest.approx(explorer.plan_b.metrics().bins_us)


def test_below_the_widget_is_a_picture_for_readers_without_a_kernel(monkeypatch):
    shown = []
    monkeypatch.setattr("workbench.widgets.base.display", lambda data, **_: shown.append(data))
    explorer = ScheduleExplorer("64x4K", policies={"<img src=x>": lambda *a: 1 // 0}, policy_b="<img src=x>")
    explorer._ipython_display_()
    widget, picture = shown
    assert "application/vnd.jupyter.widget-view+json" in widget
    image = ElementTree.fromstring(picture["text/html"]).find("img")
    svg = base64.b64decode(image.get("src").removeprefix("data:image/svg+xml;base64,")).decode()
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "<img" not in svg
    assert image.get("alt") == picture["text/plain"] == explorer.session.scene().description
    assert explorer.constants["picture"] in picture["text/html"]
    assert explorer.constants["picture"] != ScheduleExplorer("64x4K").constants["picture"]


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 5], [1], [4096] * 300, [2**20]])
@pytest.mark.parametrize("unit", ["us", "tiles"])
def test_odd_batches_have_a_screen(lengths, unit):
    explorer = ScheduleExplorer(lengths, unit=unit, num_kv_heads=3)
    assert "nan" not in str(explorer.frame["scene"]["rows"])
    ElementTree.fromstring(explorer.to_svg(theme="dark", width=760))


def test_the_strip_and_the_records_are_of_the_workload_that_was_given_last():
    """A workload that is gone leaves its memory to the next one, which must not be taken for it."""
    explorer = ScheduleExplorer("2x4K")
    keys = set()
    for tokens in range(1, 21):
        explorer.workload = simulate(RequestTrace([0.0], [tokens], [3]))
        assert explorer.all_steps().steps is explorer.workload.steps
        keys.add(explorer.frame["settings"]["records_key"])
    assert len(keys) == 20
    explorer.order = "load"
    assert explorer.frame["settings"]["records_key"] in keys, "the order of the CTAs plays no part"


def test_every_script_is_joined_after_what_it_imports_and_none_is_long():
    joined = assets.module(SCRIPTS)
    assert not re.search(r"^import ", joined, re.MULTILINE)
    assert len(re.findall(r"^export ", joined, re.MULTILINE)) == 1
    seen = set()
    for name in SCRIPTS:
        source = assets.text(name)
        assert set(re.findall(r'from "\./([a-z_]+\.js)"', source)) <= seen, name
        assert source.count("\n") <= 400, name
        seen.add(name)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", joined + assets.text("schedule.css"))
    assert "innerHTML" not in joined
