"""One run of ``workbench bench router``: its steps, its figures and its records. Needs a GPU and torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.cli.bench_session import BenchSession, Shown, Step, tools_here
from workbench.gpu.ahead import compile_ahead
from workbench.measure import router
from workbench.measure.figures import ROUTER, floor_us, known_gpu
from workbench.measure.router_case import RouterCase
from workbench.measure.tables import LEAST_EXACT, case_table


@dataclass
class RouterSession(BenchSession):
    """A run of the router GEMM; see `BenchSession` for the rest.

    Attributes
    ----------
    providers : tuple of str
        Of :data:`workbench.measure.router_case.PROVIDERS`.
    rounds, seed : int
        Timed replays; seed of the inputs.
    """

    providers: tuple[str, ...]
    rounds: int
    seed: int

    @classmethod
    def here(cls, providers: tuple[str, ...], rounds: int, seed: int, records: str) -> RouterSession:
        """A run on torch's current GPU; ``records``: folder of a store, "own", or "none"."""
        return cls(providers, rounds, seed, **tools_here(records))

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
        shown = self.keep(outcomes, case.workload, ROUTER, {"method": router.METHOD, "seed": self.seed})
        shown += self.reference_figures(ROUTER, case.name, "bf16")
        self.figures += shown
        gpu = known_gpu(self.environment.gpu)
        if gpu is not None:
            self.floors["bf16", case.name] = floor_us(case.input_bytes, case.operations, gpu)
        title = f"{case.name}: {case.input_bytes / 1e6:.1f} MB of activations and weights, {sets} input sets"
        return Shown(title, case_table(shown, self.floors.get(("bf16", case.name))))

    def remarks(self) -> Iterator[str]:
        """What the reader of the table has to know, a line each."""
        yield f"\n* fastest measured here of those within {LEAST_EXACT:g} of float64."
        yield f"Seed {self.seed}, {self.rounds} replays."
        yield from self.told()

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "environment": self.environment.model_dump(mode="json"),
            "seed": self.seed,
            "rounds": self.rounds,
            "floors_us": [{"case": name, "us": us} for (_, name), us in self.floors.items()],
            "figures": [figure.to_dict() for figure in self.figures],
        }
