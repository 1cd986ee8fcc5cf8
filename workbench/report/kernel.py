"""For which kernel and GPU a step is planned."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypedDict

from workbench import devices
from workbench.schedule import CostModel, cost_model


class PlanArguments(TypedDict):
    """What ``plan_decode`` and ``sweep`` take beside lengths and policy; tile, floor and query in tokens."""

    num_kv_heads: int
    num_ctas: int
    tile: int
    min_process_len: int
    q_len: int


@dataclass(frozen=True)
class Kernel:
    """The attention kernel and the GPU that a step is planned for.

    Attributes
    ----------
    device : Gpu
    ctas_per_sm : int
    num_kv_heads, group, head_dim : int
        Heads on this GPU, query heads a KV head, elements a head.
    tile, min_process_len, q_len : int
        Tokens.
    cache : str
    """

    device: devices.Gpu
    ctas_per_sm: int
    num_kv_heads: int
    group: int
    head_dim: int
    tile: int
    min_process_len: int
    q_len: int
    cache: str

    @property
    def gpu(self) -> str:
        """Name of the GPU."""
        return self.device.name

    @property
    def sms(self) -> int:
        """SMs of the GPU."""
        return self.device.sms

    @property
    def num_ctas(self) -> int:
        """CTAs resident at once."""
        return self.sms * self.ctas_per_sm

    @property
    def cost(self) -> CostModel:
        """The cost model of this kernel on this GPU."""
        return cost_model(self.device, cache=self.cache, group=self.group, head_dim=self.head_dim)

    @property
    def problem(self) -> PlanArguments:
        """Arguments of ``plan_decode`` and ``sweep``, beside the lengths and the policy."""
        return {
            "num_kv_heads": self.num_kv_heads,
            "num_ctas": self.num_ctas,
            "tile": self.tile,
            "min_process_len": self.min_process_len,
            "q_len": self.q_len,
        }

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "device"}
        gpu = {"gpu": self.gpu, "sms": self.sms}
        return {**gpu, **own, "num_ctas": self.num_ctas, "cost_model": self.cost.to_dict()}

    def words(self) -> str:
        """One line for a reader."""
        heads = "1 KV head" if self.num_kv_heads == 1 else f"{self.num_kv_heads} KV heads"
        query = "" if self.q_len == 1 else f", {self.q_len} query tokens"
        return (
            f"{self.gpu}, {self.sms} SMs x {self.ctas_per_sm} CTAs, {heads} x {self.group} query heads{query}, head "
            f"dim {self.head_dim}, {self.cache} cache, {self.tile}-token tiles, floor {self.min_process_len}"
        )
