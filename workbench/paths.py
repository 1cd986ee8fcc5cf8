"""Where the files are that belong to the workbench but are not Python: kernels, records, notebooks.

In a checkout (an editable install is one too) they lie at the root of the repository, so an edited kernel is the
one that compiles. In a wheel the build puts copies into ``workbench/_data``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from workbench.errors import MissingData

_PACKAGE = Path(__file__).resolve().parent


@cache
def checkout_root() -> Path | None:
    """Root of the repository the package is imported from, or None when it was installed from a wheel."""
    root = _PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "kernels").is_dir() else None


def data_dir(name: str) -> Path:
    """One of the workbench's data folders.

    Parameters
    ----------
    name
        "kernels", "profiles" or "notebooks".

    Returns
    -------
    Path
        An existing folder, to be treated as read-only.

    Raises
    ------
    MissingData
        If neither the checkout nor the installed package has that folder.
    """
    folder = (checkout_root() or _PACKAGE / "_data") / name
    if not folder.is_dir():
        raise MissingData(
            f"The workbench's own folder {name!r} is missing: looked for {folder}. "
            "Restore it in the checkout, or install the wheel again."
        )
    return folder


def kernels_dir() -> Path:
    """Folder of the CUDA C++ sources, one sub-folder an operator and ``common`` for shared headers."""
    return data_dir("kernels")


def notebooks_dir() -> Path:
    """Folder of the notebooks."""
    return data_dir("notebooks")


def profiles_dir() -> Path:
    """Folder of the records that the workbench ships, one sub-folder a GPU."""
    return data_dir("profiles")
