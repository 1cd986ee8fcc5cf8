"""What every run of ``workbench bench`` has: tools, figures found so far, records kept, remarks for the reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from workbench.measure import environment
from workbench.measure.clocks import ClocksUnreadable, Reader
from workbench.measure.compare import Outcome
from workbench.measure.figures import Figure, stored_figures
from workbench.measure.recording import figure_of, record_of
from workbench.measure.tables import THROTTLED
from workbench.measure.timing import GraphTimer, Timer
from workbench.records import Environment, Store, Workload

OWN = ("cuda", "triton")


class Shown(NamedTuple):
    """What is printed when a case is finished."""

    title: str
    table: Table


Step = Callable[[], Shown | None]


@dataclass(kw_only=True)
class BenchSession:
    """What a run measures with, and what it found so far.

    Attributes
    ----------
    environment : Environment
    timer : Timer
    read_clocks : callable, optional
        None where the clocks cannot be read.
    store : Store, optional
        Where records go; None keeps none.
    references : Store, optional
        Whose reference figures stand beside the measured ones.
    digests : dict
        SHA-256 of our kernels' sources, taken before the first compilation.
    device : str
        torch's device.
    figures : list of Figure
        In the order measured, references of a case behind it.
    floors : dict
        Microseconds that the memory allows at best, by dtype and case.
    recorded : int
        Records kept.
    """

    environment: Environment
    timer: Timer
    read_clocks: Reader | None = None
    store: Store | None = None
    references: Store | None = None
    digests: dict[tuple[str, str], str] = field(default_factory=dict)
    device: str = "cuda"
    clocks_problem: str = ""
    figures: list[Figure] = field(default_factory=list)
    floors: dict[tuple[str, str], float] = field(default_factory=dict)
    recorded: int = 0

    def keep(
        self, outcomes: Sequence[Outcome], workload: Workload, operator: str, how: Mapping[str, Any]
    ) -> list[Figure]:
        """Keep a record of each outcome, made as `how` says, and give their figures."""
        self.clocks_problem = next((o.clocks.problem for o in outcomes if o.clocks.problem), self.clocks_problem)
        if self.store is not None:
            for outcome in outcomes:
                record = record_of(outcome, workload, self.environment, operator=operator, digests=self.digests, **how)
                if record is not None:
                    self.store.add(record)
                    self.recorded += 1
        return [figure_of(outcome, workload, self.environment, operator=operator) for outcome in outcomes]

    def reference_figures(self, operator: str, case: str, dtype: str) -> list[Figure]:
        """What others measured of a case on this GPU; empty where no references are wanted."""
        if self.references is None:
            return []
        return stored_figures(
            self.references,
            operator=operator,
            gpu=self.environment.gpu,
            cases=[case],
            dtypes=[dtype],
            kinds=["reference"],
        )

    def own_faults(self) -> list[Figure]:
        """Figures of our own kernels that are wrong or failed."""
        return [f for f in self.figures if f.provider in OWN and f.state in ("wrong", "failed")]

    def case_of(self, figure: Figure) -> str:
        """Name of a figure's case in a remark."""
        return figure.case

    def who(self, figure: Figure) -> str:
        """Name of what was measured in a remark."""
        return figure.provider

    def told(self) -> Iterator[str]:
        """What the reader of the table has to know of any run, a line each."""
        throttled = [f for f in self.figures if f.throttled]
        if throttled:
            reasons = dict.fromkeys(reason for f in throttled for reason in f.throttled)
            cases = dict.fromkeys(map(self.case_of, throttled))
            yield f"{THROTTLED} (marked !): {', '.join(reasons)} held the clocks down during {', '.join(cases)}."
        if self.clocks_problem:
            yield f"Clocks were not read, or not always, so throttling could go unnoticed. {self.clocks_problem}"
        for figure in self.own_faults():
            yield f"{figure.state.upper()}: {self.who(figure)}, {self.case_of(figure)}: {figure.reason}"
        yield from dict.fromkeys(f"{f.provider}: {f.reason}" for f in self.figures if f.state == "missing")
        if self.store is not None:
            yield f"{self.recorded} records kept in {self.store}."


def store_for(records: str) -> Store | None:
    """The store that ``--records`` names, "own" for one's own; None for "none".

    Raises
    ------
    RecordError
        It cannot be written.
    """
    if records == "none":
        return None
    store = Store() if records == "own" else Store(Path(records))
    store.check_writable()
    return store


def tools_here(records: str) -> dict[str, Any]:
    """What a session on torch's current GPU measures with; `records`: folder of a store, "own", or "none"."""
    store = store_for(records)
    digests = environment.source_digests()  # before compiling: a later edit would not be what was measured
    read_clocks, problem = None, ""
    try:
        read_clocks = environment.clocks_here()
    except ClocksUnreadable as error:
        problem = str(error)
    return {
        "environment": environment.environment_here(),
        "timer": GraphTimer(),
        "read_clocks": read_clocks,
        "store": store,
        "references": Store(),
        "digests": digests,
        "clocks_problem": problem,
    }
