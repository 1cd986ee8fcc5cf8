"""Predictions, pictures and curves of the lessons."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import ipywidgets as widgets
import pytest

from workbench.errors import InvalidArgument
from workbench.schedule import plan_decode
from workbench.widgets.lesson import Prediction, curves, picture


def test_the_answer_waits_for_a_guess() -> None:
    asked = []
    prediction = Prediction("How long?", lambda: asked.append(1) or 84.0, lambda: "because", unit="us")
    guess, unit, button = prediction.children[1].children
    assert (asked, prediction.revealed, prediction.verdict, button.disabled) == ([], False, "", True)
    assert unit.value == "us"
    guess.value = "a lot"
    assert button.disabled
    guess.value = "42"
    assert not button.disabled
    button.click()
    assert asked == [1]
    assert prediction.answer == 84.0
    assert "You said 42 us. It is <b>84 us</b>; your guess is 2 times too low." in prediction.verdict
    assert "because" in prediction.children[-1].value


@pytest.mark.parametrize(
    ("guess", "answer", "words"),
    [
        (80, 84.0, "You said 80. It is <b>84</b>: close."),
        ("1,024", 1024, "It is <b>1,024</b>: exactly."),
        (84, 0.5, "It is <b>0.50</b>; your guess is 168 times too high."),
        ("12 %", 3.25, "your guess is 3.69 times too high."),
        (0, 5, "You said 0. It is <b>5</b>."),
        (3, 0, "You said 3. It is <b>0</b>."),
    ],
)
def test_what_is_said_about_a_number(guess: object, answer: float, words: str) -> None:
    prediction = Prediction("?", lambda: answer)
    prediction.submit(guess)
    assert words in prediction.verdict


def test_choices() -> None:
    prediction = Prediction("Which?", lambda: "b", choices=["a", "b"])
    assert prediction.children[1].children[-1].disabled
    prediction.submit("a")
    assert "You chose a; it is <b>b</b>." in prediction.verdict
    prediction.submit("b")
    assert "Right: <b>b</b>." in prediction.verdict
    with pytest.raises(InvalidArgument, match=r"the guess is 'c'\. Choose one of a, b"):
        prediction.submit("c")
    with pytest.raises(InvalidArgument, match=r"the guess is 'x'\. Give a number"):
        Prediction("?", lambda: 1).submit("x")
    with pytest.raises(InvalidArgument, match="Give two or more"):
        Prediction("?", lambda: "a", choices=["a"])


def test_what_follows_the_answer_is_shown_in_order() -> None:
    plan = plan_decode([64], num_kv_heads=1, num_ctas=2)
    slider = widgets.IntSlider()
    prediction = Prediction("?", lambda: 1, lambda: ["first", picture(plan), slider])
    assert len(prediction.children) == 3
    prediction.submit(1)
    first, drawn, last = prediction.children[3:]
    assert "first" in first.value
    assert drawn.value.startswith("<svg")
    assert last is slider


@pytest.mark.parametrize("policy", ["hpc-ops", "balanced", "lpt", "fixed_splits(3)", "fixed_chunk(256)"])
@pytest.mark.parametrize("lengths", [[256, 1920, 64, 192] * 2, [0, 0], [1], [1024] * 9])
def test_a_picture_draws_every_piece_to_scale(policy: str, lengths: list[int]) -> None:
    plan = plan_decode(lengths, num_kv_heads=2, num_ctas=8, policy=policy, min_process_len=0)
    root = ElementTree.fromstring(picture(plan, title="a < b & c").svg)
    space = "{http://www.w3.org/2000/svg}"
    groups = root.findall(f"{space}g")
    assert len(groups) == plan.num_descriptors
    spans, metrics = plan.spans(), plan.metrics()
    scale = None
    for i, group in enumerate(groups):
        row = plan.descriptors[i]
        title = group.find(f"{space}title").text
        last = row["first_tile"] + row["num_tiles"] - 1
        assert title.startswith(
            f"request {row['request']}, KV head {row['kv_head']}, tiles {row['first_tile']} to {last},"
        )
        _, body = group.findall(f"{space}rect")
        ns = int(spans.end_ns[i] - spans.start_ns[i] - spans.foot_ns[i])
        scale = scale or float(body.get("height")) / ns
        assert float(body.get("height")) == pytest.approx(scale * ns, abs=0.6)
    assert f"{metrics.makespan_us:.1f} us" in root.findall(f"{space}text[@class='head']")[0].text
    ys = [float(rect.get("y")) for rect in root.iter(f"{space}rect")]
    assert all(0 <= y <= 240 for y in ys)


def test_pictures_can_share_a_time_axis() -> None:
    plan = plan_decode([1024] * 8, num_kv_heads=1, num_ctas=8)
    heights = [max(float(h) for h in re.findall(r'height="([0-9.]+)"', picture(plan, until_us=t).svg)) for t in (0, 20)]
    assert heights[0] > 2 * heights[1]


def test_a_picture_is_for_small_plans() -> None:
    with pytest.raises(
        InvalidArgument, match=r"the plan has 528 CTAs; a picture shows up to 64\. Use ScheduleExplorer"
    ):
        picture(plan_decode([64], num_kv_heads=1, num_ctas=528))


def test_curves() -> None:
    figure = curves(
        [1, 2, 4], {"a": [3, 2, 1]}, title="t", x_title="n", y_title="us", levels={"bound": 0.5}, log_x=True, log_y=True
    )
    assert [trace.name for trace in figure.data] == ["a", "bound"]
    assert list(figure.data[1].y) == [0.5, 0.5]
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert figure.layout.yaxis.title.text == "us"
    for lines in ({"a": [1]}, {str(i): [1, 2, 3] for i in range(6)}):
        with pytest.raises(InvalidArgument, match="lines of 3 values can be drawn"):
            curves([1, 2, 4], lines, title="t", x_title="n", y_title="us")
