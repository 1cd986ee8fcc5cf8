"""Every environment variable that the workbench reads, one function each, read when called.

========================== ===================================================== ===========================
variable                   what it sets                                          default
========================== ===================================================== ===========================
WORKBENCH_CACHE_DIR        folder of compiled kernels and other rebuildable data the user's cache folder
WORKBENCH_RECORDS_DIR      folder of one's own measurements                      the user's data folder
WORKBENCH_TABLES_DIR       folder of one's own dispatch tables                   the user's data folder
WORKBENCH_REFERENCE_DATA   reference traces and recorded task maps, for tests    ``../shared`` by the checkout
WORKBENCH_NCU              Nsight Compute's command ``ncu``                      ``PATH``, then CUDA's usual folders
WORKBENCH_CHROMIUM         Chromium or Chrome executable, for browser tests      the first one on ``PATH``
WORKBENCH_STUDIES_DIR      folder of one's own tuning studies                    the user's data folder
JUPYTER_CONFIG_PATH        Jupyter's own: more folders with its settings         none
CUDA_VISIBLE_DEVICES       CUDA's own: the GPUs that a process may use           all
========================== ===================================================== ===========================
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from workbench.errors import InvalidArgument

APPLICATION = "hpc-ops-workbench"

_NCU_PLACES = ("usr/local/cuda/bin/ncu", "opt/nvidia/nsight-compute/*/ncu", "usr/local/cuda-*/bin/ncu")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def _path(variable: str) -> Path | None:
    """The path an environment variable holds, with ``~`` expanded, or None where it is unset or empty."""
    value = os.environ.get(variable, "")
    try:
        return Path(value).expanduser() if value else None
    except RuntimeError as error:
        raise InvalidArgument(f"{variable} is {value!r}: {error} Give an absolute path.") from None


def cache_dir() -> Path:
    """``WORKBENCH_CACHE_DIR``: where data that can be made again is kept. It may not exist yet."""
    from platformdirs import user_cache_path

    return _path("WORKBENCH_CACHE_DIR") or user_cache_path(APPLICATION)


def records_dir() -> Path:
    """``WORKBENCH_RECORDS_DIR``: where the user's own records are kept. It may not exist yet."""
    from platformdirs import user_data_path

    return _path("WORKBENCH_RECORDS_DIR") or user_data_path(APPLICATION) / "records"


def tables_dir() -> Path:
    """``WORKBENCH_TABLES_DIR``: where the user's own dispatch tables are kept. It may not exist yet."""
    from platformdirs import user_data_path

    return _path("WORKBENCH_TABLES_DIR") or user_data_path(APPLICATION) / "tables"


def studies_dir() -> Path:
    """``WORKBENCH_STUDIES_DIR``: where the journals of the user's own studies are kept. It may not exist yet."""
    from platformdirs import user_data_path

    return _path("WORKBENCH_STUDIES_DIR") or user_data_path(APPLICATION) / "studies"


def reference_data() -> Path:
    """``WORKBENCH_REFERENCE_DATA``: traces and recorded task maps that tests compare with. It may not exist."""
    return _path("WORKBENCH_REFERENCE_DATA") or Path(__file__).resolve().parents[2] / "shared"


def ncu() -> Path | None:
    """``WORKBENCH_NCU``: the command of Nsight Compute, or None where there is none."""
    given = _path("WORKBENCH_NCU")
    if given is not None:
        return given
    if found := shutil.which("ncu"):
        return Path(found)
    places = (path for pattern in _NCU_PLACES for path in sorted(Path("/").glob(pattern), reverse=True))
    return next((path for path in places if os.access(path, os.X_OK)), None)


def chromium() -> Path | None:
    """``WORKBENCH_CHROMIUM``: the browser that tests and screenshots drive, or None where there is none."""
    given = _path("WORKBENCH_CHROMIUM")
    if given is not None:
        return given
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    return Path(found) if found else None


def inherited_environment() -> dict[str, str]:
    """All variables of this process, for a process that it starts; nothing here depends on them."""
    return dict(os.environ)


def jupyter_config_path() -> str:
    """``JUPYTER_CONFIG_PATH``: folders that Jupyter reads settings from besides its own; "" where there are none."""
    return os.environ.get("JUPYTER_CONFIG_PATH", "")


def cuda_visible_devices() -> tuple[str, ...] | None:
    """``CUDA_VISIBLE_DEVICES``: ordinals or identifiers in the order that CUDA counts them; None where it is unset."""
    said = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if said is None else tuple(word.strip() for word in said.split(",") if word.strip())
