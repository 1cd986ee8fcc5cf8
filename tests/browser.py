"""Notebooks in a real JupyterLab in Chromium, for tests that look at a widget as its reader does.

A page shows what an action leads to some time later. So after an action a test asserts with `expect`, which looks
again until it is so, or reads with `until`; a bare ``assert locator.count() == 3`` asks only whether it was so already.
``page.wait_for_function`` is not used: it evaluates a string in the page, which a Content-Security-Policy may forbid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.installs import ROOT
from tests.waiting import SECONDS, until
from tools import jupyter_page
from tools.jupyter_page import chromium as running_chromium
from workbench import settings

__all__ = ["ROOT", "Lab", "after_frame", "expect", "jupyter_lab", "resize", "running_chromium", "until"]

expect.set_options(timeout=SECONDS * 1000)


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab and the browser that looks at it.

    Attributes
    ----------
    folder : Path
        What it serves.
    browser : Browser
    address, token : str
        Of the server.
    """

    folder: Path
    browser: Browser
    address: str
    token: str

    @contextmanager
    def page(self, name: str, drawn: str, *, height: int, width: int = 1500) -> Iterator[Page]:
        """A notebook, all of it run, in a window of its own.

        Parameters
        ----------
        name
            The notebook, without ``.ipynb``.
        drawn
            Selector of what has to be on the page before the test begins.
        height, width
            Of the window, in pixels.

        Raises
        ------
        AssertionError
            A script of the page failed.
        """
        viewport = {"width": width, "height": height}
        page = jupyter_page.open_notebook(self.browser, self.address, self.token, f"{name}.ipynb", viewport=viewport)
        page.set_default_timeout(SECONDS * 1000)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.wait_for_selector(drawn)
        try:
            yield page
        finally:
            page.context.close()
        assert problems == []


@contextmanager
def jupyter_lab(folder: Path, **notebooks: Sequence[str]) -> Iterator[Lab]:
    """JupyterLab and a browser, with notebooks made of these cells; the test is skipped where there is no browser."""
    executable = settings.chromium()
    if executable is None:
        pytest.skip("no Chromium here")
    for name, cells in notebooks.items():
        jupyter_page.write_notebook(folder / f"{name}.ipynb", cells)
    with jupyter_page.jupyter_lab(folder) as (address, token), running_chromium(executable) as browser:
        yield Lab(folder, browser, address, token)


def after_frame(view: Locator, action: Callable[[], object]) -> None:
    """Do what Python answers with a new frame, and wait until the view has drawn one.

    It may be one that was on its way before: what the new frame has to show is for `expect` to wait for.
    """
    before = view.get_attribute("data-frame")
    assert before is not None, "the view has drawn nothing yet"
    action()
    expect(view).not_to_have_attribute("data-frame", before)


def resize(view: Locator, *, width: int, height: int) -> None:
    """Give the window another size, and wait until the view has its place in it and is drawn for it.

    JupyterLab lays itself out in several steps; the view is drawn in the same animation frame in which it gets its
    width. So it is done when the width stays for some of them.
    """
    view.page.set_viewport_size({"width": width, "height": height})
    until(lambda: view.page.evaluate("window.innerWidth"), width.__eq__)
    view.evaluate("""(root) => new Promise((resolve) => {
        let [before, same] = [0, 0];
        const look = () => {
            const { right, width } = root.getBoundingClientRect();
            same = width === before && right <= window.innerWidth ? same + 1 : 0;
            before = width;
            if (same === 10) resolve();
            else requestAnimationFrame(look);
        };
        look();
    })""")
