"""Made-up activations and weights for the precision view, with the distribution of each in the open.

They show how the arms differ and what decides it. They are fitted to no checkpoint: for a statement about a model, give
its own activations and weights (`workbench.measure.precision_files`).

- Activations: each channel has a gain exp(g), g normal with deviation 0.5, the first eight gains times 20, as the
  massive channels of trained models; values normal, every token scaled to a root mean square of 1, as RMSNorm leaves
  it; bf16.
- Weights: normal, each expert's row times exp(r), r normal with deviation 0.2, all scaled so that the scores of a token
  have the model's deviation; FP32.
- Bias: normal with the model's deviation; only for models that have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from workbench.errors import InvalidArgument
from workbench.tables import MODELS, RouterModel

GAIN_DEVIATION = 0.5
MASSIVE_CHANNELS, MASSIVE_GAIN = 8, 20.0
ROW_DEVIATION = 0.2
MAX_TOKENS = 1 << 20


@dataclass(frozen=True)
class Spread:
    """What differs between models.

    Attributes
    ----------
    logits : float
        Standard deviation of the scores over tokens and experts.
    bias : float
        Standard deviation of the bias, in the unit of what softmax or sigmoid gives.
    """

    logits: float
    bias: float = 0.0


SPREADS: Mapping[str, Spread] = MappingProxyType(
    {
        "hy3": Spread(1.5, 0.05),
        "deepseek-v3": Spread(1.5, 0.05),
        "longcat-chat": Spread(2.0, 0.0005),
        "longcat-lite": Spread(2.0, 0.001),
        "qwen3-235b": Spread(2.0),
        "qwen3-30b": Spread(2.0),
    }
)
"""Assumed, by model. LongCat's biases are small because its softmax spreads over 384 or 768 experts."""


@dataclass(frozen=True, eq=False)
class Synthetic:
    """Made-up inputs of one model's router.

    Attributes
    ----------
    router : RouterModel
    x : torch.Tensor
        bf16 [tokens, K].
    weight : torch.Tensor
        float32 [N, K].
    bias : torch.Tensor or None
        float64 [N]; None for a model without one.
    words : str
        What this is, for a label.
    """

    router: RouterModel
    x: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor | None
    words: str


def synthetic(model: str, tokens: int = 4096, *, seed: int = 0, device: str = "cpu") -> Synthetic:
    """Draw activations, weights and bias; the same seed gives the same numbers on every device.

    Parameters
    ----------
    model
        A name of `workbench.tables.MODELS`.
    tokens
        Rows of the activations.
    seed
        Of torch's generator on the CPU.
    device
        Where the tensors go.

    Raises
    ------
    InvalidArgument
        The model is not known, there are no tokens or too many, or the seed is no whole number from 0.
    """
    if model not in MODELS:
        raise InvalidArgument(f"model {model!r} is not known; give one of {', '.join(MODELS)}")
    for name, number, low, high in (("tokens", tokens, 1, MAX_TOKENS), ("seed", seed, 0, (1 << 63) - 1)):
        if not isinstance(number, int) or not low <= number <= high:
            raise InvalidArgument(f"{name}={number!r}; give a whole number from {low} to {high:,}")
    router, spread = MODELS[model], SPREADS[model]
    random = torch.Generator().manual_seed(seed)
    gain = torch.exp(GAIN_DEVIATION * torch.randn(router.k, generator=random))
    gain[:MASSIVE_CHANNELS] *= MASSIVE_GAIN
    values = gain * torch.randn((tokens, router.k), generator=random)
    x = (values / values.square().mean(dim=1, keepdim=True).sqrt()).bfloat16()
    rows = torch.exp(ROW_DEVIATION * torch.randn((router.n, 1), generator=random))
    weight = rows * torch.randn((router.n, router.k), generator=random)
    # Tokens have a mean square of 1, so a score's variance is about the squared norm of its row over K times K.
    weight *= spread.logits / (router.k**0.5 * rows.square().mean().sqrt())
    bias = spread.bias * torch.randn(router.n, generator=random).double() if router.biased else None
    return Synthetic(
        router,
        x.to(device),
        weight.to(device),
        None if bias is None else bias.to(device),
        f"made-up activations and weights of {model}'s shape, seed {seed}",
    )
