"""Read the ELF file that a cubin is: what the assembler recorded about each kernel.

The section names, and the attribute numbers of ``.nv.info``, are those that NVIDIA's ``cuobjdump -elf`` prints.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator

_SHT_SYMTAB = 2

# Attributes of .nv.info (EIATTR_...).
_MAX_THREADS = 0x05
_FRAME_SIZE = 0x11
_PARAMETER = 0x17
_REGISTER_COUNT = 0x2F
_BARRIERS = 0x4C

_FORMAT_NONE, _FORMAT_BYTE, _FORMAT_HALF, _FORMAT_SIZED = 1, 2, 3, 4


@dataclasses.dataclass(frozen=True)
class CubinKernel:
    """What a cubin says about one kernel. Sizes are bytes.

    Attributes
    ----------
    registers : int
        32-bit registers a thread.
    stack_bytes : int
        Local memory frame of a thread.
    shared_bytes : int
        Size of ``.nv.shared``: the kernel's static shared memory, preceded by the driver's reserve if there is one.
    constant_bytes : int
        Constant bank 0, launch parameters included.
    parameter_sizes : tuple of int
        Size of each kernel parameter in order.
    max_threads : int or None
        Threads a CTA allowed by ``__launch_bounds__``.
    barriers : int
        Hardware barriers used.
    code_bytes : int
        Machine code.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int
    constant_bytes: int
    parameter_sizes: tuple[int, ...]
    max_threads: int | None
    barriers: int
    code_bytes: int


@dataclasses.dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    size: int
    content: bytes


def read_kernel(cubin: bytes, symbol: str) -> CubinKernel:
    """Find one kernel in a cubin.

    Parameters
    ----------
    cubin : bytes
        The file.
    symbol : str
        Mangled name of the kernel.

    Raises
    ------
    ValueError
        It is not a 64-bit ELF file, or has no such kernel.
    """
    sections = {section.name: section for section in _sections(cubin)}
    code = sections.get(f".text.{symbol}")
    if code is None:
        found = sorted(name.removeprefix(".text.") for name in sections if name.startswith(".text."))
        raise ValueError(f"The cubin has no kernel {symbol!r}; it has {found}.")
    index = _symbols(sections).index(symbol)
    per_file: dict[int, int] = {}
    for attribute, value in _attributes(sections[".nv.info"].content):
        if attribute in (_REGISTER_COUNT, _FRAME_SIZE) and isinstance(value, bytes):
            owner, number = struct.unpack("<II", value)
            if owner == index:
                per_file[attribute] = number
    sizes: dict[int, int] = {}
    max_threads, barriers = None, 0
    for attribute, value in _attributes(sections[f".nv.info.{symbol}"].content):
        if attribute == _PARAMETER and isinstance(value, bytes):
            ordinal, bits = struct.unpack_from("<4xH2xI", value)
            sizes[ordinal] = bits >> 18
        elif attribute == _MAX_THREADS and isinstance(value, bytes):
            x, y, z = struct.unpack("<III", value)
            max_threads = x * y * z
        elif attribute == _BARRIERS and isinstance(value, int):
            barriers = value
    return CubinKernel(
        registers=per_file[_REGISTER_COUNT],
        stack_bytes=per_file[_FRAME_SIZE],
        shared_bytes=sections[name].size if (name := f".nv.shared.{symbol}") in sections else 0,
        constant_bytes=sections[name].size if (name := f".nv.constant0.{symbol}") in sections else 0,
        parameter_sizes=tuple(size for _, size in sorted(sizes.items())),
        max_threads=max_threads,
        barriers=barriers,
        code_bytes=code.size,
    )


def _sections(elf: bytes) -> Iterator[_Section]:
    if elf[:5] != b"\x7fELF\x02":
        raise ValueError("Not a cubin: the content is no 64-bit ELF file.")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    count, names_index = struct.unpack_from("<HH", elf, 0x3C)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, table + 64 * number) for number in range(count)]
    names = headers[names_index][4]
    for name, kind, _, _, offset, size, *_ in headers:
        text = elf[names + name : elf.index(b"\0", names + name)].decode()
        yield _Section(text, kind, size, elf[offset : offset + size])


def _symbols(sections: dict[str, _Section]) -> list[str]:
    """Symbol names by index."""
    table = next(section for section in sections.values() if section.kind == _SHT_SYMTAB).content
    strings = sections[".strtab"].content
    starts = (start for start, *_ in struct.iter_unpack("<IBBHQQ", table))
    return [strings[start : strings.index(b"\0", start)].decode() for start in starts]


def _attributes(info: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Attributes of one .nv.info section: number, and its value as a number or as bytes."""
    at = 0
    while at < len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == _FORMAT_SIZED:
            yield attribute, info[at : at + value]
            at += value
        elif form == _FORMAT_BYTE:
            yield attribute, value & 0xFF
        elif form in (_FORMAT_NONE, _FORMAT_HALF):
            yield attribute, value
        else:
            raise ValueError(f"Unknown format {form} of attribute {attribute:#x} in .nv.info.")
