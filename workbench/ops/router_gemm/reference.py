"""Router scores in float64, straight from the definition."""

from __future__ import annotations

import torch

from workbench.errors import InvalidArgument


def router_reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """``x W^T`` of the operands as they are, in float64.

    Parameters
    ----------
    x : tensor [M, K]
    weight : tensor [N, K]
        The FP32 weight, not its terms.

    Returns
    -------
    float64 tensor [M, N]

    Raises
    ------
    InvalidArgument
        One is no tensor of two dimensions, K differs, or they are on different devices.
    """
    for name, given in (("x", x), ("weight", weight)):
        if not isinstance(given, torch.Tensor) or given.ndim != 2:
            shown = tuple(given.shape) if isinstance(given, torch.Tensor) else f"a {type(given).__name__}"
            rows = "tokens" if name == "x" else "experts"
            raise InvalidArgument(f"{name} is {shown}; give a tensor [{rows}, hidden].")
    if x.shape[1] != weight.shape[1]:
        raise InvalidArgument(f"x has hidden size {x.shape[1]} and the weight {weight.shape[1]}; they must agree.")
    if x.device != weight.device:
        raise InvalidArgument(f"x is on {x.device} and the weight on {weight.device}; move them to one device.")
    return x.double() @ weight.double().t()
