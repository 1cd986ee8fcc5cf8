"""Compile CUDA C++ for a GPU, on any Linux machine, with or without one.

NVRTC through ``cuda-core``. Tile sizes and the like are compile-time constants: one configuration, one compilation.
Three layers answer in turn: this process's memory, the cache on disk, the compiler.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import re
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from workbench import settings
from workbench.errors import CompileError, InvalidArgument
from workbench.gpu import toolkit
from workbench.gpu.cache import FORMAT, CacheEntry, DiskCache
from workbench.gpu.facts import ResourceFacts, read_facts
from workbench.gpu.source import Source
from workbench.gpu.toolkit import compiler_version

__all__ = [
    "DEFAULT_ARCH",
    "CompiledKernel",
    "Define",
    "cache_folder",
    "compile_kernel",
    "compiler_version",
    "describe",
    "forget",
    "is_compiled",
]

DEFAULT_ARCH = "sm_90a"

_STANDARD = "c++20"
_ARCH = re.compile(r"sm_\d{2,3}[af]?")
_WARNING = re.compile(r"warning|Potential Performance Loss", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MOST_REGISTERS = 255

Define = bool | int | float | str


@dataclasses.dataclass(frozen=True, eq=False)
class CompiledKernel:
    """One kernel, compiled.

    Attributes
    ----------
    name : str
        Name of the source.
    entry : str
        The kernel as it was asked for, such as ``"decode<64, 4>"``.
    symbol : str
        Its mangled name in the cubin.
    arch : str
        Compiler target.
    defines : mapping
        The compile-time constants.
    cubin : bytes
        The machine code, an ELF file.
    log : str
        What the compiler and the assembler said.
    facts : ResourceFacts
        Registers, spills, shared memory and so on.
    key : str
        Digest of everything the result depends on.
    compile_seconds : float
        How long compiling took, when it was done.
    from_cache : bool
        Whether it came from the cache on disk.
    """

    name: str
    entry: str
    symbol: str
    arch: str
    defines: Mapping[str, str]
    cubin: bytes
    log: str
    facts: ResourceFacts
    key: str
    compile_seconds: float
    from_cache: bool

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines of the log that warn, such as the assembler's "Potential Performance Loss" about serialised wgmma."""
        return tuple(line.strip() for line in self.log.splitlines() if _WARNING.search(line))

    def __str__(self) -> str:
        return describe(self.name, self.entry, self.arch, self.defines)


def describe(name: str, entry: str, arch: str, defines: Mapping[str, str]) -> str:
    """Name a configuration in one line, such as "decode.cu: decode<64> for sm_90a with STAGES=3"."""
    constants = " ".join(f"{key}={value}" for key, value in defines.items())
    return f"{name}: {entry} for {arch}" + (f" with {constants}" if constants else "")


def compile_kernel(
    source: Source | str | Path,
    entry: str,
    *,
    defines: Mapping[str, Define] | None = None,
    arch: str = DEFAULT_ARCH,
    max_registers: int | None = None,
    fast_math: bool = False,
    line_info: bool = False,
) -> CompiledKernel:
    """Compile a kernel, or find it compiled.

    Parameters
    ----------
    source : Source, str or Path
        What to compile; a string or path names a file in ``kernels``.
    entry : str
        The kernel: the name of an ``extern "C"`` function, or a name expression such as ``"decode<64, 4>"``.
    defines : mapping, optional
        Macros set for this configuration; True is 1, False is 0.
    arch : str
        Compiler target, such as ``"sm_90a"``.
    max_registers : int, optional
        Most registers a thread, 1 to 255.
    fast_math : bool
        Approximate division, square root and transcendental functions; denormals become zero.
    line_info : bool
        Keep source lines for profilers; makes the cubin larger, not slower.

    Returns
    -------
    CompiledKernel
        The same object for the same request while this process lives and no source file changes.

    Raises
    ------
    CompileError
        The compiler refuses; the message names the configuration and shows the compiler's lines.
    InvalidArgument
        The source, the entry, a define, the target or the limit of registers is not valid.
    MissingDependency
        The compiler is not installed.
    """
    source, constants, options, key = _request(source, entry, defines, arch, max_registers, fast_math, line_info)
    with _locks[key]:  # two threads that want the same kernel compile it once
        if key not in _memory:
            disk = DiskCache(cache_folder())
            found = disk.load(key)
            entry_ = found or _compile(source, entry, options, describe(source.name, entry, arch, constants))
            if found is None:
                disk.store(key, entry_)
            _memory[key] = CompiledKernel(
                name=source.name,
                entry=entry,
                symbol=entry_.details["symbol"],
                arch=arch,
                defines=MappingProxyType(constants),
                cubin=entry_.cubin,
                log=entry_.log,
                facts=ResourceFacts.from_dict(entry_.details["facts"]),
                key=key,
                compile_seconds=entry_.details["compile_seconds"],
                from_cache=found is not None,
            )
        return _memory[key]


