"""One run of ``workbench bench attention``: its steps, its figures and its records. Needs a GPU and torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from workbench.measure import attention, environment, map_build
from workbench.measure.attention_case import AttentionCase
from workbench.measure.clocks import ClocksUnreadable, Reader
from workbench.measure.compare import Outcome
from workbench.measure.figures import ATTENTION, LARGE_MAP, TASK_MAP, Figure, floor_us, known_gpu, stored_figures
from workbench.measure.map_build import MapBuild, measure_map
from workbench.measure.recording import figure_of, record_of
from workbench.measure.tables import THROTTLED, case_table
from workbench.measure.timing import GraphTimer, Timer
from workbench.records import Environment, Store, Workload
from workbench.schedule import resolve
from workbench.workloads import workload as lengths_of

OWN = ("cuda", "triton")
MAP_POLICIES = ("balanced", "hpc-ops")
MAP_CTAS_PER_SM = (1, 4)


class Shown(NamedTuple):
    """What is printed when a case is finished."""

    title: str
    table: Table


Step = Callable[[], Shown | None]


@dataclass
class Session:
    """What a run measures with, and what it found so far.

    Attributes
    ----------
    settings : attention.Settings
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

    settings: attention.Settings
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
    def here(cls, settings: attention.Settings, records: str) -> Session:
        """A run on torch's current GPU.

        Parameters
        ----------
        settings
        records
            Folder of a store, "own", or "none".
        """
        digests = environment.source_digests()  # before compiling: a later edit would not be what was measured
        read_clocks, problem = None, ""
        try:
            read_clocks = environment.clocks_here()
        except ClocksUnreadable as error:
            problem = str(error)
        store = None if records == "none" else Store() if records == "own" else Store(Path(records))
        return cls(
            settings,
            environment.environment_here(),
            GraphTimer(),
            read_clocks,
            store,
            Store(),
            digests,
            clocks_problem=problem,
        )

    def steps(self, batches: Sequence[AttentionCase], what: Sequence[str]) -> Iterator[Step]:
        """What there is to do, in order; each step measures one case and keeps its records before it returns."""
        yield lambda: attention.compile_for(batches)
        if "attention" in what:
            for case in batches:
                yield lambda case=case: self.attend(case)  # type: ignore[misc]
        if "map" in what:
            names = {case.name: case for case in batches}
            names.setdefault(LARGE_MAP, AttentionCase(LARGE_MAP, lengths_of(LARGE_MAP)))
            for case in names.values():
                yield lambda case=case: self.map(case)  # type: ignore[misc]

    def attend(self, case: AttentionCase) -> Shown:
        """Measure attention on one case."""
        sms = self.environment.sms or 1
        providers = attention.providers_of(case, self.settings, self.environment.gpu, sms)
        result = attention.measure(case, providers, self.settings, self.timer, self.read_clocks, self.device)
        gpu = known_gpu(self.environment.gpu)
        if gpu is not None:
            self.floors[case.cache, case.name] = floor_us(case.kv_bytes, case.operations, gpu)
        title = f"{case.name}, {case.cache} cache: {case.kv_bytes / 1e6:.1f} MB of K and V, {result.sets} input sets"
        return self._keep(case, result.outcomes, case.workload, ATTENTION, title)

    def map(self, case: AttentionCase) -> Shown:
        """Measure the building of one case's map."""
        sms = self.environment.sms or 1
        builds = [MapBuild(case, resolve(policy), sms * ctas) for policy in MAP_POLICIES for ctas in MAP_CTAS_PER_SM]
        outcomes = measure_map(case, builds, self.timer, self.read_clocks, self.settings.rounds)
        return self._keep(case, outcomes, case.map_workload, TASK_MAP, f"Task map of {case.name}")

    def _keep(
        self, case: AttentionCase, outcomes: list[Outcome], workload: Workload, operator: str, title: str
    ) -> Shown:
        self.clocks_problem = next((o.clocks.problem for o in outcomes if o.clocks.problem), self.clocks_problem)
        measured = [figure_of(outcome, workload, self.environment, operator=operator) for outcome in outcomes]
        if self.store is not None:
            is_map = operator == TASK_MAP
            how: dict[str, Any] = {
                "operator": operator,
                "method": map_build.METHOD if is_map else attention.METHOD,
                "seed": None if is_map else self.settings.seed,
                "digests": self.digests,
            }
            for outcome in outcomes:
                record = record_of(outcome, workload, self.environment, **how)
                if record is not None:
                    self.store.add(record)
                    self.recorded += 1
        beside = self._references(case, operator)
        self.figures += measured + beside
        floor = self.floors.get((case.cache, case.name)) if operator == ATTENTION else None
        return Shown(title, case_table(measured + beside, floor))

    def _references(self, case: AttentionCase, operator: str) -> list[Figure]:
        if self.references is None:
            return []
        return stored_figures(
            self.references,
            operator=operator,
            gpu=self.environment.gpu,
            cases=[case.name],
            dtypes=[case.cache],
            kinds=["reference"],
        )

    def own_faults(self) -> list[Figure]:
        """Figures of our own kernels that are wrong or failed."""
        return [f for f in self.figures if f.provider in OWN and f.state in ("wrong", "failed")]

    def remarks(self) -> Iterator[str]:
        """What the reader of the table has to know, a line each."""
        yield f"\n* fastest measured here. Seed {self.settings.seed}, {self.settings.rounds} replays."
        throttled = [f for f in self.figures if f.throttled]
        if throttled:
            reasons = dict.fromkeys(reason for f in throttled for reason in f.throttled)
            cases = dict.fromkeys(f"{f.case} {f.dtype}".strip() for f in throttled)
            yield f"{THROTTLED} (marked !): {', '.join(reasons)} held the clocks down during {', '.join(cases)}."
        if self.clocks_problem:
            yield f"Clocks were not read, or not always, so throttling could go unnoticed. {self.clocks_problem}"
        for figure in self.own_faults():
            what = " ".join(filter(None, (figure.provider, figure.policy, figure.variant)))
            yield f"{figure.state.upper()}: {what}, {figure.case} {figure.dtype}: {figure.reason}"
        missing = dict.fromkeys(f"{f.provider}: {f.reason}" for f in self.figures if f.state == "missing")
        yield from missing
        if self.store is not None:
            yield f"{self.recorded} records kept in {self.store}."

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "environment": self.environment.model_dump(mode="json"),
            "seed": self.settings.seed,
            "rounds": self.settings.rounds,
            "floors_us": [{"cache": c, "case": n, "us": us} for (c, n), us in self.floors.items()],
            "figures": [figure.to_dict() for figure in self.figures],
        }
