"""``workbench lab``: JupyterLab on the home notebook, on this machine only and without asking the network."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from workbench import paths, settings
from workbench.errors import InvalidArgument, MissingData

HOME_NOTEBOOK = "00_workbench.ipynb"

# Holds labconfig/page_config.json, which turns the announcements extension off.
_JUPYTER_CONFIG = Path(__file__).resolve().parent / "jupyter"

# JupyterLab's other requests to the network: news, the check for updates, the list of extensions on the index.
_QUIET = (
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
)


@dataclass(frozen=True)
class Copied:
    """What `copy_notebooks` did, as paths relative to the target folder."""

    new: tuple[Path, ...]
    """Files that were not there and are now."""
    kept: tuple[Path, ...]
    """Files that were there already and were left as they are."""


def copy_notebooks(source: Path, target: Path) -> Copied:
    """Copy a folder of notebooks to where they can be edited; a file that exists there is never overwritten.

    Parameters
    ----------
    source
        Folder to copy, with everything below it.
    target
        Folder to copy into; made where it does not exist.
    """
    new, kept = [], []
    for path in sorted(p for p in source.rglob("*") if p.is_file()):
        inside = path.relative_to(source)
        if (target / inside).exists():
            kept.append(inside)
            continue
        (target / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / inside)
        new.append(inside)
    return Copied(tuple(new), tuple(kept))


def jupyter_command(notebook: Path, *, port: int, browser: bool) -> list[str]:
    """The command that serves one notebook's folder on loopback, with Jupyter's own token.

    Parameters
    ----------
    notebook
        The notebook to open; its folder becomes the root of the file browser.
    port
        TCP port to try first; Jupyter takes the next free one.
    browser
        Whether Jupyter opens a browser window.
    """
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={notebook.parent}"]
    command += [f"--LabApp.default_url=/lab/tree/{notebook.name}", "--ServerApp.ip=127.0.0.1"]
    command += [f"--ServerApp.port={port}", *_QUIET]
    if not browser:
        command.append("--no-browser")
    if os.geteuid() == 0:
        command.append("--allow-root")  # containers with a GPU run as root; the server is reachable from inside only
    return command


def jupyter_environment() -> dict[str, str]:
    """The environment of this process with the workbench's JupyterLab settings put before the user's own."""
    config = os.pathsep.join(filter(None, (str(_JUPYTER_CONFIG), settings.jupyter_config_path())))
    return {**os.environ, "JUPYTER_CONFIG_PATH": config}


def lab(
    folder: Annotated[
        Path,
        typer.Option("--dir", help="Where an installed workbench copies its notebooks to; nothing is overwritten."),
    ] = Path("workbench-notebooks"),
    port: Annotated[int, typer.Option(help="TCP port to try first.", min=1, max=65535)] = 8888,
    browser: Annotated[bool, typer.Option(help="Open a browser window.")] = True,
) -> None:
    """Open JupyterLab on the home notebook, reachable from this machine only.

    In a checkout the notebooks open where they are. Installed from a wheel, they are first copied to --dir.
    """
    notebooks = paths.notebooks_dir()
    if paths.checkout_root() is None:
        try:
            copied = copy_notebooks(notebooks, folder)
        except OSError as error:
            raise InvalidArgument(f"--dir {folder}: {error.strerror}. Name a folder that can be written.") from None
        typer.echo(f"{folder}: {len(copied.new)} files copied, {len(copied.kept)} already there and left as they are.")
        notebooks = folder.resolve()
    home = notebooks / HOME_NOTEBOOK
    if not home.is_file():
        raise MissingData(
            f"The home notebook is missing: looked for {home}. Restore it, or install the workbench again."
        )
    command = jupyter_command(home, port=port, browser=browser)
    sys.stdout.flush()
    os.execve(command[0], command, jupyter_environment())  # Jupyter gets the terminal, Ctrl-C and the exit code
