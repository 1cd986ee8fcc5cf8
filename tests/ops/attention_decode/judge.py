"""Decides whether a result of decode attention is right, and how large its errors are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tests.ops.attention_decode.cases import LIMITS, Case
from workbench.measure.attention_inputs import AttentionInputs
from workbench.ops.attention_decode import TaskMap, attention_decode, attention_reference

REQUEST_SHARE = 2.0
"""The rows of one request may err by this much more than a whole batch: fewer roundings average out."""

LSE_LIMIT = 1e-3
"""Largest error of an LSE, over the larger of 1 and its size."""

GUARD = 4096  # elements before and behind the output that must stay as they were


@dataclass(frozen=True)
class Verdict:
    """Errors against float64 and, in words, everything that is wrong."""

    rel_error: float
    lse_error: float
    complaints: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.complaints


@dataclass(frozen=True)
class Reference:
    """What a call should give."""

    out: torch.Tensor
    lse: torch.Tensor

    @classmethod
    def of(cls, inputs: AttentionInputs) -> Reference:
        return cls(*attention_reference(*inputs.arguments(), **inputs.keywords()))


def relative(error: torch.Tensor, size: torch.Tensor) -> float:
    """Norm of an error over the norm of what it is an error of; the error's own norm where that is zero."""
    norm = float(size.norm())
    return float(error.norm()) / norm if norm > 0 else float(error.norm())


def judge(out: torch.Tensor, lse: torch.Tensor | None, reference: Reference, q_len: int, limit: float) -> Verdict:
    """Compare with float64: the batch, each request by itself, each LSE, and what must be exactly zero or -inf."""
    complaints = []
    expected, expected_lse = reference.out, reference.lse
    nans = int(torch.isnan(out).sum())
    if nans:
        complaints.append(f"{nans} NaN in the output")
    error = out.double() - expected
    rel = relative(error, expected)
    if not rel <= limit:
        complaints.append(f"relative error {rel:.3g} exceeds {limit}")
    if out.shape[0]:
        errors = error.reshape(out.shape[0] // q_len, -1).norm(dim=1)
        norms = expected.reshape(out.shape[0] // q_len, -1).norm(dim=1)
        wrong = ~(errors <= REQUEST_SHARE * limit * norms)
        if bool(wrong.any()):
            at = int(torch.nonzero(wrong)[0])
            complaints.append(
                f"{int(wrong.sum())} requests beyond {REQUEST_SHARE * limit:.3g}, first request {at}: "
                f"{float(errors[at] / norms[at]):.3g}"
            )
    unseen = torch.isinf(expected_lse)
    if bool((out[unseen] != 0).any()):
        complaints.append("rows that see no key are not zero")
    lse_error = 0.0
    if lse is not None:
        if bool((lse[unseen] != -torch.inf).any()):
            complaints.append("LSE of rows that see no key is not -inf")
        seen = expected_lse[~unseen]
        if seen.numel():
            lse_error = float(((lse[~unseen].double() - seen).abs() / seen.abs().clamp_min(1.0)).max())
            if not lse_error <= LSE_LIMIT:
                complaints.append(f"LSE error {lse_error:.3g} exceeds {LSE_LIMIT}")
    return Verdict(rel, lse_error, tuple(complaints))


def room_is_empty(task_map: TaskMap) -> bool:
    """Whether all room for partial results says that nothing is there, as it must between launches."""
    rooms = [room for pair in task_map._partials.values() for room in pair]
    return all(bool((room == -1).all()) for room in rooms)


def run(
    case: Case, inputs: AttentionInputs, task_map: TaskMap, *, calls: int = 1, **keywords: Any
) -> tuple[torch.Tensor, torch.Tensor, list[str]]:
    """Call the operator with poisoned outputs; returns output, LSE and what else went wrong."""
    size = inputs.q.numel()
    around = torch.full((size + 2 * GUARD,), torch.nan, dtype=torch.bfloat16, device=inputs.q.device)
    out = around[GUARD : GUARD + size].view(inputs.q.shape)
    for _ in range(calls):
        out.fill_(torch.nan)
        # The operator allocates the LSE, most likely where this was.
        torch.full(inputs.q.shape[:2], torch.nan, dtype=torch.float32, device=inputs.q.device)
        _, lse = attention_decode(
            *inputs.arguments(),
            **inputs.keywords(),
            task_map=task_map,
            config=case.used_config,
            out=out,
            return_lse=True,
            **keywords,
        )
    complaints = []
    if not room_is_empty(task_map):
        complaints.append("partial results were left behind")
    if not bool(torch.isnan(around[:GUARD]).all() and torch.isnan(around[GUARD + size :]).all()):
        complaints.append("something was written outside the output")
    return out, lse, complaints


def try_case(case: Case, inputs: AttentionInputs | None = None, reference: Reference | None = None) -> Verdict:
    """Run a case twice on one map and judge the second result."""
    inputs = inputs or case.inputs()
    out, lse, complaints = run(case, inputs, case.task_map(inputs), calls=2)
    verdict = judge(out, lse, reference or Reference.of(inputs), case.q_len, LIMITS[case.precision])
    return Verdict(verdict.rel_error, verdict.lse_error, (*verdict.complaints, *complaints))
