"""Providers stay apart for every kind of colour vision, and without colour by their dashes."""

from __future__ import annotations

import itertools

import pytest

from workbench.tables import ROUTER_PROVIDERS
from workbench.widgets.colours import THEMES, VISIONS, distance
from workbench.widgets.crossover.styles import STYLES, style_of, title_of


@pytest.mark.parametrize("theme", THEMES)
def test_hues(theme: str) -> None:
    for a, b in itertools.combinations(STYLES, 2):
        for vision in VISIONS:
            assert distance(STYLES[a].colour(theme), STYLES[b].colour(theme), vision) >= 8.9, (a, b, vision)
    for name, style in STYLES.items():
        assert distance(style.colour(theme), THEMES[theme].background) > 30, name


def test_dashes_and_names() -> None:
    assert set(STYLES) == set(ROUTER_PROVIDERS)
    assert len({style.dash for style in STYLES.values()}) == len(STYLES)
    assert style_of("something new", THEMES["light"]).title == title_of("something new") == "something new"
