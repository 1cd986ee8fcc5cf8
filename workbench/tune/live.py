"""Measure the router product on the GPU at hand, as a search asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from workbench.errors import InvalidArgument, NoGpu
from workbench.measure.timing import Timing, time_interleaved
from workbench.ops.router_gemm import RouterWeight, router_gemm, router_reference, split_router_weight
from workbench.tables import ROUTER_PROVIDERS, class_of

SETS_BYTES = 150_000_000
"""Bytes of all input sets of one measurement together: more than twice the L2 cache of an H200."""

MOST_SETS = 48
CHECKED_M = (1, 16, 300)
"""Rows at which errors are measured before anything is timed: one, few, and not a multiple of a tile."""

Time = Callable[..., Mapping[str, Timing]]


def default_providers() -> tuple[str, ...]:
    """Everything that runs on torch's current GPU: our CUDA kernel on Hopper, our Triton kernel elsewhere; cuBLAS."""
    own = "cuda" if torch.cuda.get_device_capability() == (9, 0) else "triton"
    return own, f"{own}-3terms", "cublas-fp32", "cublas-tf32", "cublas-bf16"


class LiveRouter:
    """Random inputs of one shape, and the providers that run here.

    Activations are standard normal in bf16, weights normal with deviation 1/16: times of these kernels do not depend on
    values. Every input set has a weight of its own, so that the caches are cold as between two layers of a model.

    Parameters
    ----------
    k, n
        Shape of the weight, [n, k].
    providers
        Names in `workbench.tables.ROUTER_PROVIDERS` that `router_gemm` runs.
    device
        Where.
    time
        What times calls in turns; `workbench.measure.timing.time_interleaved` on a GPU.
    seed
        Of the inputs.

    Raises
    ------
    InvalidArgument
        A provider is unknown or does not run here.
    NoGpu
        The device is a GPU that torch cannot use.
    """

    def __init__(
        self,
        k: int,
        n: int,
        providers: Sequence[str],
        *,
        device: str = "cuda",
        time: Time = time_interleaved,
        seed: int = 0,
    ) -> None:
        runnable = [name for name, known in ROUTER_PROVIDERS.items() if known.runs_as]
        if unknown := [name for name in providers if name not in runnable]:
            raise InvalidArgument(f"{', '.join(unknown)} cannot be measured here; give some of {', '.join(runnable)}.")
        if device == "cuda" and not torch.cuda.is_available():
            raise NoGpu(f"torch {torch.__version__} cannot use a GPU here. Install a build of torch for CUDA.")
        self.k, self.n, self.providers = k, n, tuple(providers)
        self._device, self._time = torch.device(device), time
        self._random = torch.Generator(device=self._device).manual_seed(seed)

    def classes(self) -> dict[str, str]:
        """Precision class of each provider, from its errors here against float64 and its design.

        Raises
        ------
        InvalidArgument
            The error of one is beyond every class: it computes something else.
        """
        found = {}
        for name in self.providers:
            errors = []
            for m in CHECKED_M:
                x, weight = self._inputs(m, name)
                exact = router_reference(x, weight.weight)
                difference = self._call(name, x, weight)().double() - exact
                errors.append(float(difference.norm() / exact.norm()))
            own = class_of(errors, ROUTER_PROVIDERS[name].precision)
            if own is None:
                raise InvalidArgument(
                    f"{name} errs by {max(errors):.1e} relative to float64, which is beyond every class; leave it out."
                )
            found[name] = own
        return found

    def measure(self, providers: Sequence[str], m: int, rounds: int) -> dict[str, tuple[float, ...]]:
        """Samples of each provider at M rows, microseconds a call, rounds interleaved."""
        size = 2 * self.n * self.k * 2 + m * self.k * 2
        count = max(2, min(MOST_SETS, -(-SETS_BYTES // size)))
        variants: dict[str, list[Callable[[], Any]]] = {name: [] for name in providers}
        for _ in range(count):
            for name in providers:
                variants[name].append(self._call(name, *self._inputs(m, name)))
        timings = self._time(variants, replays=rounds)
        return {name: timing.samples_us for name, timing in timings.items()}

    def _inputs(self, m: int, name: str) -> tuple[torch.Tensor, RouterWeight]:
        weight = torch.randn((self.n, self.k), device=self._device, generator=self._random) / 16
        x = torch.randn((m, self.k), device=self._device, generator=self._random).bfloat16()
        return x, split_router_weight(weight, terms=ROUTER_PROVIDERS[name].terms or 2)

    def _call(self, name: str, x: torch.Tensor, weight: RouterWeight) -> Callable[[], torch.Tensor]:
        provider = str(ROUTER_PROVIDERS[name].runs_as)
        if provider == "bf16":  # bf16 scores, as a linear layer gives them and as records have it
            narrow = torch.empty((x.shape[0], self.n), dtype=torch.bfloat16, device=self._device)
            return lambda: torch.mm(x, weight.terms[0].t(), out=narrow)
        out = torch.empty((x.shape[0], self.n), device=self._device)
        return lambda: router_gemm(x, weight, provider=provider, out=out)
