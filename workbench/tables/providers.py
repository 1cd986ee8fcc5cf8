"""Providers of the router product by the names that figures and tables use, and what runs them here.

A name says what computes: ``cublas-fp32`` is the same whether this project or somebody else measured it.
`workbench.ops.router_gemm` has names of its own, for there a provider is an argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from workbench.errors import InvalidArgument, TableError
from workbench.tables.dispatch import DispatchTable, same_gpu
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


_same_gpu = lru_cache(maxsize=64)(same_gpu)  # asked at every call of the product


def canonical(provider: str, terms: int = 2) -> str:
    """Name of what a record of `provider` measured: "torch" is ``cublas-fp32``; an unknown name stays."""
    return _ARGUMENTS.get((provider, None)) or _ARGUMENTS.get((provider, terms), provider)


class Dispatch:
    """What ``router_gemm(provider="auto")`` asks: the tables of one GPU.

    Without more, it asks one's own tables for the GPU that a product runs on. To use others, hand them over with
    ``workbench.ops.router_gemm.providers.use_table(Dispatch(gpu, tables))``.

    Parameters
    ----------
    gpu
        The GPU at hand, by any name that the catalogue knows or as the driver calls it.
    tables
        Tables to use; None: one's own, looked up by shape and precision class.
    other_gpu
        Accept tables of another GPU, and products on another GPU than `gpu`.

    Raises
    ------
    InvalidArgument
        `gpu` is no name, `tables` are no tables, or two of them are of one shape and class.
    TableError
        A given table was measured on another GPU.
    """

    def __init__(self, gpu: str, tables: Sequence[DispatchTable] | None = None, *, other_gpu: bool = False) -> None:
        if not isinstance(gpu, str) or not gpu:
            raise InvalidArgument(f"gpu is {gpu!r}; give the name of a GPU.")
        self.gpu, self.other_gpu = gpu, other_gpu
        self._given: dict[tuple[int, int, str], DispatchTable] | None = None
        for table in tables or ():
            if not isinstance(table, DispatchTable):
                raise InvalidArgument(f"a table is a {type(table).__name__}; read it with load_table(path).")
            table.check(gpu=gpu, k=table.k, n=table.n, other_gpu=other_gpu)
        if tables is not None:
            self._given = {(table.k, table.n, table.precision): table for table in tables}
            if len(self._given) < len(tables):
                shapes = ", ".join(f"K {table.k} N {table.n} {table.precision}" for table in tables)
                raise InvalidArgument(f"two tables are of one shape and precision class: {shapes}. Give one of each.")

    def check(self, gpu: str) -> None:
        """Refuse another GPU than the one these tables are for.

        Raises
        ------
        TableError
            `gpu` is another one, and `other_gpu` was not set.
        """
        if not self.other_gpu and not _same_gpu(gpu, self.gpu):
            raise TableError(
                f"the dispatch tables in use are for {self.gpu}, and the product runs on {gpu}. Make tables here with "
                "`workbench crossover`, or pass other_gpu=True to use these all the same."
            )

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
