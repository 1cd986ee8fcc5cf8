"""Is a process there?"""

from __future__ import annotations

from pathlib import Path


def alive(pid: str) -> bool:
    """Whether a process runs; one that ended and was not asked after does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
