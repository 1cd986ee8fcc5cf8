"""Launching: refusals that need no GPU, and runs on one."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from workbench.errors import InvalidArgument, LaunchError, NoGpu
from workbench.gpu import driver
from workbench.gpu.compile import compile_kernel
from workbench.gpu.launch import Kernel
from workbench.gpu.source import Source

torch = pytest.importorskip("torch", reason="launching needs torch")
pytest.importorskip("cuda.core", reason="the compiler's packages exist for Linux only")

needs_no_gpu = pytest.mark.skipif(driver.probe().problem is None, reason="this machine has a GPU")


def saxpy_kernel(source: Source, threads: int = 128) -> Kernel:
    return Kernel(compile_kernel(source, "saxpy", defines={"BLOCK": threads}))


NULLS = (np.float32(2), None, None, np.int32(0))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (NULLS[:3], "got 3 arguments; the kernel takes 4"),
        ((np.float64(2), None, None, np.int32(0)), "argument 0 is a float64 with 8 bytes"),
        ((np.float32(2), None, None, np.int64(0)), "argument 3 is a int64 with 8 bytes"),
        ((np.float32(2), None, None, 7), "argument 3 is a int with no size of its own"),
        ((2.0, None, None, np.int32(0)), "argument 0 is a float with no size"),
        ((np.float32(2), np.zeros(3), None, np.int32(0)), "argument 1 is a ndarray with no size"),
    ],
)
def test_arguments_of_the_wrong_size_are_refused(saxpy: Source, args: tuple[object, ...], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        saxpy_kernel(saxpy).launch(1, 128, args)


def test_a_tensor_on_the_cpu_is_refused(saxpy: Source) -> None:
    with pytest.raises(InvalidArgument, match=r"argument 1 is a tensor on cpu; move it to a GPU"):
        saxpy_kernel(saxpy).launch(1, 128, (np.float32(2), torch.zeros(3), None, np.int32(3)))


class Parameters(ctypes.Structure):
    """What the kernel of `structure` takes."""

    _fields_ = (("out", ctypes.c_void_p), ("start", ctypes.c_int), ("factor", ctypes.c_float))


@pytest.fixture
def structure() -> Source:
    """``f(Parameters)``: a kernel whose one parameter is a structure."""
    return Source.inline(
        """
        struct Parameters { float* out; int start; float factor; };
        extern "C" __global__ void f(const __grid_constant__ Parameters given) {
            given.out[threadIdx.x] = (given.start + (int)(blockDim.x * blockIdx.x)) * given.factor;
        }
        """
    )


def test_a_structure_of_the_wrong_size_is_refused(structure: Source) -> None:
    class Short(ctypes.Structure):
        _fields_ = (("out", ctypes.c_void_p),)

    kernel = Kernel(compile_kernel(structure, "f"))
    with pytest.raises(InvalidArgument, match="argument 0 is a Short with 8 bytes; the kernel's parameter has 16"):
        kernel.launch(1, 32, (Short(),))


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"grid": 0}, "grid is 0"),
        ({"grid": (1, 1, 1, 1)}, "one to three numbers"),
        ({"grid": ()}, "one to three numbers"),
        ({"block": -1}, "block is -1"),
        ({"block": 129}, "has 129 threads; allowed are 128"),
        ({"block": (64, 3)}, "has 192 threads"),
        ({"shared_bytes": -1}, "shared_bytes is -1"),
        ({"grid": 7, "cluster": 2}, "grid 7 is not a multiple of cluster 2"),
        ({"grid": (8, 3), "cluster": (2, 2)}, "not a multiple"),
    ],
)
def test_impossible_sizes_are_refused(saxpy: Source, sizes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        saxpy_kernel(saxpy).launch(**{"grid": 1, "block": 128, "args": NULLS, **sizes})  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [[1, 2], 1.5, "1", None], ids=repr)
@pytest.mark.parametrize("name", ["grid", "block"])
def test_what_is_no_size_is_refused_with_the_kernels_name(saxpy: Source, name: str, size: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"saxpy.cu: saxpy .*: {name} is .*; give one to three numbers"):
        saxpy_kernel(saxpy).launch(**{"grid": 1, "block": 128, "args": NULLS, name: size})


@pytest.mark.parametrize("args", [None, 3, iter(NULLS), {"a": 1}, "args"], ids=lambda args: type(args).__name__)
def test_arguments_come_in_a_list(saxpy: Source, args: Any) -> None:
    """An iterator would be used up by the check of its sizes."""
    with pytest.raises(InvalidArgument, match=r"args is a \w+; give a list, one a parameter"):
        saxpy_kernel(saxpy).launch(1, 128, args)


def test_only_what_was_compiled_can_be_launched() -> None:
    with pytest.raises(InvalidArgument, match=r"compiled is a str; give what compile_kernel\(...\) returns"):
        Kernel("saxpy")  # type: ignore[arg-type]


@needs_no_gpu
def test_without_a_gpu_a_launch_says_so_and_does_not_wait(saxpy: Source) -> None:
    for cluster in (None, 2):
        with pytest.raises(NoGpu, match="driver"):
            saxpy_kernel(saxpy).launch(2, 128, NULLS, cluster=cluster)
    with pytest.raises(NoGpu, match="driver"):
        saxpy_kernel(saxpy).load()


@pytest.fixture
def arch() -> str:
    """Target of this machine's GPU, with the suffix that clusters and the copy engine need from Hopper on."""
    major, minor = driver.device(0).compute_capability
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


