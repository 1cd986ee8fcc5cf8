"""Fixtures and markers that every test may use.

A test that needs a GPU or a browser says so with ``@pytest.mark.gpu`` or ``@pytest.mark.browser`` and is skipped,
with the reason, where there is none. A test that compares with the reference data takes the ``reference_data``
fixture.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from workbench import settings
from workbench.gpu.driver import probe

# Where no GPU is, Triton's kernels run in its interpreter; Triton reads this when it is first imported.
if probe().problem:
    os.environ["TRITON_INTERPRET"] = "1"

# A busy machine is slow, not wrong. What else Hypothesis sets by itself on CI machines stays.
hypothesis.settings.register_profile(
    "workbench", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("workbench")

_NO_BROWSER = "no Chromium here: install Debian's `chromium`, or set WORKBENCH_CHROMIUM to a Chrome executable"


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """Folder with ``traces/``, ``golden/`` and ``reference/``; the test is skipped where it is absent."""
    folder = settings.reference_data()
    if not (folder / "traces").is_dir():
        pytest.skip(f"no reference data at {folder}; set WORKBENCH_REFERENCE_DATA to the folder that holds traces/")
    return folder


@pytest.fixture(scope="session")
def chromium() -> Path:
    """The Chromium executable that browser tests launch."""
    found = settings.chromium()
    if found is None:
        pytest.skip(_NO_BROWSER)
    return found


@pytest.fixture
def heeds_interruptions() -> Iterator[None]:
    """What a script runs in the background ignores Ctrl-C, and so does what it starts; here it must not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot run here, each with the reason and the remedy."""
    for item in items:
        if item.get_closest_marker("gpu") and (reason := probe().problem):
            item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("browser") and settings.chromium() is None:
            item.add_marker(pytest.mark.skip(reason=_NO_BROWSER))
