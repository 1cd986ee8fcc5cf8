"""The kernel that builds task maps on a CPU: its own source, over the fibers that emulate the attention kernel.

Kept of a GPU: every thread, warp functions, barriers, other orders of warps by seed. Not kept: memory order, races
between two places where a thread gives way, and CTAs at once.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.ops.attention_decode import emulation
from workbench.gpu.source import Source

HERE = Path(__file__).resolve().parent
_LIMIT_S = 300
# What no declaration in C++ says, and the instructions that have no word in `common/ptx.cuh`.
_REPLACED = (
    (r"extern __shared__ int shared\[\];", "int* shared = reinterpret_cast<int*>(emulation::cta->memory);"),
    (r'asm volatile\("bar\.sync .*?;"[^;]*;', "emulation::meet(emulation::some[id], threads);"),
    (r'asm volatile\("red\.shared::cta\.max\.u32 .*?;"[^;]*;', "*to = max(*to, value);"),
)


class MapKernel:
    """``build_task_map`` to emulate; `launch` is that of `workbench.gpu.launch.Kernel`."""

    def __init__(self, source: Source, seed: int = 0) -> None:
        self._library, self._seed = _library(source), seed

    def launch(
        self, grid: int, threads: int, arguments: Sequence[ctypes.Structure], *, shared_bytes: int, pdl: bool
    ) -> None:
        """Run to the end, or raise `emulation.Trouble`. Nothing runs ahead, so ``pdl`` changes nothing."""
        (parameters,) = arguments
        assert ctypes.sizeof(parameters) == self._library.parameter_bytes()
        # A fourth of a word at the end has no place in the emulation's count of words.
        room = -(-shared_bytes // 4) * 4
        trouble = self._library.emulate(ctypes.byref(parameters), grid, 1, threads, room, self._seed)
        if trouble is not None:
            raise emulation.Trouble(trouble.decode())


@cache
def _library(source: Source) -> ctypes.CDLL:
    text = source.text
    for pattern, put in _REPLACED:
        text, found = re.subn(pattern, put, text)
        assert found == 1, f"the kernel no longer says {pattern}"
    with tempfile.TemporaryDirectory() as folder:
        kernel, library = Path(folder, "kernel.cu"), Path(folder, "kernel.so")
        kernel.write_text('#include "map_words.h"\n' + text)
        includes = [f"-I{path}" for path in (emulation.HERE, HERE, *source.folders)]
        macros = ["-DENTRY=build_task_map", "-DParams=MapParams", f'-DKERNEL="{kernel}"']
        options = ["-std=c++20", "-O1", "-fno-strict-aliasing", "-shared", "-fPIC", "-o", str(library)]
        command = ["g++", *options, *macros, *includes, str(emulation.HERE / "run.cc")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        loaded = ctypes.CDLL(str(library))
    loaded.emulate.restype = ctypes.c_char_p
    return loaded
