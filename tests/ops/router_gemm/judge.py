"""Runs a case on the GPU and compares with float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tests.ops.router_gemm.cases import SENTINEL, Case
from workbench.ops.router_gemm import RouterWeight, router_gemm, router_reference
from workbench.ops.router_gemm.weight import SCALE

GUARD_ROWS = 16
WORST_FACTOR = 12
"""Largest error of one score over the root mean square error allowed: normal deviates of 10^7 scores stay below 6."""


@dataclass(frozen=True)
class Verdict:
    """How far off a result is.

    Attributes
    ----------
    rel_error : float
        Norm of the error over the norm of the scores, against float64 on the FP32 weight.
    term_error : float
        The same against float64 on the terms of the weight: the error of the arithmetic alone.
    complaints : tuple of str
        Empty for a right result.
    """

    rel_error: float
    term_error: float
    complaints: tuple[str, ...]


def summed_terms(weight: RouterWeight) -> torch.Tensor:
    """What the terms stand for, in float64."""
    scale = SCALE ** -torch.arange(weight.num_terms, dtype=torch.float64, device=weight.terms.device)
    return (weight.terms.double() * scale[:, None, None]).sum(0)


def judge(y: torch.Tensor, x: torch.Tensor, weight: RouterWeight, limit: float) -> Verdict:
    """Compare scores with float64; ``limit`` is for the relative error."""
    if y.numel() == 0:
        return Verdict(0.0, 0.0, ())
    by_weight, by_terms = router_reference(x, weight.weight), router_reference(x, summed_terms(weight))
    complaints = []
    if not bool(y.isfinite().all()):
        complaints.append(f"{int((~y.isfinite()).sum())} of {y.numel()} scores are not finite")
    rel_error, term_error = (float((y.double() - r).norm() / r.norm()) for r in (by_weight, by_terms))
    against = rel_error if weight.rounding == "nearest" else term_error
    if not against <= limit:
        complaints.append(f"relative error {against:.2e} > {limit:.1e}")
    # One wrong score among many hides in the norm.
    allowed = WORST_FACTOR * limit * float(by_terms.square().mean().sqrt())
    worst = (y.double() - by_terms).abs().max()
    if not float(worst) <= allowed:
        at = divmod(int((y.double() - by_terms).abs().nan_to_num(torch.inf).argmax()), y.shape[1])
        complaints.append(f"score {at} is off by {float(worst):.2e}, more than {allowed:.2e}")
    return Verdict(rel_error, term_error, tuple(complaints))


def guarded(m: int, n: int, dtype: torch.dtype, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory for scores filled with NaN, inside memory that must stay as it is."""
    whole = torch.full((m + 2 * GUARD_ROWS, n), SENTINEL, dtype=dtype, device=device)
    out = whole[GUARD_ROWS : GUARD_ROWS + m]
    out.fill_(torch.nan)
    return out, whole


def try_case(case: Case, device: str = "cuda") -> Verdict:
    """Run a case twice, for the second call takes the weights early, and judge both."""
    x, weight = case.inputs(device)
    out, whole = guarded(case.m, case.n, case.out_dtype, device)
    complaints: list[str] = []
    results = []
    verdict = Verdict(0.0, 0.0, ())
    for _ in range(2):
        out.fill_(torch.nan)
        y = router_gemm(x, weight, provider="cuda", config=case.config, out=out, out_dtype=case.out_dtype)
        results.append(y.clone())
        verdict = judge(y, x, weight, case.limit)
        complaints.extend(verdict.complaints)
    if not torch.equal(results[0].nan_to_num(), results[1].nan_to_num()):
        complaints.append("two runs differ")
    expected = torch.tensor(SENTINEL, dtype=case.out_dtype)
    before, after = whole[:GUARD_ROWS], whole[GUARD_ROWS + case.m :]
    if not (bool((before == expected.item()).all()) and bool((after == expected.item()).all())):
        complaints.append("memory outside out was written")
    return Verdict(verdict.rel_error, verdict.term_error, tuple(complaints))
