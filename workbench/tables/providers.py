"""Providers of the router product by the names that figures and tables use, and what runs them here.

A name says what computes: ``cublas-fp32`` is the same whether this project or somebody else measured it.
`workbench.ops.router_gemm` has names of its own, for there a provider is an argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from workbench.tables.dispatch import DispatchTable
from workbench.tables.files import find_table


@dataclass(frozen=True)
class RouterProvider:
    """One implementation.

    Attributes
    ----------
    precision : str
        Class by design. It counts where it is worse than the measured error says: at M = 1 cuBLAS answers a TF32 call
        with an FP32 kernel.
    runs_as : str or None
        The argument of `workbench.ops.router_gemm`; None: it has none.
    terms : int or None
        Terms that the split weight must have; None: any.
    """

    precision: str
    runs_as: str | None = None
    terms: int | None = None


ROUTER_PROVIDERS: Mapping[str, RouterProvider] = MappingProxyType(
    {
        "cuda": RouterProvider("split", "cuda", 2),
        "cuda-3terms": RouterProvider("fp32", "cuda", 3),
        "triton": RouterProvider("split", "triton", 2),
        "triton-3terms": RouterProvider("fp32", "triton", 3),
        "cublas-fp32": RouterProvider("fp32", "torch"),
        "cublas-tf32": RouterProvider("tf32", "tf32"),
        "cublas-bf16": RouterProvider("bf16", "bf16"),
        "hpc": RouterProvider("split"),
    }
)
"""By name. ``hpc`` is upstream HPC-Ops."""

_ARGUMENTS = {
    (provider.runs_as, provider.terms): name for name, provider in ROUTER_PROVIDERS.items() if provider.runs_as
}
_CLASS_OF_TERMS = {"split3": "fp32"}
"""`router_gemm` asks for "split3" with a weight of three terms."""


def canonical(provider: str, terms: int = 2) -> str:
    """Name of what a record of `provider` measured: "torch" is ``cublas-fp32``; an unknown name stays."""
    return _ARGUMENTS.get((provider, None)) or _ARGUMENTS.get((provider, terms), provider)


class Dispatch:
    """What ``router_gemm(provider="auto")`` asks: the tables of one GPU.

    Hand it over with ``workbench.ops.router_gemm.providers.use_table(Dispatch(gpu))``.

    Parameters
    ----------
    gpu
        The GPU at hand, by any name that the catalogue knows or as the driver calls it.
    tables
        Tables to use; None: one's own, looked up by shape and precision class.
    other_gpu
        Accept given tables of another GPU.

    Raises
    ------
    TableError
        A given table was measured on another GPU.
    """

    def __init__(self, gpu: str, tables: Sequence[DispatchTable] | None = None, *, other_gpu: bool = False) -> None:
        self.gpu = gpu
        self._given: dict[tuple[int, int, str], DispatchTable] | None = None
        if tables is not None:
            for table in tables:
                table.check(gpu=gpu, k=table.k, n=table.n, other_gpu=other_gpu)
            self._given = {(table.k, table.n, table.precision): table for table in tables}

    def choose(self, m: int, n: int, k: int, precision: str) -> str | None:
        """The argument `provider` for M rows, or None where no table knows or its provider cannot run here.

        Parameters
        ----------
        m, n, k
            Rows, scores a row, hidden size.
        precision
            Least accurate class allowed, or "split3" for a weight of three terms.

        Raises
        ------
        TableError
            The file of the table is damaged.
        """
        limit = _CLASS_OF_TERMS.get(precision, precision)
        given = self._given
        table = find_table(self.gpu, k, n, limit) if given is None else given.get((k, n, limit))
        provider = ROUTER_PROVIDERS.get(table.choose(m)) if table else None
        terms = 3 if precision == "split3" else 2
        return provider.runs_as if provider and provider.terms in (None, terms) else None
