"""Tensor maps: the rules of the copy engine, and a copy through one on a GPU."""

from __future__ import annotations

import pytest

from workbench.errors import InvalidArgument, NoGpu
from workbench.gpu import driver
from workbench.gpu.compile import compile_kernel
from workbench.gpu.launch import Kernel
from workbench.gpu.source import Source
from workbench.gpu.tensor_map import check_tensor_map, tensor_map

torch = pytest.importorskip("torch", reason="a tensor map describes a torch tensor")
pytest.importorskip("cuda.core", reason="the compiler's packages exist for Linux only")

CACHE = torch.zeros(4, 16, 2, 128, dtype=torch.bfloat16)  # pages, page size, KV heads, head dim


def test_views_of_a_cache_in_either_layout_pass() -> None:
    check_tensor_map(CACHE, (1, 16, 1, 64), 128)
    check_tensor_map(CACHE.permute(0, 2, 1, 3), (1, 1, 16, 64), 128)
    check_tensor_map(CACHE[:, :, 1], (1, 16, 64), 128)


@pytest.mark.parametrize(
    ("tensor", "box", "swizzle", "words"),
    [
        (torch.zeros(()), (), 0, "1 to 5 dimensions"),
        (torch.zeros(1, 1, 1, 1, 1, 8), (1, 1, 1, 1, 1, 8), 0, "1 to 5 dimensions"),
        (torch.zeros(8, 8, dtype=torch.complex64), (8, 8), 0, "complex64"),
        (torch.zeros(8, 8).T.contiguous().T, (8, 8), 0, "contiguous"),
        (torch.zeros(8, 7), (8, 4), 0, "multiples of 16 bytes"),
        (torch.zeros(8, 8)[:, 1:5], (8, 4), 0, "address"),
        (torch.zeros(0, 8), (1, 8), 0, "extent"),
        (torch.zeros(8).expand(4, 8), (4, 8), 0, "Strides"),
        (torch.zeros(8, 8), (8,), 0, "one extent"),
        (torch.zeros(512, 8), (257, 8), 0, "1 to 256"),
        (torch.zeros(8, 8), (0, 8), 0, "1 to 256"),
        (torch.zeros(8, 8), (8, 3), 0, "row of the box"),
        (torch.zeros(8, 64), (8, 64), 128, "at most the swizzle"),
        (torch.zeros(8, 8), (8, 8), 48, "swizzle is 48"),
        (None, (8, 8), 0, "dense torch tensor; given is a NoneType"),
        ([[1.0]], (8, 8), 0, "given is a list"),
        (torch.zeros(8, 8).to_sparse(), (8, 8), 0, "given is a torch.sparse_coo"),
        (torch.zeros(8, 8), 8, 0, "box is 8; give a tuple"),
        (torch.zeros(8, 8), None, 0, "box is None; give a tuple"),
        (torch.zeros(8, 8), (8.0, 8), 0, "box is .*one extent of 1 to 256"),
        (torch.zeros(8, 8), "ab", 0, "box is 'ab'; give a tuple"),
    ],
)
def test_a_broken_rule_is_named(tensor: object, box: tuple[int, ...], swizzle: int, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        tensor_map(tensor, box, swizzle=swizzle)  # type: ignore[arg-type]


@pytest.mark.skipif(driver.probe().problem is None, reason="this machine has a GPU")
def test_without_a_gpu_it_says_so() -> None:
    with pytest.raises(NoGpu, match="driver"):
        tensor_map(CACHE, (1, 16, 1, 64), swizzle=128)


COPY = """
struct alignas(64) TensorMap { char opaque[128]; };
extern "C" __global__ void copy(const __grid_constant__ TensorMap map, char* out, int bytes, int x, int y, int z) {
    extern __shared__ __align__(1024) char tile[];
    __shared__ __align__(8) unsigned long long barrier;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier), to = (unsigned)__cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%3, %4, %5}], [%2];"
                     :: "r"(to), "l"(&map), "r"(bar), "r"(x), "r"(y), "r"(z) : "memory");
    }
    __syncthreads();
    unsigned done = 0;
    while (!done) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(bar) : "memory");
    }
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = tile[i];
}
"""


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_the_copy_kernel_compiles(arch: str) -> None:
    assert compile_kernel(Source.inline(COPY, "copy.cu"), "copy", arch=arch).facts.parameter_sizes[0] == 128


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float32"])
@pytest.mark.parametrize("heads_first", [False, True])
def test_the_engine_copies_the_described_box_and_fills_with_zeros(dtype: str, heads_first: bool) -> None:
    import numpy as np

    major, minor = driver.device(0).compute_capability
    if major < 9:
        pytest.skip("the bulk copy engine exists from compute capability 9.0 on")
    whole = torch.randn(24, 2, 64, device="cuda").to(getattr(torch, dtype))
    view = whole.permute(1, 0, 2) if heads_first else whole
    box = (1, 16, 64) if heads_first else (16, 1, 64)
    described = tensor_map(view, box, l2_promotion=128)
    kernel = Kernel(compile_kernel(Source.inline(COPY, "copy.cu"), "copy", arch=f"sm_{major}{minor}a"))
    size = 16 * 64 * whole.element_size()
    out = torch.full((size,), 77, dtype=torch.uint8, device="cuda")
    # Rows 16 to 31 of head 1; rows 24 and up do not exist.
    where = (0, 16, 1) if heads_first else (0, 1, 16)
    kernel.launch(1, 128, (described, out, np.int32(size), *map(np.int32, where)), shared_bytes=size)
    copied = out.view(whole.dtype).view(16, 64).float()
    assert torch.equal(copied[:8], whole[16:, 1].float())
    assert torch.equal(copied[8:], torch.zeros_like(copied[8:]))
