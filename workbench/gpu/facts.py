"""What a compiled kernel needs of an SM: registers, spills, stack, shared and constant memory.

Spills are known only to the assembler's log, the rest also to the cubin: read from both and compared, so that a log in
a new format, or a cubin of another kernel, is noticed instead of believed.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from workbench.gpu import cubin as elf

_PROPERTIES = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\n"
    r"ptxas info\s*: Used (\d+) registers(?:, used (\d+) barriers)?(.*)"
)
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclasses.dataclass(frozen=True)
class ResourceFacts:
    """Resources of one compiled kernel. Sizes are bytes.

    Attributes
    ----------
    registers : int
        32-bit registers a thread.
    stack_bytes : int
        Local memory a thread keeps arrays in that did not fit registers.
    spill_store_bytes, spill_load_bytes : int or None
        Local memory traffic a thread has because registers ran out; None where the compiler's log does not tell.
    shared_bytes : int
        Static shared memory a CTA, without the driver's reserve. Dynamic shared memory comes with the launch.
    constant_bytes : int
        Constant bank 0, launch parameters included.
    parameter_sizes : tuple of int
        Size of each kernel parameter in order.
    max_threads : int or None
        Threads a CTA allowed by ``__launch_bounds__``; None where the kernel sets none.
    barriers : int
        Hardware barriers used.
    code_bytes : int
        Machine code.
    """

    registers: int
    stack_bytes: int
    spill_store_bytes: int | None
    spill_load_bytes: int | None
    shared_bytes: int
    constant_bytes: int
    parameter_sizes: tuple[int, ...]
    max_threads: int | None
    barriers: int
    code_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ResourceFacts:
        """Undo `to_dict`.

        Raises
        ------
        TypeError
            A field is missing or unknown.
        """
        return cls(**{**values, "parameter_sizes": tuple(values["parameter_sizes"])})


def read_facts(log: str, cubin: bytes, symbol: str) -> ResourceFacts:
    """Read the resources of one kernel from the assembler's log and from the cubin.

    Parameters
    ----------
    log : str
        What ``ptxas -v`` printed.
    cubin : bytes
        The compiled file.
    symbol : str
        Mangled name of the kernel.

    Raises
    ------
    ValueError
        The cubin does not hold the kernel, or log and cubin contradict each other.
    """
    kernel = elf.read_kernel(cubin, symbol)
    start = log.find(f"Compiling entry function '{symbol}'")
    properties = _PROPERTIES.search(log, start) if start >= 0 else None
    if properties is None:
        # Some installations of the compiler keep the assembler's lines to themselves. The cubin knows the rest; a
        # thread with no local memory has no spills, and of one that has some we do not know.
        unknown = None if kernel.stack_bytes else 0
        reserve = 1024 if kernel.shared_bytes >= 1024 else 0
        return ResourceFacts(
            registers=kernel.registers,
            stack_bytes=kernel.stack_bytes,
            spill_store_bytes=unknown,
            spill_load_bytes=unknown,
            shared_bytes=kernel.shared_bytes - reserve,
            constant_bytes=kernel.constant_bytes,
            parameter_sizes=kernel.parameter_sizes,
            max_threads=kernel.max_threads,
            barriers=kernel.barriers,
            code_bytes=kernel.code_bytes,
        )
    stack, spill_stores, spill_loads, registers, barriers = (int(number or 0) for number in properties.groups()[:5])
    shared = _SHARED.search(properties[6])
    shared_bytes = int(shared[1]) if shared else 0
    said = (registers, stack, barriers, shared_bytes)
    reserve = kernel.shared_bytes - shared_bytes
    if said[:3] != (kernel.registers, kernel.stack_bytes, kernel.barriers) or reserve not in (0, 1024):
        raise ValueError(
            f"Log and cubin of {symbol!r} contradict each other: registers, stack, barriers and shared memory are "
            f"{said} in the log, and {kernel.registers, kernel.stack_bytes, kernel.barriers, kernel.shared_bytes} "
            "in the cubin (shared memory may include a reserve of 1,024 bytes)."
        )
    return ResourceFacts(
        registers=registers,
        stack_bytes=stack,
        spill_store_bytes=spill_stores,
        spill_load_bytes=spill_loads,
        shared_bytes=shared_bytes,
        constant_bytes=kernel.constant_bytes,
        parameter_sizes=kernel.parameter_sizes,
        max_threads=kernel.max_threads,
        barriers=barriers,
        code_bytes=kernel.code_bytes,
    )
