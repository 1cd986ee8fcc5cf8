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
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.ops.attention_decode import emulation
from workbench import paths
from workbench.gpu.source import Source
from workbench.ops.attention_decode.task_map import SOURCE

HERE = Path(__file__).resolve().parent
_LIMIT_S = 300
# What no declaration in C++ says, and the instructions that have no word in `common/ptx.cuh`.
_REPLACED = (
    (r"extern __shared__ int shared\[\];", "int* shared = reinterpret_cast<int*>(emulation::cta->memory);"),
    (r'asm volatile\("bar\.sync .*?;"[^;]*;', "emulation::meet(emulation::some[id], threads);"),
    (r'asm volatile\("red\.shared::cta\.max\.u32 .*?;"[^;]*;', "*to = max(*to, value);"),
)


@dataclass(frozen=True)
class Files:
    """The text of the map kernel and of each header of its folder.

    Attributes
    ----------
    texts : tuple of (str, str)
        Name in an include, content.
    """

    texts: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls) -> Files:
        """As they are in ``kernels``."""
        beside = (name for name in Source.file(SOURCE).digests() if Path(name).parent == Path(SOURCE).parent)
        return cls(tuple((name, Source.file(name).text) for name in beside))

    def edited(self, pattern: str, put: str) -> Files:
        """With ``put`` for the one place, in any of the files, that matches the regular expression."""
        done = [(name, *re.subn(pattern, lambda _: put, text)) for name, text in self.texts]
        found = sum(count for *_, count in done)
        assert found == 1, f"the kernel says {pattern} {found} times, not once"
        return Files(tuple((name, text) for name, text, _ in done))


class MapKernel:
    """``build_task_map`` to emulate; `launch` is that of `workbench.gpu.launch.Kernel`."""

    def __init__(self, files: Files, seed: int = 0) -> None:
        self._library, self._seed = _library(files), seed

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
def _library(files: Files) -> ctypes.CDLL:
    for pattern, put in _REPLACED:
        files = files.edited(pattern, put)
    with tempfile.TemporaryDirectory() as folder:
        kernel, library = Path(folder, SOURCE), Path(folder, "kernel.so")
        kernel.parent.mkdir()
        for name, text in files.texts:
            Path(folder, name).write_text(text)
        # These files and the stand-ins come ahead of what they stand for.
        includes = [f"-I{path}" for path in (folder, emulation.HERE, HERE, paths.kernels_dir())]
        macros = ["-DENTRY=build_task_map", "-DParams=MapParams", f'-DKERNEL="{kernel}"']
        options = ["-std=c++20", "-O1", "-fno-strict-aliasing", "-shared", "-fPIC", "-o", str(library)]
        command = ["g++", *options, *macros, *includes, "-include", "map_words.h", str(emulation.HERE / "run.cc")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        loaded = ctypes.CDLL(str(library))
    loaded.emulate.restype = ctypes.c_char_p
    return loaded
