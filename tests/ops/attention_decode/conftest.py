"""Kernels compiled ahead on all cores, and the worst errors in the summary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.ops.attention_decode import cases, mutants
from workbench.gpu.ahead import compile_ahead

_ERRORS = "attention errors"


@pytest.fixture(scope="session")
def compiled(request: pytest.FixtureRequest) -> None:
    """The kernels of the tests that were selected, compiled in parallel: they dominate the time of the suite."""
    jobs = [case.job for case in mutants.CASES]
    for item in request.session.items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if isinstance(case := parameters.get("case"), cases.Case):
            jobs.append(case.job)
        if isinstance(mutant := parameters.get("mutant"), mutants.Mutant):
            jobs.extend(mutant.job(case) for case in mutants.CASES)
    compile_ahead(list({(job.source, tuple(job.defines.items())): job for job in jobs}.values()))


@pytest.fixture
def record_errors(record_property: Callable[[str, object], None]) -> Callable[[str, float, float], None]:
    """Put a relative error and an LSE error under a precision into the summary at the end of the run."""

    def record(precision: str, rel_error: float, lse_error: float) -> None:
        record_property(_ERRORS, [precision, rel_error, lse_error])

    return record


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the worst errors against float64 by precision."""
    seen: dict[str, list[tuple[float, float]]] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", ()) if report.when == "call" else ():
                if name == _ERRORS:
                    seen.setdefault(value[0], []).append((value[1], value[2]))
    if not seen:
        return
    terminalreporter.section("decode attention: worst errors against float64")
    for precision, errors in sorted(seen.items()):
        rel, lse = (max(column) for column in zip(*errors, strict=True))
        limit = cases.LIMITS[precision]
        terminalreporter.line(
            f"{precision:30s} {len(errors):4d} cases   relative {rel:.2e} (limit {limit})   LSE {lse:.2e}"
        )
