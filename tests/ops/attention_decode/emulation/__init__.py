"""The decode attention kernel on a CPU: its own source, compiled for the host over stand-ins for CUDA and PTX.

`common/ptx.cuh` says what is kept of a GPU and what is not. Slow, so for batches of some hundred slabs a CTA.
A kernel that reads or writes outside the tensors does so in this process.
"""

from __future__ import annotations

import ctypes
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from workbench.gpu.source import Source

HERE = Path(__file__).resolve().parent
_OLDEST = 12  # the first g++ with _Float16
_SHARED = "extern __shared__ __align__(1024) uint8_t shared[];"
_LIMIT_S = 300


@cache
def why_not() -> str | None:
    """Why nothing can be emulated here; None where it can."""
    needs = f"emulating the kernel needs g++ {_OLDEST} or later on x86-64 Linux; here"
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return f"{needs} is {platform.system()} on {platform.machine()}"
    if shutil.which("g++") is None:
        return f"{needs} is no g++"
    said = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True, timeout=_LIMIT_S, check=True).stdout
    return None if int(said.split(".")[0]) >= _OLDEST else f"{needs} is g++ {said.strip()}"


class Trouble(Exception):
    """The threads did what they must not, or waited for one another for ever."""


class Kernel:
    """A kernel to emulate; `launch` is that of `workbench.gpu.launch.Kernel`.

    Attributes
    ----------
    source : Source
    defines : mapping
        Macros that it is compiled with.
    entry : str
    resident : int
        CTAs that run at once.
    seed : int
        Decides in which order threads run and copies land.
    """

    def __init__(self, source: Source, defines: Mapping[str, int], entry: str, *, resident: int, seed: int) -> None:
        self._library = _library(source, (*sorted(defines.items()), ("ENTRY", entry)))
        self._resident, self._seed = resident, seed

    def launch(
        self, grid: int, threads: int, arguments: Sequence[ctypes.Structure], *, shared_bytes: int, pdl: bool
    ) -> None:
        """Run to the end, or raise `Trouble`. Nothing runs ahead, so ``pdl`` changes nothing."""
        (parameters,) = arguments
        assert ctypes.sizeof(parameters) == self._library.parameter_bytes()
        trouble = self._library.emulate(
            ctypes.byref(parameters), grid, self._resident, threads, shared_bytes, self._seed
        )
        if trouble is not None:
            raise Trouble(trouble.decode())


@cache
def _library(source: Source, defines: tuple[tuple[str, int | str], ...]) -> ctypes.CDLL:
    # Shared memory is an array of each CTA, which no declaration in C++ says.
    text, found = re.subn(re.escape(_SHARED), "uint8_t* shared = emulation::cta->memory;", source.text)
    assert found == 1, f"the kernel no longer says {_SHARED!r}"
    with tempfile.TemporaryDirectory() as folder:
        kernel, library = Path(folder, "kernel.cu"), Path(folder, "kernel.so")
        kernel.write_text(text)
        includes = [f"-I{path}" for path in (HERE, *source.folders)]
        macros = [f"-D{name}={value}" for name, value in (*defines, ("KERNEL", f'"{kernel}"'))]
        # The kernel reads bytes as words of several types.
        options = ["-std=c++20", "-O1", "-fno-strict-aliasing", "-shared", "-fPIC", "-o", str(library)]
        command = ["g++", *options, *macros, *includes, str(HERE / "run.cc")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        loaded = ctypes.CDLL(str(library))
    loaded.emulate.restype = ctypes.c_char_p
    return loaded


def tensor_map(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], element_bytes: int, box: int
) -> ctypes.Array[ctypes.c_uint64]:
    """Describe a cache [pages, page_size, kv_heads, head_dim] to the stand-in for the copy engine.

    Strides in bytes; boxes of ``box`` tokens of one head, up to 128 bytes of a row wide.
    """
    width = min(shape[-1] * element_bytes, 128)
    words: tuple[Any, ...] = (
        address, element_bytes, *reversed(shape), *reversed(strides), width // element_bytes, 1, box, 1, width, 0, 0,
    )  # fmt: skip
    return (ctypes.c_uint64 * 16)(*words)
