"""What was installed before a test put stand-ins in its place."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

try:
    NSIGHT = version("nsight-python")
except PackageNotFoundError:
    NSIGHT = ""
"""Version of nsight-python, or "" where there is none."""

PYTHONPATH = os.environ.get("PYTHONPATH", "")
