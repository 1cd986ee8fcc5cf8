"""What every widget's picture may be asked for."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from workbench import CrossoverTuner, ProfileBrowser, ScheduleExplorer, TileTuner
from workbench.errors import InvalidArgument
from workbench.records import Store
from workbench.widgets.base import Screen
from workbench.widgets.colours import THEMES
from workbench.widgets.still import check_picture


@pytest.fixture(scope="module", params=["crossover", "profiles", "schedule", "tiles"])
def screen(request, tmp_path_factory) -> Screen:
    store = Store(tmp_path_factory.mktemp("none"))
    make = {
        "crossover": CrossoverTuner,
        "profiles": lambda: ProfileBrowser(store),
        "schedule": ScheduleExplorer,
        "tiles": lambda: TileTuner("router", m=64, store=store),
    }
    return make[request.param]()


@pytest.mark.parametrize("theme", ["pink", "Dark", "", None, ["light"]])
def test_a_theme_that_is_not_there_is_refused(screen, theme):
    with pytest.raises(InvalidArgument, match=r"theme is .*; give 'light' or 'dark'\."):
        screen.to_svg(theme=theme)


@pytest.mark.parametrize("width", ["wide", "900", 900.5, float("nan"), 0, -5, True])
def test_a_width_that_is_no_number_of_pixels_is_refused(screen, width):
    with pytest.raises(InvalidArgument, match=r"width is .*; give a whole number of pixels"):
        screen.to_svg(width=width)


def test_a_theme_and_a_width_are_those_of_the_picture(screen):
    assert ElementTree.fromstring(screen.to_svg(width=np.int64(1300))).get("viewBox", "").split()[2] == "1300"
    for theme in THEMES:
        assert THEMES[theme].background in screen.to_svg(theme=theme)


def test_every_theme_may_be_asked_for():
    for theme in THEMES:
        check_picture(theme, 1)
