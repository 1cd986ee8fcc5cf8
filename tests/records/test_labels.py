"""Every shown figure says where it comes from."""

from __future__ import annotations

import datetime

import pytest

from workbench.errors import InvalidArgument
from workbench.records import origin_label


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ({"origin": "measured"}, "measured now"),
        ({"origin": "measured", "gpu": "NVIDIA H200"}, "measured now (NVIDIA H200)"),
        (
            {"origin": "recorded", "gpu": "NVIDIA H200", "date": datetime.date(2026, 11, 29)},
            "recorded (NVIDIA H200, 2026-11-29)",
        ),
        ({"origin": "reference", "by": "its authors", "gpu": "H20"}, "reference (its authors, H20)"),
        ({"origin": "modelled"}, "modelled"),
        ({"origin": "modelled", "by": "cost model", "gpu": "H200"}, "modelled (cost model, H200)"),
    ],
)
def test_label(given, label):
    assert origin_label(**given) == label


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"origin": "guessed"}, "measured, recorded, reference, modelled"),
        ({"origin": "recorded", "gpu": "H200"}, "date"),
        ({"origin": "recorded"}, "gpu and date"),
        ({"origin": "reference", "gpu": "H200"}, "by"),
    ],
)
def test_a_label_that_would_hide_its_source_is_refused(given, says):
    with pytest.raises(InvalidArgument, match=says):
        origin_label(**given)
