"""What the kernel that builds task maps decides by: the integers of a policy, and the costs of a GPU."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from workbench import devices
from workbench.errors import InvalidArgument
from workbench.schedule import CostModel, cost_model, hpc_ops, resolve
from workbench.schedule.policies import balanced, worth_in_tiles


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def decides(policy: Any, num_ctas: int, tile: int, cost: CostModel | None = None) -> tuple[str, list[int]]:
    """Name of a policy and the integers that the kernel decides by; none of them means upstream's rule."""
    chosen = _named(policy, cost) if isinstance(policy, str) else resolve(policy)
    if isinstance(chosen, hpc_ops):
        return chosen.name, []
    if isinstance(chosen, balanced):
        return chosen.name, list(_costs(chosen, num_ctas, tile))
    raise InvalidArgument(
        f"policy {chosen.name} is not built on the GPU (hpc-ops and balanced are). "
        "Plan it with plan_decode(...) and pass the plan to upload_plan."
    )


_named = lru_cache(maxsize=64)(resolve)


@lru_cache(maxsize=256)
def _costs(policy: balanced, num_ctas: int, tile: int) -> tuple[int, ...]:
    cost = policy.costs or cost_model()
    constants = cost.constants
    return (
        *worth_in_tiles(cost, tile, num_ctas),
        cost.tile_bytes(tile), constants.bytes_per_us,
        cost.cta_tile_ns(tile, num_ctas), cost.loaded_tile_ns(tile, num_ctas), constants.descriptor_ns,
        constants.partial_ns, constants.merge_ns, constants.merge_chunk_ns,
    )  # fmt: skip


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def costs_of(head_dim: int, group: int, cache: torch.dtype, device: torch.device) -> CostModel:
    """The cost model of decode attention on ``device``: its GPU's; an H200's for one not in the catalogue, or a CPU."""
    return _device_costs(head_dim, group, "bf16" if cache == torch.bfloat16 else "fp8", device)


@lru_cache(maxsize=256)
def _device_costs(head_dim: int, group: int, cache: str, device: torch.device) -> CostModel:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "H200"
    try:
        gpu = devices.gpu(name)
    except InvalidArgument:
        gpu = devices.gpu("H200")
    return cost_model(gpu, cache=cache, group=group, head_dim=head_dim)
