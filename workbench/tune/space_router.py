"""The space of the router GEMM's kernel for one product."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from workbench import devices
from workbench.errors import InvalidArgument
from workbench.gpu.ahead import Job
from workbench.records import Workload
from workbench.tune.space import Launch, Space, Value, Values
from workbench.tune.space_modules import module

if TYPE_CHECKING:
    from workbench.ops.router_gemm.config import RouterConfig

SOURCE, ENTRY = "router_gemm/router_gemm.cu", "router_gemm"


@dataclasses.dataclass(frozen=True)
class RouterProduct:
    """Scores of M tokens for N experts.

    Attributes
    ----------
    m, n, k : int
        Tokens, experts, hidden size.
    terms : int
        Terms of the weight, 2 or 3.

    Raises
    ------
    InvalidArgument
        For a size that the kernel does not take.
    """

    m: int
    n: int
    k: int
    terms: int = 2

    def __post_init__(self) -> None:
        sizes = (self.m, self.n, self.k, self.terms)
        if any(type(size) is not int for size in sizes):
            raise InvalidArgument(f"M, N, K and terms are {', '.join(map(repr, sizes))}; give whole numbers.")
        if self.m < 1 or self.n < 8 or self.k < 8 or self.n % 8 or self.k % 8:
            raise InvalidArgument(f"M {self.m}, N {self.n}, K {self.k}: give M from 1, and multiples of 8 for N and K.")
        if self.terms not in (2, 3):
            raise InvalidArgument(f"the weight has {self.terms} terms; the kernel takes 2 or 3.")

    @property
    def case(self) -> str:
        """As records call it."""
        return f"K{self.k}-N{self.n}-M{self.m}"

    @property
    def operand_bytes(self) -> int:
        """Bytes of the activations and of all terms of the weight."""
        return 2 * self.k * (self.m + self.terms * self.n)


class RouterSpace(Space):
    """Settings of the router GEMM for one product.

    Parameters
    ----------
    product : RouterProduct
    parameters : mapping, optional
        Values by parameter. Default: every tile, split of K, stages and multicast that the kernel declares, promoted as
        often as by default and launched as a programmatic dependent.
    """

    operator: ClassVar[str] = "router_gemm"
    meanings: ClassVar[dict[str, str]] = {
        "tile_m": "tokens of a tile",
        "tile_n": "experts of a tile",
        "stages": "stages of the ring, 64 of K each",
        "split_k": "CTAs of a cluster that share a tile",
        "multicast": "CTAs of a cluster that share each load of the weight",
        "promote": "after so much of K sums go to FP32 registers",
        "pdl": "launched as a programmatic dependent",
    }

    def __init__(self, product: RouterProduct, parameters: Mapping[str, Sequence[Value]] | None = None) -> None:
        self._config = module(self.operator, "config")
        self._cost = module(self.operator, "cost")
        if parameters is None:
            usual = {"promote": (self._cost.PROMOTE[product.terms],), "pdl": (True,)}
            parameters = {**self._config.PARAMETERS, **usual}
        super().__init__(parameters)
        self.product = product

    @classmethod
    def whole(cls, product: RouterProduct) -> Self:
        """Every value that the kernel's space has; `restrict` takes others, such as stages above 12."""
        return cls(product, module(cls.operator, "config").PARAMETERS)

    @property
    def workload(self) -> Workload:
        """The product."""
        product = self.product
        return Workload(
            case=product.case,
            dtype="bf16",
            m=product.m,
            n=product.n,
            k=product.k,
            parameters={"terms": product.terms},
        )

    def make(self, values: Values) -> RouterConfig:
        """The configuration with these values."""
        made: RouterConfig = self._config.RouterConfig(**values)
        return made

    def why_invalid(self, config: RouterConfig) -> str | None:
        """Why it cannot run the product, or has CTAs with nothing to do."""
        reason = config.why_invalid(self.product.terms)
        if reason is not None:
            return reason
        blocks = -(-self.product.k // self._config.BLOCK)
        if config.split_k > blocks:
            return f"split_k {config.split_k} > {blocks} blocks of {self._config.BLOCK} in K {self.product.k}"
        if config.multicast > 1 and self.product.m <= config.tile_m:
            return f"multicast {config.multicast} shares among several tiles, and M {self.product.m} has one"
        return None

    def default(self, gpu: str | devices.Gpu = "H200") -> RouterConfig:
        """The measured one of this shape, or the cost model's."""
        module(self.operator, "tuned")
        product = self.product
        made: RouterConfig = module(self.operator, "default").default_config(
            product.m, product.n, product.k, product.terms, devices.gpu(gpu).sms
        )
        return made

    def tuned_key(self) -> dict[str, Any]:
        """The product."""
        return dataclasses.asdict(self.product)

    def job(self, config: RouterConfig) -> Job:
        """The kernel that writes FP32 scores."""
        return Job(source=SOURCE, entry=ENTRY, defines={**config.defines(self.product.terms), "OUT_BF16": 0})

    def launch(self, config: RouterConfig, gpu: str | devices.Gpu = "H200") -> Launch:
        """A cluster a tile; without split K as many as there are SMs go round the tiles."""
        clusters = config.tiles(self.product.m, self.product.n)
        if config.split_k == 1:
            clusters = min(clusters, max(1, devices.gpu(gpu).sms // config.multicast))
        return Launch(clusters * config.cluster, config.threads, config.shared_bytes(self.product.terms))

    def modelled_us(self, config: RouterConfig, gpu: str | devices.Gpu = "H200") -> float:
        """By the model that ranks configurations of shapes that were not measured."""
        product = self.product
        return float(
            self._cost.estimated_us(config, product.m, product.n, product.k, product.terms, devices.gpu(gpu).sms)
        )

    def to_dict(self) -> dict[str, Any]:
        """Operator, product and values."""
        return {
            "operator": self.operator,
            "product": dataclasses.asdict(self.product),
            "parameters": {name: list(values) for name, values in self.parameters.items()},
        }

    def _with(self, parameters: Mapping[str, Sequence[Value]]) -> Self:
        return type(self)(self.product, parameters)
