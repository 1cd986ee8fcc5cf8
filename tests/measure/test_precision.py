"""The precision view against loops over tokens and experts in float64."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from workbench.errors import InvalidArgument
from workbench.measure.precision import EDGES, histogram, precision_view, wilson
from workbench.measure.precision_arms import ARMS, scores
from workbench.measure.precision_routing import route
from workbench.measure.precision_synthetic import SPREADS, synthetic
from workbench.tables import MODELS, RouterModel

ROUTERS = [
    RouterModel(name="softmax", k=64, n=32, top_k=4, layers=1, scoring="softmax"),
    RouterModel(name="sigmoid", k=64, n=32, top_k=4, layers=1, scoring="sigmoid", biased=True),
    RouterModel(name="all", k=64, n=32, top_k=32, layers=1, scoring="softmax", normalize=False),
    RouterModel(name="groups", k=64, n=32, top_k=4, layers=1, scoring="sigmoid", biased=True, groups=8, top_groups=3),
    RouterModel(name="one group", k=64, n=32, top_k=8, layers=1, scoring="softmax", groups=4, top_groups=1),
]


TOKENS = 2000


def by_hand(logits, router, bias):
    """Experts, weights and margins of one token, in plain Python."""
    if router.scoring == "sigmoid":
        score = [1 / (1 + math.exp(-value)) for value in logits]
    else:
        largest = max(logits)
        powers = [math.exp(value - largest) for value in logits]
        score = [power / math.fsum(powers) for power in powers]
    choice = [
        s + (0 if bias is None else b) for s, b in zip(score, [0] * len(score) if bias is None else bias, strict=True)
    ]
    size = router.n // router.groups
    ranks = [(sum(sorted(choice[g * size : (g + 1) * size])[-2:]), -g) for g in range(router.groups)]
    order = sorted(ranks, reverse=True)
    taken = {-g for _, g in order[: router.top_groups]} if router.groups > 1 else {0}
    open_to = [i for i in range(router.n) if router.groups == 1 or i // size in taken]
    best = sorted(open_to, key=lambda i: (-choice[i], i))
    experts = best[: router.top_k]
    margin = choice[best[router.top_k - 1]] - choice[best[router.top_k]] if len(best) > router.top_k else math.inf
    group = order[router.top_groups - 1][0] - order[router.top_groups][0] if router.groups > router.top_groups else None
    total = math.fsum(score[i] for i in experts) if router.normalize else 1.0
    return experts, {i: score[i] / total for i in experts}, margin, group


def inputs(router, tokens=60, seed=0):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn((tokens, router.k), generator=random).bfloat16()
    weight = torch.randn((router.n, router.k), generator=random) / 6
    bias = 0.1 * torch.randn(router.n, generator=random).double() if router.biased else None
    return x, weight, bias


@pytest.mark.parametrize("router", ROUTERS, ids=lambda router: router.name)
def test_routing_is_that_of_a_loop(router):
    x, weight, bias = inputs(router)
    logits = x.double() @ weight.double().t()
    routed = route(logits, router, bias)
    for token in range(len(x)):
        experts, weights, margin, group = by_hand(
            logits[token].tolist(), router, None if bias is None else bias.tolist()
        )
        assert routed.experts[token].tolist() == experts
        found = routed.weights[token]
        assert {i: found[i].item() for i in found.nonzero().flatten().tolist()} == pytest.approx(weights, rel=1e-12)
        assert routed.margin[token].item() == pytest.approx(margin, rel=1e-9, abs=1e-15)
        if group is None:
            assert routed.group_margin is None
        else:
            assert routed.group_margin[token].item() == pytest.approx(group, rel=1e-9, abs=1e-15)


def test_equal_scores_go_to_the_lower_expert():
    router = replace(ROUTERS[0], top_k=2)
    routed = route(torch.tensor([[0.0, 1.0, 1.0, 1.0] + [0.0] * 28]), router)
    assert routed.experts.tolist() == [[1, 2]]
    assert routed.margin.tolist() == [0.0]


def test_bias_chooses_but_does_not_weigh():
    router = replace(ROUTERS[1], top_k=1, normalize=False)
    bias = torch.zeros(32).double()
    bias[7] = 5.0
    routed = route(torch.zeros((1, 32)), router, bias)
    assert routed.experts.tolist() == [[7]]
    assert routed.weights[0, 7] == 0.5


@pytest.mark.parametrize("router", ROUTERS, ids=lambda router: router.name)
@pytest.mark.parametrize("arm", ["split", "tf32", "bf16-bf16"])
def test_view_is_the_count_of_a_loop(router, arm):
    x, weight, bias = inputs(router, tokens=TOKENS)
    bound = 2e-3
    view = precision_view(x, weight, router, bias=bias, arms=[arm], weight_bound=bound)
    report = view.arms[arm]
    exact = (x.double() @ weight.double().t()).tolist()
    computed = scores(arm, x, weight).double().tolist()
    given = None if bias is None else bias.tolist()
    changed = moved = 0
    margins = []
    for true, own in zip(exact, computed, strict=True):
        experts, weights, margin, _ = by_hand(true, router, given)
        others, shifted, _, _ = by_hand(own, router, given)
        changed += set(experts) != set(others)
        moved += max(abs(weights.get(i, 0) - shifted.get(i, 0)) for i in range(router.n)) > bound
        margins.append(margin)
    assert (report.changed, report.moved, report.tokens) == (changed, moved, TOKENS)
    if arm == "bf16-bf16" and router.top_k < router.n:
        assert changed > router.top_k  # enough of them to tell tokens from experts
    size = math.sqrt(math.fsum(v * v for row in exact for v in row) / (TOKENS * router.n))
    errors = sorted(abs(a - b) / size for p, q in zip(computed, exact, strict=True) for a, b in zip(p, q, strict=True))
    total = math.sqrt(math.fsum(e * e for e in errors) / len(errors))
    assert report.rel_error == pytest.approx(total, rel=1e-9)
    assert report.quantiles[1.0] == pytest.approx(errors[-1], rel=1e-9)
    assert report.quantiles[0.5] == pytest.approx(errors[math.ceil(len(errors) / 2) - 1], rel=1e-9)
    assert report.errors.sum() + report.exact == len(errors)
    assert view.margins.sum() == sum(0 < margin < math.inf for margin in margins)
    assert (view.group_margins is not None) == (router.groups > 1)
    assert view.computed == "emulated on a CPU"


def test_arms_rank_as_their_bits():
    made = synthetic("qwen3-30b", 512)
    view = precision_view(made.x, made.weight, made.router, data=made.words)
    errors = {name: report.rel_error for name, report in view.arms.items()}
    assert list(errors) == list(ARMS)
    order = ["split3", "split", "split-truncated", "tf32", "bf16", "bf16-bf16"]
    assert [errors[name] for name in order] == sorted(errors[name] for name in order)
    assert errors["fp32"] < 1e-6
    assert 1.5e-6 < errors["split"] < 4e-6
    assert 3 * errors["split"] < errors["split-truncated"] < 6 * errors["split"]
    changed = {name: report.changed_share for name, report in view.arms.items()}
    assert changed["split"] <= changed["tf32"] < changed["bf16-bf16"]
    assert changed["bf16-bf16"] > 0.01
    document = view.to_dict()
    assert document["data"] == "made-up activations and weights of qwen3-30b's shape, seed 0"
    assert len(document["edges"]) == len(document["margins"]) + 1
    assert document["arms"]["bf16"]["changed_low"] <= changed["bf16"] <= document["arms"]["bf16"]["changed_high"]


def test_histogram_is_that_of_numpy():
    values = torch.tensor([0.0, math.inf, 1e-20, 1e-12, 3e-5, 1.0, 99.0, 1e5, -2e-3], dtype=torch.float64)
    counts = histogram(values)
    inside = np.clip([1e-20, 1e-12, 3e-5, 1.0, 99.0, 1e5, 2e-3], EDGES[0], EDGES[-1])
    assert counts.tolist() == np.histogram(inside, EDGES)[0].tolist()
    assert counts.sum() == 7


def test_interval_of_a_share():
    assert wilson(0, 4096)[0] == 0
    assert wilson(0, 4096)[1] == pytest.approx(3.841459 / (4096 + 3.841459), rel=1e-6)
    low, high = wilson(50, 100)
    assert (low, high) == pytest.approx((0.403832, 0.596168), abs=1e-6)  # the textbook's example
    assert wilson(7, 7)[1] == pytest.approx(1.0)


def test_interval_covers_the_true_share():
    """At least 92 % of the intervals of 2,000 made-up counts hold the true share; for small counts it swings."""
    for share in (0.002, 0.03, 0.4):
        counts = np.random.default_rng(1).binomial(2000, share, 2000)
        covered = [low <= share <= high for low, high in (wilson(int(c), 2000) for c in counts)]
        assert np.mean(covered) >= 0.92


@pytest.mark.parametrize("model", MODELS)
def test_made_up_inputs_are_as_documented(model):
    made, again, other = synthetic(model, 256), synthetic(model, 256), synthetic(model, 256, seed=1)
    router = MODELS[model]
    assert tuple(made.x.shape) == (256, router.k)
    assert tuple(made.weight.shape) == (router.n, router.k)
    assert torch.equal(made.x, again.x)
    assert torch.equal(made.weight, again.weight)
    assert not torch.equal(made.weight, other.weight)
    assert (
        made.x.double().square().mean(dim=1).sqrt().allclose(torch.ones(256).double(), atol=2**-8)
    )  # rounding to bf16
    deviation = float((made.x.double() @ made.weight.double().t()).std())
    assert deviation == pytest.approx(SPREADS[model].logits, rel=0.25)
    assert (made.bias is not None) == router.biased
    if made.bias is not None:
        assert float(made.bias.std()) == pytest.approx(SPREADS[model].bias, rel=0.15)
    massive = made.x.double().square().mean(dim=0)
    assert float(massive[:8].median()) > 50 * float(massive[8:].median())


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"x": torch.zeros((4, 64))}, "torch.bfloat16"),
        ({"x": torch.zeros((0, 64), dtype=torch.bfloat16)}, "torch.bfloat16"),
        ({"x": torch.zeros((4, 72), dtype=torch.bfloat16)}, r"\[tokens, 64\]"),
        ({"weight": torch.zeros((64, 32))}, r"\[32, 64\]"),
        ({"weight": torch.full((32, 64), float("nan"))}, "weight holds infinite"),
        ({"x": torch.full((4, 64), float("inf"), dtype=torch.bfloat16)}, "x holds infinite"),
        ({"weight": torch.zeros((32, 64))}, "every score is 0"),
        ({"bias": torch.zeros(31)}, "bias has shape"),
        ({"bias": torch.full((32,), float("nan"))}, "finite numbers"),
        ({"arms": ["fp8"]}, "arms fp8 are not known"),
        ({"weight_bound": 0.0}, "weight_bound=0"),
        ({"router": replace(ROUTERS[0], top_k=33)}, "top_k is 33, and 32"),
        ({"router": replace(ROUTERS[0], top_k=0)}, "top_k is 0"),
        ({"router": replace(ROUTERS[0], groups=5)}, "32 experts in 5 groups"),
        ({"router": replace(ROUTERS[0], groups=0)}, "32 experts in 0 groups"),
        ({"router": replace(ROUTERS[0], groups=32, top_groups=8)}, "groups of 1"),
        ({"router": replace(ROUTERS[0], groups=4, top_groups=5)}, "the best 5"),
        ({"router": replace(ROUTERS[0], scoring="relu")}, "scoring is 'relu'"),
    ],
)
def test_inputs_that_are_refused(change, word):
    x, weight, _ = inputs(ROUTERS[0], tokens=4)
    given = {"x": x, "weight": weight, "router": ROUTERS[0], **change}
    with pytest.raises(InvalidArgument, match=word):
        precision_view(given.pop("x"), given.pop("weight"), given.pop("router"), **given)


def test_too_many_scores_are_refused():
    x = torch.zeros((1, 64), dtype=torch.bfloat16).expand((1 << 21, 64))
    with pytest.raises(InvalidArgument, match="at most 1,048,576 tokens"):
        precision_view(x, torch.ones((32, 64)), ROUTERS[0])


def test_unknown_models_are_refused():
    with pytest.raises(InvalidArgument, match="hy4"):
        synthetic("hy4")
    with pytest.raises(InvalidArgument, match="tokens=0"):
        synthetic("hy3", 0)
