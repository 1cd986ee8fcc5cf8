"""One run of ``workbench bench router``: its steps, its figures and its records. Needs a GPU and torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.cli.bench_run import OWN, Shown, Step
from workbench.gpu.ahead import compile_ahead
from workbench.measure import environment, router
from workbench.measure.clocks import ClocksUnreadable, Reader
from workbench.measure.figures import ROUTER, Figure, floor_us, known_gpu, stored_figures
from workbench.measure.recording import figure_of, record_of
from workbench.measure.router_case import RouterCase
from workbench.measure.tables import LEAST_EXACT, THROTTLED, case_table
from workbench.measure.timing import GraphTimer, Timer
from workbench.records import Environment, Store


@dataclass
class RouterSession:
    """What a run measures with, and what it found so far.

    Attributes
    ----------
    providers : tuple of str
        Of :data:`workbench.measure.router_case.PROVIDERS`.
    rounds, seed : int
        Timed replays; seed of the inputs.
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
    """

    providers: tuple[str, ...]
    rounds: int
    seed: int
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

    @classmethod
    def here(cls, providers: tuple[str, ...], rounds: int, seed: int, records: str) -> RouterSession:
        """A run on torch's current GPU; ``records``: folder of a store, "own", or "none"."""
        digests = environment.source_digests()  # before compiling: a later edit would not be what was measured
        read_clocks, problem = None, ""
        try:
            read_clocks = environment.clocks_here()
        except ClocksUnreadable as error:
            problem = str(error)
        store = None if records == "none" else Store() if records == "own" else Store(Path(records))
        return cls(
            providers, rounds, seed, environment.environment_here(), GraphTimer(), read_clocks, store, Store(), digests,
            clocks_problem=problem,
        )  # fmt: skip

    def steps(self, cases: Sequence[RouterCase], _what: Sequence[str] = ()) -> Iterator[Step]:
        """What there is to do, in order; each step measures one case and keeps its records before it returns."""
        yield lambda: self._compile(cases)
        for case in cases:
            yield lambda case=case: self.measure(case)  # type: ignore[misc]

    def _compile(self, cases: Sequence[RouterCase]) -> None:
        compile_ahead(router.jobs([provider for case in cases for provider in self._providers(case)]))

    def _providers(self, case: RouterCase) -> list[Any]:
        return router.providers_of(case, self.providers, self.environment.sms or 1)

    def measure(self, case: RouterCase) -> Shown:
        """Measure one case."""
        outcomes, sets = router.measure(
            case, self._providers(case), self.timer, self.read_clocks,
            seed=self.seed, rounds=self.rounds, device=self.device,
        )  # fmt: skip
        self.clocks_problem = next((o.clocks.problem for o in outcomes if o.clocks.problem), self.clocks_problem)
        for outcome in outcomes if self.store is not None else ():
            record = record_of(
                outcome, case.workload, self.environment,
                operator=ROUTER, method=router.METHOD, seed=self.seed, digests=self.digests,
            )  # fmt: skip
            if record is not None and self.store is not None:
                self.store.add(record)
                self.recorded += 1
        shown = [figure_of(outcome, case.workload, self.environment, operator=ROUTER) for outcome in outcomes]
        if self.references is not None:
            shown += stored_figures(
                self.references, operator=ROUTER, gpu=self.environment.gpu, cases=[case.name], dtypes=["bf16"],
                kinds=["reference"],
            )  # fmt: skip
        self.figures += shown
        gpu = known_gpu(self.environment.gpu)
        if gpu is not None:
            self.floors["bf16", case.name] = floor_us(case.input_bytes, case.operations, gpu)
        title = f"{case.name}: {case.input_bytes / 1e6:.1f} MB of activations and weights, {sets} input sets"
        return Shown(title, case_table(shown, self.floors.get(("bf16", case.name))))

    def own_faults(self) -> list[Figure]:
        """Figures of our own kernels that are wrong or failed."""
        return [f for f in self.figures if f.provider in OWN and f.state in ("wrong", "failed")]

    def remarks(self) -> Iterator[str]:
        """What the reader of the table has to know, a line each."""
        yield f"\n* fastest measured here of those within {LEAST_EXACT:g} of float64."
        yield f"Seed {self.seed}, {self.rounds} replays."
        throttled = [f for f in self.figures if f.throttled]
        if throttled:
            reasons = dict.fromkeys(reason for f in throttled for reason in f.throttled)
            cases = dict.fromkeys(f.case for f in throttled)
            yield f"{THROTTLED} (marked !): {', '.join(reasons)} held the clocks down during {', '.join(cases)}."
        if self.clocks_problem:
            yield f"Clocks were not read, or not always, so throttling could go unnoticed. {self.clocks_problem}"
        for figure in self.own_faults():
            yield f"{figure.state.upper()}: {figure.provider}, {figure.case}: {figure.reason}"
        yield from dict.fromkeys(f"{f.provider}: {f.reason}" for f in self.figures if f.state == "missing")
        if self.store is not None:
            yield f"{self.recorded} records kept in {self.store}."

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "environment": self.environment.model_dump(mode="json"),
            "seed": self.seed,
            "rounds": self.rounds,
            "floors_us": [{"case": name, "us": us} for (_, name), us in self.floors.items()],
            "figures": [figure.to_dict() for figure in self.figures],
        }
