"""Print how much each set of ``requirements/`` downloads on this platform, by the sizes that the package index states.

Run it with ``make sizes``; README quotes its figures. Nothing is downloaded but metadata: uv resolves each set and
writes the size of every file into its lock, and the wheel that pip would take here is counted.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

REQUIREMENTS = Path(__file__).resolve().parents[1] / "requirements"


def lines_of(name: str) -> list[str]:
    """Requirement lines of a set, with those of the sets it includes."""
    lines: list[str] = []
    for line in (REQUIREMENTS / f"{name}.txt").read_text().splitlines():
        if line.startswith("-r "):
            lines += lines_of(Path(line[3:]).stem)
        elif line and not line.startswith("#"):
            lines.append(line)
    return lines


def resolve(lines: list[str]) -> list[dict[str, Any]]:
    """What uv's lock says of each package that the lines bring to this platform and Python."""
    here = f"sys_platform == '{sys.platform}' and platform_machine == '{platform.machine()}'"
    project = ["[project]", 'name = "sizes"', 'version = "0"', f'requires-python = "=={platform.python_version()}"']
    project += [f"dependencies = {json.dumps(lines)}", "[tool.uv]", f"environments = {json.dumps([here])}"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text("\n".join(project))  # a JSON string or list is a TOML one
        command = [sys.executable, "-m", "uv", "lock", "--quiet", "--directory", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"uv could not resolve the set:\n{done.stderr}")
        packages = tomllib.loads(Path(folder, "uv.lock").read_text())["package"]
    return [package for package in packages if package["name"] != "sizes"]


def download_bytes(package: dict[str, Any]) -> int:
    """Size of the best wheel for this interpreter, or of the source archive where there is none."""
    order = {tag: rank for rank, tag in enumerate(sys_tags())}
    ranked = []
    for wheel in package.get("wheels", []):
        tags = parse_wheel_filename(wheel["url"].rpartition("/")[2])[3]
        if ranks := [order[tag] for tag in tags if tag in order]:
            ranked.append((min(ranks), wheel["size"]))
    return int(min(ranked)[1] if ranked else package["sdist"]["size"])


def main() -> None:
    print(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    for name in ("light", "full", "test"):
        sizes = {package["name"]: download_bytes(package) for package in resolve(lines_of(name))}
        largest = sorted(sizes, key=lambda package: -sizes[package])[:4]
        shares = ", ".join(f"{package} {sizes[package] / 1e6:.0f}" for package in largest)
        print(f"{name}: {sum(sizes.values()) / 1e6:,.0f} MB in {len(sizes)} files (largest, in MB: {shares})")


if __name__ == "__main__":
    main()
