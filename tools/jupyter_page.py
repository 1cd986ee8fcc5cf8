"""A notebook opened in a real JupyterLab in Chromium: for browser tests, screenshots and latency benchmarks."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

START_SECONDS = 120
KERNEL_SECONDS = 120
STOP_SECONDS = 60

# Chromium must ask nothing of the network by itself; without a GPU it draws in software.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# Nothing asks a question or looks for news when the notebook opens; no notebook is saved by itself, so that none
# opens with the outputs of an earlier run; every cell is drawn, in sight or not.
SETTINGS = {
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
    "@jupyterlab/docmanager-extension/plugin.jupyterlab-settings": {"autosave": False},
    "@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"},
}

DARK = {"@jupyterlab/apputils-extension/themes.jupyterlab-settings": {"theme": "JupyterLab Dark"}}


def write_notebook(path: Path, cells: Sequence[str]) -> Path:
    """A notebook of code cells."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)
    return path


@contextlib.contextmanager
def jupyter_lab(folder: Path, *, dark: bool = False) -> Iterator[tuple[str, str]]:
    """JupyterLab on a free loopback port with a token, serving ``folder``; yields its address and token."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    home = folder / ".jupyter-home"
    for name, content in (SETTINGS | (DARK if dark else {})).items():
        extension, plugin = name.rsplit("/", 1)
        place = home / "lab" / "user-settings" / extension / plugin
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(content), encoding="utf-8")
    root = Path(__file__).resolve().parents[1]
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(home),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "lab" / "user-settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "lab" / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH")))),
    }
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={port}",
        f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}", "--ServerApp.allow_root=True",
        "--LabApp.news_url=None", "--LabApp.expose_app_in_browser=True", "--ServerApp.port_retries=0",
    ]  # fmt: skip
    log = folder / "jupyter.log"
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=folder)
        try:
            _wait(f"http://127.0.0.1:{port}/api/status?token={token}", process, log)
            yield f"http://127.0.0.1:{port}", token
        finally:
            process.terminate()
            try:
                process.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=10):  # also timeouts
            return
        time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8')[-3000:]}")


@contextlib.contextmanager
def chromium(executable: Path) -> Iterator[Browser]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(executable), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def open_notebook(browser: Browser, address: str, token: str, name: str, *, run: bool = True, **context: Any) -> Page:
    """Open a notebook with the side bar closed, wait for its kernel, and start running all its cells."""
    page = browser.new_context(**{"viewport": {"width": 1500, "height": 1100}} | context).new_page()
    page.set_default_timeout(KERNEL_SECONDS * 1000)
    page.goto(f"{address}/lab/tree/{name}?token={token}&reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    kernel = "jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel"
    page.wait_for_function(f"() => {kernel}?.connectionStatus === 'connected' && {kernel}?.status === 'idle'")
    page.evaluate("() => { jupyterapp.shell.collapseLeft(); }")
    if run:
        run_all(page)
    return page


def run_all(page: Page) -> None:
    """Start running all cells of the notebook that is open."""
    page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells'); }")  # not awaited: it may ask
