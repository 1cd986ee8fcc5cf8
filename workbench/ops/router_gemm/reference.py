"""Router scores in float64, straight from the definition."""

from __future__ import annotations

import torch


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
    """
    return x.double() @ weight.double().t()
