"""The picture of a precision view says what the view says."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from workbench.measure.precision import PrecisionView, precision_view  # noqa: E402
from workbench.measure.precision_synthetic import synthetic  # noqa: E402
from workbench.tables import RouterModel  # noqa: E402
from workbench.widgets.precision import _Axis, precision_picture  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def view() -> PrecisionView:
    made = synthetic("qwen3-30b", 128)
    return precision_view(made.x, made.weight, made.router, data=made.words)


def words_of(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_every_arm_has_its_numbers(view: PrecisionView) -> None:
    svg = precision_picture(view).svg
    words = words_of(svg)
    for arm in view.arms.values():
        assert arm.title in words
        assert arm.arm in words, "its line beside the margins"
        digits, _, power = f"{arm.rel_error:.1e}".partition("e")
        assert f"{digits}e{int(power)}" in words
        share = f"{100 * arm.changed / arm.tokens:.2g} %"
        assert share in words if arm.changed else any(text.startswith("none, below") for text in words)
    assert any("made-up activations" in text and "emulated on a CPU" in text for text in words)
    assert f"{view.arms['bf16'].changed} of 128 tokens with other experts" in svg


def test_areas_hold_the_counts(view: PrecisionView) -> None:
    """The tallest bin of an arm's histogram stands as high as its share of the tallest of all."""
    root = ElementTree.fromstring(precision_picture(view).svg)
    paths = [node.get("d") or "" for node in root.iter(f"{SVG}path")]
    peak = max(max(arm.errors) for arm in view.arms.values())
    for path, arm in zip(paths, view.arms.values(), strict=False):
        heights = [float(part.split(" ")[1]) for part in path[1:-1].split("L")]
        tall = max(heights) - min(heights)
        assert tall == pytest.approx((38 - 8) * max(arm.errors) / peak, abs=0.15)


def test_no_label_stands_on_another(view: PrecisionView) -> None:
    root = ElementTree.fromstring(precision_picture(view).svg)
    places = [(node.get("x"), node.get("y")) for node in root.iter(f"{SVG}text")]
    assert len(set(places)) == len(places)


def test_few_tokens_ties_and_groups() -> None:
    router = RouterModel(
        name="<b>small</b>", k=64, n=16, top_k=2, layers=1, scoring="sigmoid", biased=True, groups=4, top_groups=2
    )
    x = torch.ones((1, 64)).bfloat16()
    weight = torch.ones((16, 64))
    weight[0] = 2
    svg = precision_picture(precision_view(x, weight, router, bias=torch.zeros(16), arms=["fp32", "bf16"])).svg
    assert "<b>" not in svg
    assert "groups have margins of their own" in " ".join(words_of(svg))


def test_a_view_without_any_margin(view: PrecisionView) -> None:
    words_of(precision_picture(replace(view, margins=view.margins * 0)).svg)


def test_axis() -> None:
    axis = _Axis(1e-3, 1e1, 0, 400)
    assert axis(1e-3) == 0
    assert axis(1) == pytest.approx(300)
    assert axis(0) == axis(-1) == 0
    assert axis(99) == 400
    assert axis.powers == [-3, -2, -1, 0, 1]
    assert _Axis(2e-3, 9e-3, 0, 1).powers == []
