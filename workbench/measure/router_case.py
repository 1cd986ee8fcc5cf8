"""One router product to be measured: its shape, bytes and operations. Needs neither torch nor a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.errors import InvalidArgument
from workbench.records import Workload
from workbench.tables import MODELS

TOKENS = (1, 16, 48, 64, 96, 128, 208, 256, 512, 1024, 2048, 4096, 8192)
"""Tokens of the rows of a table."""

MOST_TOKENS = 1 << 17
"""Beyond, the scores and two sets of activations of the largest router leave little of a GPU's memory."""

PROVIDERS = ("cuda", "triton", "cublas-fp32", "cublas-tf32", "cublas-bf16")
"""What can be measured: our kernel, the portable one, cuBLAS in three precisions."""

SHAPES = {model.name: (model.k, model.n) for model in MODELS.values()}
"""K and N of the routers of models."""


@dataclass(frozen=True)
class RouterCase:
    """One product, ``[m, k]`` times ``[n, k]`` transposed.

    Attributes
    ----------
    m, n, k : int
        Tokens, experts, hidden size.
    """

    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        """As records call it."""
        return f"M{self.m}-K{self.k}-N{self.n}"

    @property
    def input_bytes(self) -> int:
        """Bytes of the activations and of two bf16 terms of the weight."""
        return 2 * self.m * self.k + 4 * self.n * self.k

    @property
    def operations(self) -> int:
        """Multiplications and additions of two products."""
        return 4 * self.m * self.n * self.k

    @property
    def workload(self) -> Workload:
        """The case as a record has it."""
        model = next((name for name, shape in SHAPES.items() if shape == (self.k, self.n)), None)
        return Workload(case=self.name, dtype="bf16", m=self.m, n=self.n, k=self.k, model=model, parameters={})


def check_providers(names: Sequence[str]) -> None:
    """Check names of providers.

    Raises
    ------
    InvalidArgument
        One is not known.
    """
    if unknown := [name for name in names if name not in PROVIDERS]:
        raise InvalidArgument(f"provider {unknown[0]!r} is not known. Give some of {', '.join(PROVIDERS)}.")
