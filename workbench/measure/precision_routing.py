"""From router scores to experts: softmax or sigmoid, a bias for the choice only, groups, top-k.

Everything here is float64 and exact in what it decides, so that a difference between two arms comes from their scores.
Equal scores go to the lower expert; engines leave that order open.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from workbench.errors import InvalidArgument
from workbench.tables import RouterModel

BEST_OF_GROUP = 2
"""A group is ranked by the sum of so many of its best scores (DeepSeek-V3)."""


@dataclass(frozen=True)
class Routed:
    """Where tokens go.

    Attributes
    ----------
    experts : torch.Tensor
        int64 [T, k], best first.
    weights : torch.Tensor
        float64 [T, N]; 0 for an expert that was not chosen.
    choice : torch.Tensor
        float64 [T, N]: what was compared, the score and its bias.
    margin : torch.Tensor
        float64 [T]: how far the k-th expert lies above the next that could be taken; infinite where there is none.
    group_margin : torch.Tensor or None
        float64 [T]: the same of the groups; None without groups.
    """

    experts: torch.Tensor
    weights: torch.Tensor
    choice: torch.Tensor
    margin: torch.Tensor
    group_margin: torch.Tensor | None


def check_router(router: RouterModel, bias: torch.Tensor | None) -> None:
    """Refuse a router that cannot choose.

    Raises
    ------
    InvalidArgument
        Groups do not divide the experts, there are fewer experts than top_k, or the bias is of another shape.
    """
    if not isinstance(router, RouterModel):
        raise InvalidArgument(f"router is {router!r}; give a RouterModel, such as workbench.tables.MODELS['hy3']")
    if not all(isinstance(size, int) for size in (router.n, router.top_k, router.groups, router.top_groups)):
        raise InvalidArgument(f"{router} has sizes that are no whole numbers")
    per_group = router.n // router.groups if router.groups else 0
    if router.groups < 1 or router.n % router.groups or not 1 <= router.top_groups <= router.groups:
        raise InvalidArgument(
            f"{router.n} experts in {router.groups} groups, the best {router.top_groups} taken; give groups that "
            "divide the experts, and no more than there are"
        )
    if router.groups > 1 and per_group < BEST_OF_GROUP:
        raise InvalidArgument(f"groups of {per_group}; a group is ranked by its {BEST_OF_GROUP} best, give larger ones")
    if not 1 <= router.top_k <= per_group * router.top_groups:
        raise InvalidArgument(
            f"top_k is {router.top_k}, and {per_group * router.top_groups} experts can be taken; give 1 to that"
        )
    if router.scoring not in ("softmax", "sigmoid"):
        raise InvalidArgument(f"scoring is {router.scoring!r}; give softmax or sigmoid")
    if bias is None:
        return
    if not isinstance(bias, torch.Tensor):
        raise InvalidArgument(f"the bias is a {type(bias).__name__}; give a tensor [{router.n}], as load_bias does")
    if tuple(bias.shape) != (router.n,) or not bias.isfinite().all():
        raise InvalidArgument(f"the bias has shape {tuple(bias.shape)}; give {router.n} finite numbers")


def route(logits: torch.Tensor, router: RouterModel, bias: torch.Tensor | None = None) -> Routed:
    """Choose experts.

    Parameters
    ----------
    logits
        [T, N], the product of activations and weight, in any floating type.
    router
        top_k, scoring, groups and whether weights are normalized.
    bias
        [N], added to the scores for the choice only.

    Raises
    ------
    InvalidArgument
        As `check_router`, or the logits have another number of experts.
    """
    check_router(router, bias)
    if logits.ndim != 2 or logits.shape[1] != router.n:
        raise InvalidArgument(f"logits have shape {tuple(logits.shape)}; give [tokens, {router.n}]")
    wide = logits.double()
    probability = wide.softmax(dim=1) if router.scoring == "softmax" else wide.sigmoid()
    choice = probability if bias is None else probability + bias.double()
    open_to = choice
    group_margin = None
    if router.groups > 1:
        grouped = choice.view(-1, router.groups, router.n // router.groups)
        rank = grouped.topk(BEST_OF_GROUP, dim=2).values.sum(dim=2)
        best, order = rank.sort(dim=1, descending=True, stable=True)
        taken = torch.zeros_like(rank, dtype=torch.bool).scatter_(1, order[:, : router.top_groups], True)
        open_to = grouped.masked_fill(~taken[:, :, None], -torch.inf).flatten(1)
        if router.top_groups < router.groups:
            group_margin = best[:, router.top_groups - 1] - best[:, router.top_groups]
    values, order = open_to.sort(dim=1, descending=True, stable=True)
    experts = order[:, : router.top_k]
    if router.top_k < router.n:
        margin = values[:, router.top_k - 1] - values[:, router.top_k]
    else:
        margin = torch.full_like(values[:, 0], torch.inf)
    gathered = probability.gather(1, experts)
    if router.normalize:
        total = gathered.sum(dim=1, keepdim=True)
        gathered = gathered / torch.where(total > 0, total, 1.0)  # scores so low that each sigmoid is 0 in float64
    weights = torch.zeros_like(probability).scatter_(1, experts, gathered)
    return Routed(experts, weights, choice, margin, group_margin)
