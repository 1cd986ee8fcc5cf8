"""Write ``requirements/*.txt``: the exact versions that the Makefile, CI and environment.yml install.

Run it with ``make lock`` after a change of the dependencies in pyproject.toml. uv resolves once for Linux and macOS and
for every supported Python; the files are plain requirements that any pip reads: no hashes, no addresses, no local
version labels, and markers on what one platform lacks. Each file includes the smaller one before it.

The NVIDIA libraries that only torch needs are left out: torch's own wheel pins them, and its CPU build needs none.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from itertools import product
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
# Each set holds the sets before it. A name is also that of the extra in pyproject.toml; the light set is the base.
SETS = ("light", "full", "test")
_TORCH_ONLY = re.compile(r"nvidia-|cuda-toolkit")
_PLATFORMS = (
    {"sys_platform": "linux", "platform_system": "Linux"},
    {"sys_platform": "darwin", "platform_system": "Darwin"},
)
_CPYTHON = {"os_name": "posix", "implementation_name": "cpython", "platform_python_implementation": "CPython"}
ENVIRONMENTS = [
    {**_CPYTHON, **platform, "python_version": python, "python_full_version": f"{python}.0"}
    for platform, python in product(_PLATFORMS, ("3.11", "3.12", "3.13"))
]


def resolve(extras: tuple[str, ...], constraints: Path | None = None) -> list[str]:
    """Requirement lines of the package with some extras, and of its build tools, for every platform at once."""
    build_tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "-", "--universal", "--quiet"]
    command += ["--python-version", "3.11", "--fork-strategy", "fewest", "--no-annotate", "--no-header"]
    command += [f"--extra={extra}" for extra in extras]
    command += ["--constraints", str(constraints)] if constraints else []
    done = subprocess.run(command, cwd=ROOT, input="\n".join(build_tools), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"uv could not resolve the dependencies:\n{done.stderr}")
    return [kept for line in done.stdout.splitlines() if (kept := supported(line))]


def supported(line: str) -> str | None:
    """The line without a marker that holds wherever the workbench runs; None where it never holds (Windows, PyPy)."""
    requirement = Requirement(line)
    holds = {requirement.marker.evaluate(environment) for environment in ENVIRONMENTS} if requirement.marker else {True}
    if holds == {False}:
        return None
    return f"{requirement.name}{requirement.specifier}{f'; {requirement.marker}' if len(holds) == 2 else ''}"


def name_of(line: str) -> str:
    return line.partition("==")[0]


def main() -> None:
    everything = resolve(SETS[1:])
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder, "everything.txt")
        constraints.write_text("\n".join(everything))
        resolved = {name: resolve(SETS[1 : SETS.index(name) + 1], constraints) for name in SETS}
    ours = set(map(name_of, resolved["light"]))
    written: set[str] = set()
    for before, name in zip((None, *SETS), SETS, strict=False):
        lines = [x for x in resolved[name] if name_of(x) in ours or not _TORCH_ONLY.match(x)]
        head = [f"# The {name} set, exact versions; written by `make lock`, not by hand."]
        head += [f"-r {before}.txt"] if before else []
        path = ROOT / "requirements" / f"{name}.txt"
        path.write_text("\n".join([*head, *(x for x in lines if x not in written)]) + "\n")
        print(f"{path.relative_to(ROOT)}: {len(lines) - len(written)} packages of its own, {len(lines)} in all")
        written.update(lines)


if __name__ == "__main__":
    main()
