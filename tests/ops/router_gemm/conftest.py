"""Kernels compiled ahead on all cores."""

from __future__ import annotations

import pytest

from tests.ops.router_gemm import cases, mutants
from workbench.gpu.ahead import compile_ahead


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
