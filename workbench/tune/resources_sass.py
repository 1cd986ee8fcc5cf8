"""The machine code of a configuration, and how many of its instructions multiply, copy or spill."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from workbench.gpu.compile import CompiledKernel
from workbench.gpu.disassemble import disassemble, instruction_counts

TENSOR = re.compile(r"[HIQBDO]?(?:G)?MMA|UTC[A-Z]*MMA")
"""Products on the tensor cores: HMMA and the like of one warp, HGMMA and QGMMA of a warpgroup."""

COPY_ENGINE = re.compile(r"UTMA\w+|UBLK\w+")
"""Copies by the bulk copy engine (TMA): of tensor boxes, of runs of bytes, and prefetches."""

SPILL = re.compile(r"LDL|STL")
"""Local memory, where registers that ran out and arrays that did not fit them lie."""


@dataclass(frozen=True)
class MachineCode:
    """Instructions of a kernel by what they do; each is counted once, however often it runs.

    Attributes
    ----------
    counts : Counter
        By name with modifiers, such as ``"HMMA.16816.F32"``.
    """

    counts: Counter[str]

    @property
    def instructions(self) -> int:
        """All of them."""
        return self.counts.total()

    @property
    def tensor_core(self) -> Counter[str]:
        """Those that run on the tensor cores."""
        return self._matching(TENSOR)

    @property
    def copy_engine(self) -> Counter[str]:
        """Those that start the bulk copy engine (TMA)."""
        return self._matching(COPY_ENGINE)

    @property
    def spills(self) -> Counter[str]:
        """Those that read or write local memory."""
        return self._matching(SPILL)

    def summary(self) -> dict[str, int]:
        """Numbers of all four."""
        return {
            "instructions": self.instructions,
            "tensor_core": self.tensor_core.total(),
            "copy_engine": self.copy_engine.total(),
            "spills": self.spills.total(),
        }

    def _matching(self, pattern: re.Pattern[str]) -> Counter[str]:
        return Counter({name: n for name, n in self.counts.items() if pattern.fullmatch(name.partition(".")[0])})


def machine_code(kernel: CompiledKernel) -> MachineCode:
    """Count the instructions of a kernel.

    Raises
    ------
    MissingDependency
        There is no ``nvdisasm``; Triton's wheel brings one.
    """
    return MachineCode(instruction_counts(kernel))


def listing(kernel: CompiledKernel, *, marked: bool = True) -> str:
    """Machine code as text; with ``marked``, a word at the beginning of each line that multiplies, copies or spills.

    Raises
    ------
    MissingDependency
        There is no ``nvdisasm``.
    """
    text = disassemble(kernel)
    return "\n".join(map(_marked, text.splitlines())) if marked else text


_MARKS = {"tensor": TENSOR, "copy": COPY_ENGINE, "spill": SPILL}
_LINE = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)")


def _marked(line: str) -> str:
    found = _LINE.match(line)
    mark = next((word for word, p in _MARKS.items() if found and p.fullmatch(found[1])), "")
    return f"{mark:7}{line}"