@pytest.mark.gpu
@pytest.mark.parametrize("count", [1, 127, 128, 100_003])
def test_saxpy(saxpy: Source, arch: str, count: int) -> None:
    kernel = Kernel(compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128}, arch=arch))
    x, y = torch.randn(count, device="cuda"), torch.randn(count, device="cuda")
    expected = 3.0 * x.double() + y.double()
    kernel.launch(-(-count // 128), 128, (np.float32(3), x, y, np.int32(count)))
    torch.testing.assert_close(y.double(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("pdl", [False, True])
def test_a_structure_reaches_the_kernel_also_in_a_graph(structure: Source, arch: str, pdl: bool) -> None:
    kernel = Kernel(compile_kernel(structure, "f", arch=arch))
    out = torch.zeros(32, device="cuda")
    given = Parameters(out.data_ptr(), 6, 0.5)
    kernel.launch(1, 32, (given,), pdl=pdl)
    assert torch.equal(out, torch.full_like(out, 3.0))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel.launch(1, 32, (given,), pdl=pdl)
    given.start = 100  # the captured launch keeps its copy
    out.zero_()
    graph.replay()
    assert torch.equal(out, torch.full_like(out, 3.0))
    with pytest.raises(LaunchError, match=r"grid \(1, 70000\)"):
        kernel.launch((1, 70_000), 32, (given,))


@pytest.mark.gpu
@pytest.mark.parametrize("kilobytes", [16, 48, 100, 160])
def test_dynamic_shared_memory_above_48_kb(arch: str, kilobytes: int) -> None:
    text = """
    extern "C" __global__ void f(int* out, int n) {
        extern __shared__ int tile[];
        for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = i * 3;
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tile[n - 1 - i];
    }
    """
    count = kilobytes * 1024 // 4
    if kilobytes * 1024 > driver.device(0).shared_per_block:
        pytest.skip(f"a CTA has at most {driver.device(0).shared_per_block} bytes here")
    out = torch.zeros(count, dtype=torch.int32, device="cuda")
    kernel = Kernel(compile_kernel(Source.inline(text), "f", arch=arch))
    kernel.launch(1, 256, (out, np.int32(count)), shared_bytes=kilobytes * 1024)
    assert torch.equal(out, 3 * torch.arange(count - 1, -1, -1, dtype=torch.int32, device="cuda"))
    with pytest.raises(InvalidArgument, match="a CTA may have"):
        kernel.launch(1, 256, (out, np.int32(count)), shared_bytes=driver.device(0).shared_per_block + 1)


@pytest.mark.gpu
def test_a_captured_launch_replays_with_new_contents(saxpy: Source, arch: str) -> None:
    kernel = Kernel(compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128}, arch=arch))
    kernel.load()
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            kernel.launch(8, 128, (np.float32(2), x, y, np.int32(1000)))
    assert torch.equal(y, torch.zeros_like(y))  # capturing runs nothing
    for factor in (1, 10):
        x.fill_(factor)
        y.zero_()
        graph.replay()
        assert torch.equal(y, torch.full_like(y, 6 * factor))


@pytest.mark.gpu
def test_a_launch_follows_the_stream_it_is_given(saxpy: Source, arch: str) -> None:
    kernel = Kernel(compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128}, arch=arch))
    kernel.load()
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)  # cycles: some 0.1 s, far longer than three launches take
        kernel.launch(8, 128, (np.float32(1), x, y, np.int32(1000)))
    kernel.launch(8, 128, (np.float32(1), x, y, np.int32(1000)), stream=side)
    kernel.launch(8, 128, (np.float32(1), x, y, np.int32(1000)), stream=side.cuda_stream)
    assert not side.query()  # still behind the sleep
    side.synchronize()
    assert torch.equal(y, torch.full_like(y, 3))
    with pytest.raises(InvalidArgument, match="stream is"):
        kernel.launch(8, 128, (np.float32(1), x, y, np.int32(1000)), stream="side")


@pytest.mark.gpu
def test_a_launch_in_another_thread_finds_its_context(saxpy: Source, arch: str) -> None:
    from threading import Thread

    kernel = Kernel(compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128}, arch=arch))
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    errors = []

    def work() -> None:
        try:
            kernel.launch(8, 128, (np.float32(1), x, y, np.int32(1000)))
        except Exception as error:
            errors.append(error)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert errors == []
    assert torch.equal(y, x)


