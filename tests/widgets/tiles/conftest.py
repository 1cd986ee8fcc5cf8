"""Folders of one's own that are empty; the tuner in a real JupyterLab in Chromium, and the same one in Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Lab, jupyter_lab
from tests.widgets.tiles.samples import Gate, store_of
from workbench import TileTuner
from workbench.tune.spaces import router_space

ROOT = Path(__file__).resolve().parents[3]

SETUP = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
import os, tempfile
from pathlib import Path
for name in ("STUDIES", "TABLES", "RECORDS"):
    os.environ[f"WORKBENCH_{{name}}_DIR"] = tempfile.mkdtemp()
from tests.widgets.tiles.samples import Gate, store_of
from workbench.tune.spaces import router_space
from workbench import TileTuner
space = router_space(64, 192, 4096)
store = store_of(Path(tempfile.mkdtemp()), space, space.promising(30))
tuner = TileTuner("router", store=store)
tuner
"""
STUDY = """
live = TileTuner("router", m=128, most=6, bench=Gate(Path("gate").resolve()).bench, store=store)
live
"""


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STUDIES", "TABLES", "RECORDS"):
        monkeypatch.setenv(f"WORKBENCH_{name}_DIR", str(tmp_path / name.lower()))


@pytest.fixture
def local(tmp_path: Path) -> TileTuner:
    """The tuner of the notebook's first cell; what the comparison on screen needs is compiled."""
    space = router_space(64, 192, 4096)
    tuner = TileTuner("router", store=store_of(tmp_path / "store", space, space.promising(30)))
    for config in (tuner.best, tuner.default):
        tuner.values = config
        assert not tuner.resources.problem
    return tuner


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with jupyter_lab(tmp_path_factory.mktemp("lab"), tiles=[SETUP, "tuner", STUDY]) as running:
        yield running


@pytest.fixture
def page(lab: Lab) -> Iterator[Any]:
    """The notebook, run anew: two views of one tuner, and one that has a study to run behind `gate`."""
    with lab.page("tiles", ".wb-tiles[data-frame] >> nth=2", height=4200) as page:
        yield page


@pytest.fixture
def view(page: Any) -> Any:
    return page.locator(".wb-tiles").first


@pytest.fixture
def gate(lab: Lab) -> Gate:
    """Of the study's bench."""
    return Gate(lab.folder / "gate")
