"""Build hook: a wheel carries the kernels, records and notebooks; an editable install reads them from the checkout.

`force-include` in pyproject.toml would copy them for editable installs too, and nothing would ever read or refresh
that copy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("kernels", "notebooks", "profiles")


class PackageData(BuildHookInterface[Any]):
    """Adds the data folders to a standard wheel as ``workbench/_data/<folder>``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """
        Parameters
        ----------
        version
            "standard" or "editable".
        build_data
            Hatchling's mutable description of the build; ``force_include`` maps source to path in the wheel.
        """
        if version != "standard":
            return
        root = Path(self.root)
        for path in (p for folder in FOLDERS for p in sorted((root / folder).rglob("*"))):
            inside = path.relative_to(root)
            if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in inside.parts):
                build_data["force_include"][str(path)] = f"workbench/_data/{inside.as_posix()}"
