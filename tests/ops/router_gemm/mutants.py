"""Wrong kernels: each is the real one with one planted fault that the judge has to notice."""

from __future__ import annotations

from dataclasses import dataclass

from tests.ops.router_gemm.cases import Case
from workbench.gpu.ahead import Job
from workbench.gpu.source import Source
from workbench.ops.router_gemm import RouterConfig
from workbench.ops.router_gemm.cuda import SOURCE


@dataclass(frozen=True)
class Mutant:
    """A fault: in a function, or from any other text to the next line that begins with ``}``, one text is replaced.

    Attributes
    ----------
    name : str
    function : str
        Where it begins.
    old, new : str
    """

    name: str
    function: str
    old: str
    new: str

    def source(self) -> Source:
        """The kernel with the fault.

        Raises
        ------
        AssertionError
            When the kernel no longer holds the text: the fault has to be planted anew.
        """
        text = Source.file(SOURCE).text
        start = text.find(self.function)
        assert start >= 0, f"{self.name}: the kernel has no {self.function!r}"
        end = text.find("\n}", start)
        body = text[start:end]
        assert self.old in body, f"{self.name}: {self.function!r} no longer holds {self.old!r}"
        text = text[:start] + body.replace(self.old, self.new) + text[end:]
        return Source.inline(text, f"router_gemm/mutant {self.name}.cu")

    def job(self, case: Case) -> Job:
        """The wrong kernel for a case."""
        return Job(source=self.source(), entry=case.job.entry, defines=case.job.defines)


CASES = (
    # Chains of K that are promoted, a tile that N does not fill, tokens that the tile does not hold.
    Case(m=77, n=200, k=4104, config=RouterConfig(tile_m=64, tile_n=48, stages=4), seed=1),
    Case(m=208, n=192, k=3072, config=RouterConfig(tile_m=128, tile_n=96, stages=4, split_k=7), seed=2),
    Case(m=300, n=192, k=1024, config=RouterConfig(tile_m=128, tile_n=64, stages=4, multicast=2), seed=3),
)
"""Each of the faults is in what at least one of these runs."""

MUTANTS = (
    Mutant("second term dropped", "bool accumulate(", "acc[(TERMS - 1) * TILE_N / 2 + i]", "0.0f"),
    Mutant("terms swapped", "bool accumulate(", "fmaf(low, kTermScale, acc[i])", "fmaf(acc[i], kTermScale, low)"),
    Mutant("second term's scale", "constexpr float kTermScale", "1.0f / 256", "1.0f / 128"),
    Mutant("only the last chain counts", "bool accumulate(", "total[i] += fmaf", "total[i] = fmaf"),
    Mutant("accumulators never cleared", "bool accumulate(", "b + 2 * k, i | k)", "b + 2 * k, 1)"),
    Mutant("last 16 of a block skipped", "bool accumulate(", "k < kBlock / 16", "k < kBlock / 16 - 1"),
    Mutant("last block skipped", "void __launch_bounds__", "(k_rank + 1) / SPLIT_K", "(k_rank + 1) / SPLIT_K - 1"),
    Mutant("both warpgroups read the first's", "bool accumulate(", "warpgroup * kWarpgroupRows", "0 * warpgroup"),
    Mutant("one part not added", "void finish(", "rank < SPLIT_K", "rank < SPLIT_K - 1"),
    Mutant("units land in one slot", "void send(", "unit / SPLIT_K", "0"),
    Mutant("lower half of a unit lost", "void send(", "total[4 * j + 2], total[4 * j + 3]", "0.0f, 0.0f"),
    Mutant("one row too many", "void for_each_pair(", "row >= rows", "row > rows"),
    Mutant("experts beyond the last", "void __launch_bounds__", "tile.n + column < p.n", "true"),
    Mutant("every share is the first", "void copy_w(", "tile.n + m_rank * kShareRows", "tile.n"),
    Mutant("neighbour's tokens", "Tile(const Params& p, int index", "+ m_rank) * TILE_M", "+ 1 - m_rank) * TILE_M"),
)
