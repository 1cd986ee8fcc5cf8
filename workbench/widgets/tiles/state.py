"""The tuner's settings: plain data, checked once."""

from __future__ import annotations

from dataclasses import dataclass, fields

from workbench import devices
from workbench.errors import InvalidArgument
from workbench.tune.space import Value
from workbench.tune.study_search import METHODS

ATTENTION, ROUTER = "attention", "router"
OPERATORS = {ATTENTION: "Attention", ROUTER: "Router"}
CACHES = {"fp8": "FP8", "bf16": "BF16"}
ARCH = "sm_90a"
"""What the kernels are written for."""

GPUS = tuple(device.name.removeprefix("NVIDIA ") for device in devices.CATALOGUE.values() if device.arch == ARCH)
RANGES = {"group": (1, 16), "kv_heads": (1, 16), "q_len": (1, 4), "m": (1, 65536), "most": (2, 100_000)}
TERMS = (2, 3)


@dataclass(frozen=True, kw_only=True)
class State:
    """Every setting of the tuner.

    Attributes
    ----------
    operator : str
        "attention" or "router".
    lengths : str
        Attention: KV lengths such as "64x4K".
    cache : str
        Attention: "fp8" or "bf16".
    group, kv_heads, q_len : int
        Attention: query heads a KV head, KV heads, query tokens a request.
    router : str
        Router: a model's name or "K,N".
    m, terms : int
        Router: tokens, and terms of the weight.
    gpu : str
        GPU of the catalogue.
    whole : bool
        Every value that the kernel declares, not only those worth measuring.
    values : tuple of (str, value)
        The configuration on screen, whether it can run or not; empty before the first workload is known.
    method : str
        How a study searches: "grid", "random" or "tpe".
    most : int
        Configurations that a study tries: the default and what the cost model ranks first.
    applicable : bool
        Whether a study tries only what could be the default.
    """

    operator: str = ATTENTION
    lengths: str = "64x4K"
    cache: str = "fp8"
    group: int = 8
    kv_heads: int = 1
    q_len: int = 1
    router: str = "hy3"
    m: int = 64
    terms: int = 2
    gpu: str = "H200"
    whole: bool = False
    values: tuple[tuple[str, Value], ...] = ()
    method: str = "grid"
    most: int = 60
    applicable: bool = False

    def __post_init__(self) -> None:
        self._one_of("operator", OPERATORS)
        self._one_of("cache", CACHES)
        self._one_of("method", METHODS)
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise InvalidArgument(f"{name} is {str(value)[:80]!r}; give a whole number from {low} to {high:,}.")
        if type(self.terms) is not int or self.terms not in TERMS:
            raise InvalidArgument(f"terms is {self.terms!r}; the weight has 2 or 3.")
        for name in ("lengths", "router"):
            if not isinstance(value := getattr(self, name), str) or not value.strip():
                raise InvalidArgument(f"{name} is {str(value)[:80]!r}; give a text.")
        for name in ("whole", "applicable"):
            if not isinstance(value := getattr(self, name), bool):
                raise InvalidArgument(f"{name} is {str(value)[:80]!r}; give True or False.")
        self._check_gpu()

    def _one_of(self, name: str, allowed: object) -> None:
        value = getattr(self, name)
        names = list(allowed)  # type: ignore[call-overload]
        if value not in names:
            raise InvalidArgument(f"{name} is {str(value)[:80]!r}; give one of {', '.join(names)}.")

    def _check_gpu(self) -> None:
        if not isinstance(self.gpu, str):
            raise InvalidArgument(f"gpu is {str(self.gpu)[:80]!r}; give one of {', '.join(GPUS)}.")
        device = devices.gpu(self.gpu)
        if device.arch != ARCH:
            raise InvalidArgument(
                f"{device.name} is {device.arch}, and the kernels are written for {ARCH}: "
                f"give one of {', '.join(GPUS)}."
            )


SETTINGS = tuple(field.name for field in fields(State))
WORK = ("operator", "lengths", "cache", "group", "kv_heads", "q_len", "router", "m", "terms", "gpu", "whole")
"""Settings that make another space."""
