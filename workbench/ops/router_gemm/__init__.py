"""Router GEMM: bf16 activations times an FP32 weight that was split into bf16 terms.

- ``weight``: :func:`split_router_weight` and :class:`RouterWeight`; ``api``: :func:`router_gemm` and its torch ops;
  ``checks``: its arguments; ``providers``: who computes, and how precisely.
- ``config``: configurations of the CUDA kernel and their valid space; ``default``: which one runs, by ``tuned``, the
  fastest measured, or ``cost``, a model.
- ``cuda``: compile and launch; ``triton``: the portable variant; ``torch_products``: cuBLAS; ``reference``: float64.

``workbench.ops.router_gemm`` is the function, which has the package's name: import what is inside with ``from
workbench.ops.router_gemm import cuda``, not with ``import ... as``.
"""

from workbench.ops.router_gemm.api import router_gemm
from workbench.ops.router_gemm.config import RouterConfig
from workbench.ops.router_gemm.default import default_config
from workbench.ops.router_gemm.reference import router_reference
from workbench.ops.router_gemm.weight import RouterWeight, split_router_weight

__all__ = [
    "RouterConfig",
    "RouterWeight",
    "default_config",
    "router_gemm",
    "router_reference",
    "split_router_weight",
]