def is_compiled(
    source: Source | str | Path, entry: str, *, defines: Mapping[str, Define] | None = None, arch: str = DEFAULT_ARCH
) -> bool:
    """Whether :func:`compile_kernel` of the same would find it in memory or in the cache on disk.

    Raises
    ------
    InvalidArgument, MissingDependency
        As :func:`compile_kernel`.
    """
    key = _request(source, entry, defines, arch)[-1]
    return key in _memory or DiskCache(cache_folder()).load(key) is not None


def _request(
    source: Source | str | Path,
    entry: str,
    defines: Mapping[str, Define] | None,
    arch: str,
    max_registers: int | None = None,
    fast_math: bool = False,
    line_info: bool = False,
) -> tuple[Source, dict[str, str], dict[str, Any], str]:
    """Checked: the source, the constants, the compiler's options, and the key of the result."""
    if not isinstance(source, Source):
        source = Source.file(source)
    if not isinstance(entry, str) or not entry.strip():
        raise InvalidArgument(f"entry is {entry!r}; give the kernel's name, such as 'saxpy' or 'decode<64, 4>'.")
    if not isinstance(arch, str) or not _ARCH.fullmatch(arch):
        raise InvalidArgument(f"arch is {arch!r}; give a target such as 'sm_90a' or 'sm_80'.")
    if max_registers is not None and (type(max_registers) is not int or not 1 <= max_registers <= _MOST_REGISTERS):
        raise InvalidArgument(f"max_registers is {max_registers!r}; give 1 to {_MOST_REGISTERS}, or None for no limit.")
    constants = _constants(defines or {})
    options: dict[str, Any] = {"arch": arch, "std": _STANDARD, "ptxas_options": ["-v"]}
    options |= {"max_register_count": max_registers, "use_fast_math": fast_math, "lineinfo": line_info}
    options |= {
        "define_macro": list(constants.items()) or None,
        "include_path": [*map(str, (*source.folders, *toolkit.header_folders()))],
    }
    key = _key(source, entry, options)
    return source, constants, options, key


_memory: dict[str, CompiledKernel] = {}
_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def forget() -> None:
    """Drop what this process keeps in memory; the cache on disk stays."""
    _memory.clear()


def cache_folder() -> Path:
    """Where compiled kernels are kept."""
    return settings.cache_dir() / "kernels"


def _constants(defines: Mapping[str, Define]) -> dict[str, str]:
    if not isinstance(defines, Mapping):
        raise InvalidArgument(f"defines is a {type(defines).__name__}; give a mapping such as {{'TILE': 64}}.")
    for name, value in defines.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidArgument(f"{name!r} cannot be the name of a macro; use letters, digits and underscores.")
        number = isinstance(value, (int, float)) and math.isfinite(value)
        if not number and not (isinstance(value, str) and value.isprintable()):
            raise InvalidArgument(f"The macro {name} is {value!r}; give a finite number, a bool, or text of one line.")
    return {name: str(int(value) if isinstance(value, bool) else value) for name, value in defines.items()}


def _key(source: Source, entry: str, options: Mapping[str, Any]) -> str:
    versions = toolkit.versions() | {"nvrtc": compiler_version()}
    parts = {"format": FORMAT, "entry": entry, "options": options, "toolkit": versions, "source": source.digests()}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _compile(source: Source, entry: str, options: Mapping[str, Any], configuration: str) -> CacheEntry:
    try:
        from cuda.core import Program, ProgramOptions
        from cuda.core._utils.cuda_utils import NVRTCError
    except ImportError as error:
        raise toolkit.missing() from error
    log = io.StringIO()
    start = time.perf_counter()
    try:
        program = Program(source.text, "c++", ProgramOptions(name=source.name, **options))
        compiled = program.compile("cubin", name_expressions=[entry], logs=log)
    except NVRTCError as error:
        said = str(error).partition("compilation log:")[2] or str(error)
        raise CompileError(configuration, said + toolkit.remedy(said)) from None
    seconds = time.perf_counter() - start
    cubin, text = bytes(compiled.code), log.getvalue().rstrip("\0\n ") + "\n"
    name = compiled.symbol_mapping[entry]
    symbol = name.decode() if isinstance(name, bytes) else str(name)
    facts = read_facts(text, cubin, symbol)
    return CacheEntry(cubin, text, {"symbol": symbol, "facts": facts.to_dict(), "compile_seconds": seconds})