@pytest.mark.gpu
def test_a_dependent_kernel_overlaps_the_one_before_and_sees_its_results(arch: str) -> None:
    if driver.device(0).compute_capability < (9, 0):
        pytest.skip("programmatic dependent launch exists from compute capability 9.0 on")
    # The first kernel lets the second start, then waits for a sign of life from it: without overlap it waits in vain.
    text = """
    extern "C" __global__ void first(volatile int* alive, int* value, int* overlapped) {
        asm volatile("griddepcontrol.launch_dependents;");
        long long start = clock64();
        while (!*alive && clock64() - start < 20000000) {}
        *overlapped = *alive;
        *value = 42;
    }
    extern "C" __global__ void second(volatile int* alive, const int* value, int* out) {
        *alive = 1;
        __threadfence();
        asm volatile("griddepcontrol.wait;" ::: "memory");
        *out = *value + 1;
    }
    """
    first, second = (Kernel(compile_kernel(Source.inline(text), name, arch=arch)) for name in ("first", "second"))
    second.load()
    for pdl in (False, True):
        alive, value, overlapped, out = (torch.zeros(1, dtype=torch.int32, device="cuda") for _ in range(4))
        torch.cuda.synchronize()
        first.launch(1, 1, (alive, value, overlapped))
        second.launch(1, 1, (alive, value, out), pdl=pdl)
        torch.cuda.synchronize()
        assert out.item() == 43
        assert overlapped.item() == int(pdl)


NEIGHBOUR = """
extern "C" __global__ void f(int* out) {
    __shared__ int mine;
    unsigned rank, ctas, theirs;
    int value;
    asm volatile("mov.u32 %0, %%cluster_ctarank; mov.u32 %1, %%cluster_nctarank;" : "=r"(rank), "=r"(ctas));
    if (threadIdx.x == 0) mine = blockIdx.x;
    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(theirs) : "r"((unsigned)__cvta_generic_to_shared(&mine)), "r"((rank + 1) % ctas));
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(value) : "r"(theirs) : "memory");
    if (threadIdx.x == 0) out[blockIdx.x] = value;
    // Whose shared memory is still being read must not end.
    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}
"""
"""Each CTA of a cluster writes the number of the next one, read from that one's shared memory."""


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_the_cluster_kernel_compiles(arch: str) -> None:
    facts = compile_kernel(Source.inline(NEIGHBOUR), "f", arch=arch).facts
    assert facts.parameter_sizes == (8,)
    assert not facts.spill_store_bytes


@pytest.mark.gpu
@pytest.mark.parametrize("size", [1, 2, 8, 16])
def test_ctas_of_a_cluster_exchange_shared_memory(arch: str, size: int) -> None:
    if driver.device(0).compute_capability < (9, 0):
        pytest.skip("clusters exist from compute capability 9.0 on")
    kernel = Kernel(compile_kernel(Source.inline(NEIGHBOUR), "f", arch=arch))
    out = torch.zeros(4 * size, dtype=torch.int32, device="cuda")
    kernel.launch(4 * size, 32, (out,), cluster=size)
    base = torch.arange(4).repeat_interleave(size) * size
    expected = base + (torch.arange(4 * size) % size + 1) % size
    assert torch.equal(out.cpu(), expected.int())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel.launch(4 * size, 32, (out,), cluster=size)
    out.zero_()
    graph.replay()
    assert torch.equal(out.cpu(), expected.int())


@pytest.mark.gpu
def test_a_kernel_for_another_architecture_is_refused(saxpy: Source) -> None:
    other = "sm_80" if driver.device(0).compute_capability[0] >= 9 else "sm_90a"
    kernel = Kernel(compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128}, arch=other))
    with pytest.raises(LaunchError, match=f"was compiled for {other}.*Compile it with arch="):
        kernel.launch(1, 128, NULLS)


@pytest.mark.gpu
def test_what_the_driver_refuses_names_the_launch(saxpy: Source, arch: str) -> None:
    kernel = Kernel(compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128}, arch=arch))
    with pytest.raises(LaunchError, match=r"grid \(1, 70000\).*CUDA_ERROR_INVALID_VALUE"):
        kernel.launch((1, 70_000), 128, NULLS)


@pytest.mark.gpu
def test_the_driver_counts_as_many_resident_ctas(arch: str, reverse: Source) -> None:
    from cuda.core import ObjectCode

    from workbench import devices
    from workbench.gpu.occupancy import occupancy

    here = driver.device(0)
    try:
        gpu = devices.gpu(here.name)
    except InvalidArgument:
        pytest.skip(f"{here.name} is not in the catalogue")
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    for count in (64, 2048, 12288):
        compiled = compile_kernel(reverse, f"reverse<{count}, float>", arch=arch)
        loaded = ObjectCode.from_cubin(compiled.cubin).get_kernel(compiled.symbol)
        for threads in (32, 128, 1024):
            ours = occupancy(
                gpu, threads=threads, registers=compiled.facts.registers, shared_bytes=compiled.facts.shared_bytes
            )
            assert ours.ctas_per_sm == loaded.occupancy.max_active_blocks_per_multiprocessor(threads, 0)
