import itertools

import numpy as np
import pytest

from workbench.widgets.colours import (
    DARK,
    FIRST_STEP,
    HEAVY,
    LIGHT,
    STAGE_TONES,
    STEPS,
    VISIONS,
    distance,
    mix,
    request_classes,
    stage_shades,
)  # fmt: skip

LEAST = 10.0


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS)
def test_hues_stay_apart_for_every_kind_of_colour_vision(theme, vision):
    hues, greys = theme.requests[:FIRST_STEP], theme.requests[FIRST_STEP:]
    assert len(greys) == STEPS
    pairs = [*itertools.combinations(hues, 2), *itertools.product(hues, greys)]
    too_close = [(a, b, distance(a, b, vision)) for a, b in pairs if distance(a, b, vision) < LEAST]
    assert not too_close


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_greys_run_monotonically_away_from_the_background(theme):
    steps = [distance(grey, theme.background) for grey in theme.requests[FIRST_STEP:]]
    assert steps == sorted(steps)
    assert steps[0] > LEAST / 2


def _luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_has_contrast(theme):
    def contrast(a, b):
        high, low = sorted((_luminance(a), _luminance(b)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    for text in (theme.ink, theme.muted, theme.accent):
        assert contrast(text, theme.background) >= 4.5
    for fill, text in zip(theme.requests, theme.on_request, strict=True):
        assert contrast(fill, text) >= 4.0


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS)
def test_stages_of_every_request_stay_apart_where_they_touch(theme, vision):
    order = ("waiting", "streaming", "combining", "merge")
    for colour in theme.requests:
        tones = [STAGE_TONES[stage](theme, colour) for stage in order]
        for one, two in itertools.pairwise(tones):
            assert distance(one, two, vision) >= LEAST / 2, (colour, one, two)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS)
def test_later_and_earlier_stay_apart(theme, vision):
    assert distance(theme.later, theme.earlier, vision) >= LEAST
    for colour in (theme.later, theme.earlier):
        assert distance(colour, theme.background, vision) >= 3 * LEAST


def test_shades_are_the_classes_in_the_tones_of_the_stages():
    classes = np.arange(FIRST_STEP + STEPS, dtype=np.uint8)
    for number, (stage, tone) in enumerate(STAGE_TONES.items()):
        shades = stage_shades(classes, np.full(classes.size, number, np.uint8))
        assert [LIGHT.shades[shade] for shade in shades] == [tone(LIGHT, colour) for colour in LIGHT.requests], stage
    assert LIGHT.shades[: classes.size] == LIGHT.requests, "a plan is drawn in the requests' own colours"


def test_distance_knows_black_from_white_and_nothing_from_itself():
    assert distance("#000000", "#ffffff") == pytest.approx(100, abs=0.1)
    assert distance("#d04a0a", "#d04a0a", "protan") == 0


def test_mix_is_the_colour_at_one_and_the_ground_at_zero():
    assert mix("#102030", "#ffffff", 1) == "#102030"
    assert mix("#102030", "#ffffff", 0) == "#ffffff"


def test_selected_and_heaviest_get_hues():
    lengths = np.array([5, 100, 7, 90, 80, 70, 60, 1], np.int64)
    classes, heavy = request_classes(lengths, 2)
    assert heavy == (1, 3, 4, 5)
    assert classes[2] == 0
    assert classes[list(heavy)].tolist() == [1, 2, 3, 4]
    assert (np.delete(classes, [2, *heavy]) >= FIRST_STEP).all()
    assert classes[6] > classes[0] > classes[7] or classes[6] >= classes[0] >= classes[7]


@pytest.mark.parametrize("lengths", [[], [0, 0], [4096] * 9, [17]])
def test_batches_without_differences_have_no_heavy_requests(lengths):
    classes, heavy = request_classes(np.array(lengths, np.int64), None)
    assert heavy == ()
    assert (classes >= FIRST_STEP).all()
    assert HEAVY == 4
