"""One batch of decode attention to be measured: lengths, shapes, bytes, operations. Needs neither torch nor a GPU."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument, LengthsError
from workbench.records import Workload
from workbench.workloads import format_lengths, parse_lengths

ELEMENT_BYTES = {"fp8": 1, "bf16": 2}

VARIANTS: Mapping[str, dict[str, bool]] = {
    "early": {"pdl": True, "early_map": True, "early_cache": True},
    "default": {"pdl": True, "early_map": False, "early_cache": False},
    "alone": {"pdl": False, "early_map": False, "early_cache": False},
}
"""Launches of our kernel: map and cache read before the kernel ahead has ended, waiting for it, no dependence."""

PROVIDERS = ("cuda", "triton", "torch", "flashinfer", "fa3", "hpc")
"""What can be asked for; the bare read is always measured."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=,()-]{0,59}")


def check_choices(providers: Sequence[str], variants: Sequence[str]) -> None:
    """Check names of providers and of launches.

    Raises
    ------
    InvalidArgument
        One is not known, or none is given.
    """
    for what, given, known in (("provider", providers, PROVIDERS), ("variant", variants, tuple(VARIANTS))):
        if unknown := [name for name in given if name not in known]:
            raise InvalidArgument(f"{what} {unknown[0]!r} is not known. Give some of {', '.join(known)}.")
        if not given:
            raise InvalidArgument(f"no {what} is given. Give some of {', '.join(known)}.")


@dataclass(frozen=True, eq=False)
class AttentionCase:
    """One batch and one type of KV cache.

    Attributes
    ----------
    name : str
        As records call it, such as "2x32K+30x4K".
    lengths : int64 array [batch]
        Live KV length of each request, tokens.
    cache : str
        ``"fp8"`` (with an FP8 query) or ``"bf16"``.
    group, kv_heads, head_dim, page_size, q_len : int
        Shape of the attention; the defaults are those of the article's table.
    """

    name: str
    lengths: npt.NDArray[np.int64] = field(repr=False)
    cache: str = "fp8"
    group: int = 8
    kv_heads: int = 1
    head_dim: int = 128
    page_size: int = 64
    q_len: int = 1

    @property
    def kv_bytes(self) -> int:
        """Bytes of K and V that every correct kernel has to read."""
        return int(self.lengths.sum()) * self.kv_heads * self.head_dim * 2 * ELEMENT_BYTES[self.cache]

    @property
    def operations(self) -> int:
        """Multiplications and additions of both products: 4 a query row, key and element of the head."""
        return 4 * int(self.lengths.sum()) * self.kv_heads * self.group * self.q_len * self.head_dim

    @property
    def workload(self) -> Workload:
        """The case as a record of attention has it."""
        return Workload(case=self.name, dtype=self.cache, parameters=self.parameters)

    @property
    def map_workload(self) -> Workload:
        """The case as a record of its task map has it: without what the map does not depend on."""
        kept = ("num_kv_heads", "q_len", "lengths")
        return Workload(case=self.name, parameters={k: v for k, v in self.parameters.items() if k in kept})

    @property
    def parameters(self) -> dict[str, Any]:
        """What defines the work besides its name and cache type, by the operator's names.

        The lengths themselves are there where the name is no expression that gives them back.
        """
        shape: dict[str, Any] = {
            "num_q_heads": self.group * self.kv_heads,
            "num_kv_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "page_size": self.page_size,
            "q_len": self.q_len,
        }
        return shape if self._named_by_lengths else shape | {"lengths": self.lengths.tolist()}

    @property
    def _named_by_lengths(self) -> bool:
        try:
            return bool(np.array_equal(parse_lengths(self.name), self.lengths))
        except LengthsError:
            return False


def variant_of(configuration: Mapping[str, Any]) -> str:
    """Name of the launch that a configuration of our kernel asks for; "" for a configuration of something else."""
    asked = [name for name, how in VARIANTS.items() if how.items() <= configuration.items()]
    return asked[0] if asked else ""


def case_name(text: str, lengths: Sequence[int] | npt.NDArray[np.int64]) -> str:
    """A name that records take, for lengths that were given as an expression, a file or a step of a trace.

    Parameters
    ----------
    text
        What was given: an expression keeps its wording, a path gives its last part.
    lengths
        The lengths that it means.
    """
    plain = "".join(text.split())
    if _NAME.fullmatch(plain):
        return plain
    expression = "".join(format_lengths(lengths).split())
    if _NAME.fullmatch(expression):
        return expression
    digest = hashlib.sha256(np.asarray(lengths, np.int64).tobytes()).hexdigest()[:8]
    return f"{len(lengths)}requests-{digest}"
