"""The machine code of a compiled kernel, in words: did the compiler use the instructions it was meant to.

Needs ``nvdisasm``, from the CUDA toolkit or from Triton, whose wheel brings one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from workbench.errors import MissingDependency, WorkbenchError
from workbench.gpu.compile import CompiledKernel

_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", re.MULTILINE)


def disassemble(kernel: CompiledKernel) -> str:
    """Machine code of a kernel as text (SASS).

    Raises
    ------
    MissingDependency
        There is no ``nvdisasm``.
    WorkbenchError
        It cannot read this kernel: it may be older than the GPU.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.cubin)
        file.flush()
        done = subprocess.run([_nvdisasm(), "-c", file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip() or "it does not say why"
        raise WorkbenchError(
            f"{_nvdisasm()} cannot read {kernel}: {said}. "
            f"Install one that knows {kernel.arch}: pip install --upgrade triton, or a newer CUDA toolkit."
        )
    text = done.stdout
    # One section a kernel; a cubin may hold several.
    start = text.index(f".section\t.text.{kernel.symbol},")
    end = text.find("\n\t.section\t", start)
    return text[start:] if end < 0 else text[start:end]


def instruction_counts(kernel: CompiledKernel) -> Counter[str]:
    """How often each instruction stands in a kernel, by name with its modifiers, such as ``"LDG.E.128.CONSTANT"``.

    Raises
    ------
    MissingDependency
        There is no ``nvdisasm``.
    """
    return Counter(_INSTRUCTION.findall(disassemble(kernel)))


@cache
def _nvdisasm() -> str:
    spec = find_spec("triton")  # finds the folder without importing the package
    roots = (spec and spec.submodule_search_locations) or ()
    bundled = (Path(root) / "backends" / "nvidia" / "bin" / "nvdisasm" for root in roots)
    found = next((str(path) for path in bundled if path.is_file()), None) or shutil.which("nvdisasm")
    if found is None:
        raise MissingDependency("nvdisasm", needed_for="showing machine code", install="pip install triton")
    return found
