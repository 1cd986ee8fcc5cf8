"""The space of decode attention's kernel for one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from workbench import devices
from workbench.errors import InvalidArgument
from workbench.gpu.ahead import Job
from workbench.measure.attention_case import AttentionCase
from workbench.records import Workload
from workbench.schedule import DecodePlan, cost_model, plan_decode
from workbench.tune.space import Launch, Space, Value, Values
from workbench.tune.space_modules import module

if TYPE_CHECKING:
    from workbench.ops.attention_decode.config import AttentionConfig, AttentionShape

SOURCE, ENTRY = "attention_decode/attention.cu", "attention_decode"
MODEST: dict[str, tuple[Value, ...]] = {
    "warps": (4, 8),
    "stages": (2, 3, 4, 6, 8),
    "ctas_per_sm": (1, 2),
    "prefetch": (0, 1, 2, 4),
    "tile": (32, 64, 128),
    "pdl": (True,),
    "early_map": (False,),
    "early_cache": (False,),
}
"""Values that are worth measuring: the others were never the fastest, or change what the caller promises."""


class AttentionSpace(Space):
    """Settings of decode attention for one batch.

    Parameters
    ----------
    case : AttentionCase
        Lengths, cache type and head shape.
    parameters : mapping, optional
        Values by parameter; default :data:`MODEST`.
    policy : str
        Policy of the task map.

    Raises
    ------
    InvalidArgument
        There is no kernel for the shape, or no such parameter.
    """

    operator: ClassVar[str] = "attention_decode"
    bound: ClassVar[tuple[str, ...]] = ("ctas_per_sm", "tile", "early_map", "early_cache")
    meanings: ClassVar[dict[str, str]] = {
        "warps": "warps a CTA",
        "stages": "stages of 64 tokens for every four warps",
        "ctas_per_sm": "CTAs of one call on an SM",
        "prefetch": "slabs a warp asks to L2 before the kernel ahead has ended",
        "tile": "tokens a KV tile of the task map",
        "pdl": "launched as a programmatic dependent",
        "early_map": "reads the task map before the kernel ahead has ended",
        "early_cache": "reads all but the newest tokens before the kernel ahead has ended",
    }

    def __init__(
        self,
        case: AttentionCase,
        parameters: Mapping[str, Sequence[Value]] | None = None,
        policy: str = "balanced",
    ) -> None:
        super().__init__(MODEST if parameters is None else parameters)
        self.case, self.policy = case, policy
        self._config = module(self.operator, "config")
        self._check_cache()
        self._plans: dict[tuple[int, int, str], DecodePlan] = {}

    @classmethod
    def whole(cls, case: AttentionCase, policy: str = "balanced") -> Self:
        """Every value that the kernel declares."""
        return cls(case, module(cls.operator, "config").PARAMETERS, policy)

    @cached_property
    def shape(self) -> AttentionShape:
        """What the kernel is compiled for besides its configuration."""
        case = self.case
        made: AttentionShape = self._config.AttentionShape(
            head_dim=case.head_dim, group=case.group, q_len=case.q_len, cache=case.cache, query=case.cache
        )
        return made

    def _check_cache(self) -> None:
        """Refuse what no kernel has; the shape of a head refuses itself."""
        assert self.shape
        case, pages = self.case, self._config.PAGE_SIZES
        if case.page_size not in pages:
            raise InvalidArgument(
                f"page_size is {case.page_size!r}; decode attention takes {', '.join(map(str, pages))}."
            )
        if type(case.kv_heads) is not int or case.kv_heads < 1:
            raise InvalidArgument(f"kv_heads is {case.kv_heads!r}; give a whole number from 1.")

    @property
    def workload(self) -> Workload:
        """The batch."""
        return self.case.workload

    def make(self, values: Values) -> AttentionConfig:
        """The configuration with these values."""
        made: AttentionConfig = self._config.AttentionConfig(**values)
        return made

    def why_invalid(self, config: AttentionConfig) -> str | None:
        """Why it cannot run the batch's shape."""
        return config.why_invalid(self.shape)

    def default(self, gpu: str | devices.Gpu = "H200") -> AttentionConfig:
        """The default of the shape; it is the same on every GPU."""
        made: AttentionConfig = self._config.default_config(self.shape)
        return made

    def tuned_key(self) -> dict[str, Any]:
        """The shape: lengths are not known when a default is chosen."""
        return asdict(self.shape)

    def job(self, config: AttentionConfig) -> Job:
        """The kernel of the shape; the tile and the launch do not change it."""
        return Job(source=SOURCE, entry=ENTRY, defines={**self.shape.defines(), **config.defines(), "TIMELINE": 0})

    def launch(self, config: AttentionConfig, gpu: str | devices.Gpu = "H200") -> Launch:
        """One CTA a bin of the task map."""
        return Launch(self.plan(config, gpu).num_bins, config.threads, config.shared_bytes(self.shape))

    def modelled_us(self, config: AttentionConfig, gpu: str | devices.Gpu = "H200") -> float:
        """By the plan of the lengths: it knows tile and CTAs an SM, and nothing of warps, stages and prefetch."""
        return float(self.plan(config, gpu).metrics(self._cost(gpu)).call_us)

    def plan(self, config: AttentionConfig, gpu: str | devices.Gpu = "H200") -> DecodePlan:
        """The lengths mapped onto the CTAs of this configuration."""
        device = devices.gpu(gpu)
        known = config.ctas_per_sm, config.tile, device.name
        if known not in self._plans:
            self._plans[known] = plan_decode(
                self.case.lengths,
                num_kv_heads=self.case.kv_heads,
                num_ctas=device.sms * config.ctas_per_sm,
                policy=self.policy,
                tile=config.tile,
                q_len=self.case.q_len,
            )
        return self._plans[known]

    def to_dict(self) -> dict[str, Any]:
        """Operator, batch and values."""
        case = self.case
        return {
            "operator": self.operator,
            "case": case.name,
            "lengths": case.lengths.tolist(),
            "cache": case.cache,
            "shape": {name: getattr(case, name) for name in ("group", "kv_heads", "head_dim", "page_size", "q_len")},
            "policy": self.policy,
            "parameters": {name: list(values) for name, values in self.parameters.items()},
        }

    def _with(self, parameters: Mapping[str, Sequence[Value]]) -> Self:
        return type(self)(self.case, parameters, self.policy)

    def _cost(self, gpu: str | devices.Gpu) -> Any:
        return cost_model(gpu, cache=self.case.cache, group=self.case.group, head_dim=self.case.head_dim)
