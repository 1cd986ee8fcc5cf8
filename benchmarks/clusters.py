"""How many clusters of CTAs this GPU runs at once, by CTAs a cluster, beside what the router GEMM's cost model assumes.

    python benchmarks/clusters.py

Asks the driver about the router GEMM kernel, with a ring that leaves room for one CTA an SM, and for two.
"""

from __future__ import annotations

import json

from workbench.gpu import driver, streams
from workbench.gpu.packed import configuration
from workbench.measure.environment import environment_here
from workbench.ops.router_gemm import RouterConfig, cuda
from workbench.ops.router_gemm.cost import clusters_at_once, ctas_per_sm

TERMS = 2


def told(config: RouterConfig) -> int:
    """Clusters of a configuration that the driver says run at once."""
    from cuda.bindings import driver as bindings
    from cuda.core import ObjectCode

    compiled = cuda.compiled(config, TERMS)
    kernel = ObjectCode.from_cubin(compiled.cubin).get_kernel(compiled.symbol)
    device = bindings.CUdevice(streams.current_device())
    shared = config.shared_bytes(TERMS)
    attributes = bindings.CUfunction_attribute
    for attribute, value in (
        (attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared),
        (attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
    ):
        driver.check(bindings.cuKernelSetAttribute(attribute, value, kernel.handle, device), "setting an attribute")
    size = config.cluster
    launch = configuration((size * 64, 1, 1), (config.threads, 1, 1), (size, 1, 1), shared, False, 0)
    status = bindings.cuOccupancyMaxActiveClusters(bindings.CUfunction(int(kernel.handle)), launch)
    return int(driver.check(status, "asking for clusters"))


def main() -> None:
    """Print what the driver says beside what the cost model assumes."""
    import torch

    torch.zeros(1, device="cuda")  # a context
    streams.enter_context(streams.current_device())
    sms = environment_here().sms or 1
    for tile_m, tile_n, stages in ((64, 96, 6), (64, 48, 4)):
        found = {}
        for split_k in (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16):
            config = RouterConfig(tile_m=tile_m, tile_n=tile_n, stages=stages, split_k=split_k)
            found[split_k] = told(config), clusters_at_once(split_k, ctas_per_sm(config, TERMS), sms)
        print(f"{ctas_per_sm(config, TERMS)} CTAs an SM, cluster: (told, assumed): {json.dumps(found)}")


if __name__ == "__main__":
    main()
