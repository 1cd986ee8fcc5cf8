"""One run of ``workbench bench attention``: its steps, its figures and its records. Needs a GPU and torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.cli.bench_session import BenchSession, Shown, Step, tools_here
from workbench.measure import attention, map_build
from workbench.measure.attention_case import AttentionCase
from workbench.measure.compare import Outcome
from workbench.measure.figures import ATTENTION, LARGE_MAP, TASK_MAP, Figure, floor_us, known_gpu
from workbench.measure.map_build import MapBuild, measure_map
from workbench.measure.tables import case_table
from workbench.records import Workload
from workbench.schedule import resolve
from workbench.workloads import workload as lengths_of

MAP_POLICIES = ("balanced", "hpc-ops")
MAP_CTAS_PER_SM = (1, 4)


@dataclass
class Session(BenchSession):
    """A run of attention and of its map; see `BenchSession` for the rest.

    Attributes
    ----------
    settings : attention.Settings
    """

    settings: attention.Settings

    @classmethod
    def here(cls, settings: attention.Settings, records: str) -> Session:
        """A run on torch's current GPU.

        Parameters
        ----------
        settings
        records
            Folder of a store, "own", or "none".
        """
        return cls(settings, **tools_here(records))

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
        is_map = operator == TASK_MAP
        how = {
            "method": map_build.METHOD if is_map else attention.METHOD,
            "seed": None if is_map else self.settings.seed,
        }
        shown = self.keep(outcomes, workload, operator, how) + self.reference_figures(operator, case.name, case.cache)
        self.figures += shown
        floor = self.floors.get((case.cache, case.name)) if operator == ATTENTION else None
        return Shown(title, case_table(shown, floor))

    def case_of(self, figure: Figure) -> str:
        """Case and dtype."""
        return f"{figure.case} {figure.dtype}".strip()

    def who(self, figure: Figure) -> str:
        """Provider, policy and variant."""
        return " ".join(filter(None, (figure.provider, figure.policy, figure.variant)))

    def remarks(self) -> Iterator[str]:
        """What the reader of the table has to know, a line each."""
        yield f"\n* fastest measured here. Seed {self.settings.seed}, {self.settings.rounds} replays."
        yield from self.told()

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "environment": self.environment.model_dump(mode="json"),
            "seed": self.settings.seed,
            "rounds": self.settings.rounds,
            "floors_us": [{"cache": c, "case": n, "us": us} for (c, n), us in self.floors.items()],
            "figures": [figure.to_dict() for figure in self.figures],
        }
