"""What the arithmetic of the router changes: errors of the scores, and through top-k the experts of tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from workbench.errors import InvalidArgument
from workbench.measure.precision_arms import ARMS, scores, some_rows, where_run
from workbench.measure.precision_routing import Routed, check_router, route
from workbench.ops.router_gemm import router_reference
from workbench.tables import RouterModel

Counts = npt.NDArray[np.int64]

BINS_A_DECADE = 10
LOWEST, HIGHEST = -12, 2
"""Powers of ten that the histograms span; what lies outside counts in the first or last bin, exact zeros in none."""

EDGES: npt.NDArray[np.float64] = np.logspace(LOWEST, HIGHEST, (HIGHEST - LOWEST) * BINS_A_DECADE + 1)
QUANTILES = (0.5, 0.99, 1.0)

MAX_SCORES = 1 << 25
"""Scores, tokens times experts, that are compared at once: 268 MB in float64."""


@dataclass(frozen=True, eq=False)
class ArmReport:
    """One arm against float64.

    Attributes
    ----------
    arm, title : str
    rel_error : float
        Norm of the difference over the norm of float64's scores.
    quantiles : dict of float to float
        Of the absolute error of a score over the root mean square of all scores.
    errors : numpy.ndarray
        int64 [bins]: histogram of the same over `EDGES`.
    exact : int
        Scores without any error.
    choice_error : float
        Root mean square error of what top-k compares; margins of this size are at risk.
    changed : int
        Tokens whose set of experts differs.
    moved : int
        Tokens of which some expert's weight moved by more than the bound; an expert that is lost or gained moves by its
        whole weight.
    tokens : int
    """

    arm: str
    title: str
    rel_error: float
    quantiles: dict[float, float]
    errors: Counts
    exact: int
    choice_error: float
    changed: int
    moved: int
    tokens: int

    @property
    def changed_share(self) -> float:
        """Share of the tokens whose set of experts differs."""
        return self.changed / self.tokens

    @property
    def moved_share(self) -> float:
        """Share of the tokens whose weights moved by more than the bound."""
        return self.moved / self.tokens

    def changed_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval of the share that differs, as of tokens drawn from the same distribution (Wilson 1927)."""
        return wilson(self.changed, self.tokens, level)


