"""Routers of the models this project is about: the shape of the product and how experts are chosen from its scores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from workbench.errors import InvalidArgument

Scoring = Literal["softmax", "sigmoid"]


@dataclass(frozen=True, kw_only=True)
class RouterModel:
    """The router of one model.

    Attributes
    ----------
    name : str
    k, n : int
        Hidden size and number of scores a token: the weight is [n, k].
    top_k : int
        Experts a token goes to.
    layers : int
        Layers with a router: calls of the product a forward pass.
    scoring : {"softmax", "sigmoid"}
        What turns a logit into a score.
    biased : bool
        A bias is added to the score for the choice of experts, not for their weights.
    groups, top_groups : int
        Experts stand in equal groups, and are taken from the best groups only, ranked by the sum of their two best
        biased scores (DeepSeek-V3). 1 and 1: no groups.
    normalize : bool
        The weights of the chosen experts are divided by their sum.
    """

    name: str
    k: int
    n: int
    top_k: int
    layers: int
    scoring: Scoring
    biased: bool = False
    groups: int = 1
    top_groups: int = 1
    normalize: bool = True


def _models(*models: RouterModel) -> Mapping[str, RouterModel]:
    return MappingProxyType({model.name: model for model in models})


MODELS: Mapping[str, RouterModel] = _models(
    RouterModel(name="hy3", k=4096, n=192, top_k=8, layers=79, scoring="sigmoid", biased=True),
    RouterModel(
        name="longcat-chat", k=6144, n=768, top_k=12, layers=28, scoring="softmax", biased=True, normalize=False
    ),
    RouterModel(
        name="longcat-lite", k=3072, n=384, top_k=12, layers=14, scoring="softmax", biased=True, normalize=False
    ),
    RouterModel(
        name="deepseek-v3", k=7168, n=256, top_k=8, layers=58, scoring="sigmoid", biased=True, groups=8, top_groups=4
    ),
    RouterModel(name="qwen3-235b", k=4096, n=128, top_k=8, layers=94, scoring="softmax"),
    RouterModel(name="qwen3-30b", k=2048, n=128, top_k=8, layers=48, scoring="softmax"),
)
"""By name. LongCat's scores include its zero experts. No router: 1 layer of Hy3's 80, 3 of DeepSeek-V3's 61."""

_SHAPE = re.compile(r"[Kk]?(\d{1,9})\s*[,x-]\s*[Nn]?(\d{1,9})")
LARGEST = 1 << 20


def parse_shape(text: str) -> tuple[int, int, RouterModel | None]:
    """K and N from a model's name or from numbers.

    Parameters
    ----------
    text
        A name of `MODELS` in any case, or "K,N" such as "4096,192".

    Returns
    -------
    k, n : int
    model : RouterModel or None
        None where numbers were given.

    Raises
    ------
    InvalidArgument
        Neither of these; or K or N is not a multiple of 8 between 8 and 1,048,576.
    """
    model = MODELS.get(text.strip().lower())
    if model is not None:
        return model.k, model.n, model
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise InvalidArgument(f"{text[:60]!r} is no router; give one of {', '.join(MODELS)}, or K,N such as 4096,192.")
    k, n = int(match[1]), int(match[2])
    for name, value in (("K", k), ("N", n)):
        if value % 8 or not 8 <= value <= LARGEST:
            raise InvalidArgument(f"{name}={value}; give a multiple of 8 between 8 and {LARGEST:,}.")
    return k, n, None