@dataclass(frozen=True, eq=False)
class PrecisionView:
    """What each arithmetic does to one router on one set of tokens.

    Attributes
    ----------
    router : RouterModel
    data : str
        What the activations and weights are, in words.
    computed : str
        "emulated on a CPU" or "run on ...".
    tokens : int
    weight_bound : float
        Bound of `ArmReport.moved`.
    margins, group_margins : numpy.ndarray
        int64 [bins] over `EDGES`: how far the k-th expert, or the last group taken, lies above the next, by float64.
        The second is None without groups.
    ties : int
        Tokens whose margin is 0 in float64.
    arms : dict of str to ArmReport
    """

    router: RouterModel
    data: str
    computed: str
    tokens: int
    weight_bound: float
    margins: Counts
    group_margins: Counts | None
    ties: int
    arms: dict[str, ArmReport]

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain data."""
        arms = {}
        for name, report in self.arms.items():
            low, high = report.changed_interval()
            arms[name] = {
                **asdict(report),
                "errors": report.errors.tolist(),
                "changed_share": report.changed_share,
                "changed_low": low,
                "changed_high": high,
                "moved_share": report.moved_share,
            }
        return {
            "router": asdict(self.router),
            "data": self.data,
            "computed": self.computed,
            "tokens": self.tokens,
            "weight_bound": self.weight_bound,
            "edges": EDGES.tolist(),
            "margins": self.margins.tolist(),
            "group_margins": None if self.group_margins is None else self.group_margins.tolist(),
            "ties": self.ties,
            "arms": arms,
        }


def precision_view(
    x: torch.Tensor,
    weight: torch.Tensor,
    router: RouterModel,
    *,
    bias: torch.Tensor | None = None,
    arms: Iterable[str] = tuple(ARMS),
    weight_bound: float = 1e-3,
    data: str = "given tensors",
    kernel: str | None = None,
) -> PrecisionView:
    """Compare arms with float64 on the same activations and weights.

    Parameters
    ----------
    x
        bf16 [T, K], on a CPU (arms are emulated) or a GPU (arms are run).
    weight
        float32 [N, K], contiguous, on the same device.
    router
        How experts are chosen; its k and n are those of the weight.
    bias
        [N], for the choice only.
    arms
        Names of `workbench.measure.precision_arms.ARMS`.
    weight_bound
        Shift of an expert's weight that counts.
    data
        What the tensors are, for the label.
    kernel
        As in `workbench.measure.precision_arms.scores`.

    Raises
    ------
    InvalidArgument
        Types, shapes or devices do not fit, a value or a score of some arm is not finite, or there are more scores than
        `MAX_SCORES`.
    """
    names = _names(arms)
    _check(x, weight, router, bias, weight_bound)
    x, weight = x.detach(), weight.detach()
    bias = bias if bias is None else bias.detach().to(x.device)
    exact = torch.cat([router_reference(part, weight) for part in some_rows(x)])
    truth = route(exact, router, bias)
    size = float(exact.square().mean().sqrt())
    if size == 0:
        raise InvalidArgument("every score is 0, so no error can be relative to it; give other activations or weights")
    reports = {
        name: _report(name, scores(name, x, weight, kernel=kernel), exact, size, truth, router, bias, weight_bound)
        for name in names
    }
    groups = truth.group_margin
    return PrecisionView(
        router=router,
        data=data,
        computed=where_run(x.device) if kernel is None else f"{where_run(x.device)}, split arms by {kernel}",
        tokens=x.shape[0],
        weight_bound=weight_bound,
        margins=histogram(truth.margin),
        group_margins=None if groups is None else histogram(groups),
        ties=int((truth.margin == 0).sum()),
        arms=reports,
    )


def histogram(values: torch.Tensor) -> Counts:
    """Counts over `EDGES`, int64 [bins]; zeros and infinities are left out, others beyond the ends are moved in."""
    array = values.abs().flatten().cpu().numpy()
    array = array[(array > 0) & np.isfinite(array)]
    inside = np.clip(array, EDGES[0], np.nextafter(EDGES[-1], 0))
    place = np.searchsorted(EDGES, inside, side="right") - 1
    counts: Counts = np.bincount(place, minlength=EDGES.size - 1).astype(np.int64)
    return counts


def wilson(count: int, total: int, level: float = 0.95) -> tuple[float, float]:
    """Score interval of a share (Wilson 1927); it is right for counts of 0, too."""
    from statistics import NormalDist

    z = NormalDist().inv_cdf((1 + level) / 2)
    share = count / total
    centre = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def _names(arms: Iterable[str]) -> tuple[str, ...]:
    names = (arms,) if isinstance(arms, str) else tuple(dict.fromkeys(arms)) if isinstance(arms, Iterable) else ()
    if unknown := [str(name) for name in names if name not in ARMS]:
        raise InvalidArgument(f"arms {', '.join(unknown)} are not known; give some of {', '.join(ARMS)}")
    if not names:
        raise InvalidArgument(f"arms are {arms!r}; give some of {', '.join(ARMS)}")
    return names


def _check(
    x: torch.Tensor,
    weight: torch.Tensor,
    router: RouterModel,
    bias: torch.Tensor | None,
    weight_bound: float,
) -> None:
    check_router(router, bias)
    for name, tensor in (("x", x), ("weight", weight)):
        if not isinstance(tensor, torch.Tensor):
            raise InvalidArgument(f"{name} is a {type(tensor).__name__}; give a torch tensor")
    if x.ndim != 2 or x.dtype != torch.bfloat16 or x.shape[0] == 0:
        raise InvalidArgument(f"x is {x.dtype} {tuple(x.shape)}; give torch.bfloat16 [tokens, {router.k}]")
    if tuple(weight.shape) != (router.n, router.k) or x.shape[1] != router.k:
        raise InvalidArgument(
            f"x has shape {tuple(x.shape)} and weight {tuple(weight.shape)}; {router.name} has [tokens, {router.k}] "
            f"and [{router.n}, {router.k}]"
        )
    if x.shape[0] * router.n > MAX_SCORES:
        raise InvalidArgument(
            f"{x.shape[0]:,} tokens of {router.n} experts are {x.shape[0] * router.n:,} scores; give at most "
            f"{MAX_SCORES // router.n:,} tokens"
        )
    for name, tensor in (("x", x), ("weight", weight)):
        if not tensor.isfinite().all():
            raise InvalidArgument(f"{name} holds infinite numbers or NaN; give finite ones")
    if not isinstance(weight_bound, float | int) or not 0 < weight_bound < 1:
        raise InvalidArgument(f"weight_bound={weight_bound!r}; give a share of the weights between 0 and 1")


def _report(
    name: str,
    computed: torch.Tensor,
    exact: torch.Tensor,
    size: float,
    truth: Routed,
    router: RouterModel,
    bias: torch.Tensor | None,
    weight_bound: float,
) -> ArmReport:
    if not computed.isfinite().all():
        raise InvalidArgument(
            f"{ARMS[name].title}: some scores are not finite; the numbers given leave the range of {computed.dtype} or "
            "of the terms. Scale them, or leave this arm out"
        )
    difference = (computed.double() - exact).abs()
    routed = route(computed, router, bias)
    same = truth.experts.sort(dim=1).values == routed.experts.sort(dim=1).values
    moved = (routed.weights - truth.weights).abs().amax(dim=1) > weight_bound
    ordered = difference.flatten().sort().values
    last = ordered.numel() - 1
    return ArmReport(
        arm=name,
        title=ARMS[name].title,
        rel_error=float(difference.norm() / exact.norm()),
        # the smallest value that so many do not exceed
        quantiles={q: float(ordered[max(0, math.ceil(q * (last + 1)) - 1)]) / size for q in QUANTILES},
        errors=histogram(difference / size),
        exact=int((difference == 0).sum()),
        choice_error=float((routed.choice - truth.choice).square().mean().sqrt()),
        changed=int((~same.all(dim=1)).sum()),
        moved=int(moved.sum()),
        tokens=exact.shape[0],
    )
