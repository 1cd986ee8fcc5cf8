"""Compiling with NVRTC on a machine with no GPU, and finding what was compiled before."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from workbench import paths
from workbench.errors import CompileError, InvalidArgument
from workbench.gpu import compile as compiler
from workbench.gpu import toolkit
from workbench.gpu.compile import compile_kernel
from workbench.gpu.source import Source

pytest.importorskip("cuda.core", reason="the compiler's packages exist for Linux only")


def test_a_c_function_keeps_its_name(saxpy: Source) -> None:
    kernel = compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128})
    assert (kernel.symbol, kernel.arch) == ("saxpy", "sm_90a")
    assert kernel.cubin.startswith(b"\x7fELF")
    assert "Compiling entry function 'saxpy' for 'sm_90a'" in kernel.log
    assert kernel.warnings == ()
    assert str(kernel) == "saxpy.cu: saxpy for sm_90a with BLOCK=128"


def test_a_template_is_found_by_its_expression(reverse: Source) -> None:
    kernel = compile_kernel(reverse, "reverse<64, double>")
    assert kernel.symbol == "_Z7reverseILi64EdEvPT0_"
    assert kernel.facts.shared_bytes == 64 * 8


def test_constants_reach_the_code(saxpy: Source) -> None:
    for threads in (64, 256):
        assert compile_kernel(saxpy, "saxpy", defines={"BLOCK": threads}).facts.max_threads == threads


def test_truth_values_are_one_and_zero() -> None:
    text = '#if A != 1 || B != 0\n#error wrong\n#endif\nextern "C" __global__ void f() {}'
    assert compile_kernel(Source.inline(text), "f", defines={"A": True, "B": False}).defines == {"A": "1", "B": "0"}


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a", "sm_100a"])
def test_every_gpu_of_the_catalogue_can_be_compiled_for(reverse: Source, arch: str) -> None:
    kernel = compile_kernel(reverse, "reverse<32, float>", arch=arch)
    assert (kernel.arch, kernel.facts.shared_bytes) == (arch, 128)


def test_headers_of_the_toolkit_are_found() -> None:
    text = """
    #include <cuda/std/cstdint>
    #include <cuda_fp8.h>
    #include <cuda_bf16.h>
    extern "C" __global__ void f(cuda::std::uint32_t* x, __nv_fp8_e4m3* y) { *x = y->__x; }
    """
    assert compile_kernel(Source.inline(text), "f").facts.parameter_sizes == (8, 8)


def test_an_error_names_the_configuration_and_shows_the_line() -> None:
    text = 'extern "C" __global__ void f(int* x) {\n    *x = undeclared_name;\n}'
    with pytest.raises(CompileError) as caught:
        compile_kernel(Source.inline(text, "broken.cu"), "f", defines={"TILE": 64})
    message = str(caught.value)
    assert "broken.cu: f for sm_90a with TILE=64 does not compile" in message
    assert 'broken.cu(2): error: identifier "undeclared_name" is undefined' in message
    assert "*x = undeclared_name;" in message
    assert caught.value.log.strip() in message


def test_an_entry_that_is_not_there_is_an_error(saxpy: Source) -> None:
    with pytest.raises(CompileError, match="daxpy"):
        compile_kernel(saxpy, "daxpy", defines={"BLOCK": 32})


def test_a_failure_is_not_kept(cache_root: Path) -> None:
    with pytest.raises(CompileError):
        compile_kernel(Source.inline("nonsense"), "f")
    assert not cache_root.exists()


@pytest.mark.parametrize("arch", ["90a", "sm_9", "compute_90", "sm_90b", ""])
def test_a_wrong_target_is_refused(saxpy: Source, arch: str) -> None:
    with pytest.raises(InvalidArgument, match="sm_90a"):
        compile_kernel(saxpy, "saxpy", arch=arch)


def test_a_wrong_macro_name_is_refused(saxpy: Source) -> None:
    with pytest.raises(InvalidArgument, match="BLOCK-SIZE"):
        compile_kernel(saxpy, "saxpy", defines={"BLOCK-SIZE": 1})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"source": None}, "source is a NoneType; give a path, or a Source"),
        ({"source": "nosuch.cu"}, "There is no kernel source 'nosuch.cu'"),
        ({"entry": ""}, "entry is ''; give the kernel's name"),
        ({"entry": None}, "entry is None; give the kernel's name"),
        ({"arch": 90}, "arch is 90; give a target"),
        ({"defines": ["BLOCK"]}, "defines is a list; give a mapping"),
        ({"defines": {1: 2}}, "1 cannot be the name of a macro"),
        ({"defines": {"BLOCK": None}}, "The macro BLOCK is None; give a finite number"),
        ({"defines": {"BLOCK": float("inf")}}, "The macro BLOCK is inf; give a finite number"),
        ({"defines": {"BLOCK": "1\n#error"}}, "or text of one line"),
        ({"max_registers": 0}, "max_registers is 0; give 1 to 255, or None"),
        ({"max_registers": 256}, "max_registers is 256; give 1 to 255"),
        ({"max_registers": "32"}, "max_registers is '32'"),
    ],
    ids=str,
)
def test_what_cannot_be_compiled_is_refused(saxpy: Source, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(words)):
        compile_kernel(**{"source": saxpy, "entry": "saxpy", "defines": {"BLOCK": 32}, **given})


@pytest.mark.parametrize("here", [False, True])
def test_a_header_of_cuda_that_is_not_here_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, here: bool) -> None:
    if not here:
        monkeypatch.setattr(toolkit, "header_folders", lambda: ())
    with pytest.raises(CompileError, match=r"cannot open source file \"cooperative") as caught:
        compile_kernel(Source.inline("#include <cooperative_groups/no_such_part.h>"), "f")
    assert ("pip install 'nvidia-cuda-cccl==13.0.*'" in str(caught.value)) is not here


def test_our_kernels_need_no_header_of_cuda() -> None:
    """So they compile wherever NVRTC is."""
    kernels = paths.kernels_dir()
    sources = [*kernels.rglob("*.cu"), *kernels.rglob("*.cuh")]
    assert sources
    for source in sources:
        for name in re.findall(r"^\s*#\s*include\s*[<\"](.+?)[>\"]", source.read_text(), re.MULTILINE):
            assert (kernels / name).is_file() or (source.parent / name).is_file(), f"{source}: {name}"


def test_the_same_request_gives_the_same_object(saxpy: Source) -> None:
    first = compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128})
    assert compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128}) is first
    assert compile_kernel(saxpy, "saxpy", defines={"BLOCK": 64}) is not first


def test_another_process_finds_it_on_disk(saxpy: Source) -> None:
    first = compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128})
    compiler.forget()
    again = compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128})
    assert (first.from_cache, again.from_cache) == (False, True)
    same = ("symbol", "cubin", "log", "facts", "key", "compile_seconds", "defines")
    assert [getattr(first, name) for name in same] == [getattr(again, name) for name in same]


def test_every_option_is_part_of_the_key(saxpy: Source) -> None:
    requests = [
        {},
        {"arch": "sm_80"},
        {"max_registers": 32},
        {"fast_math": True},
        {"line_info": True},
        {"defines": {"BLOCK": 64}},
        {"defines": {"BLOCK": 128, "OTHER": 1}},
    ]
    keys = {compile_kernel(saxpy, "saxpy", **{"defines": {"BLOCK": 128}, **given}).key for given in requests}
    assert len(keys) == len(requests)


def test_the_compiler_version_is_part_of_the_key(saxpy: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128})
    monkeypatch.setattr(compiler, "compiler_version", lambda: "99.0")
    assert compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128}).key != first.key


def test_a_changed_header_compiles_again(tmp_path: Path) -> None:
    (tmp_path / "value.h").write_text("#define THREADS 32\n")
    text = '#include "value.h"\nextern "C" __global__ void __launch_bounds__(THREADS) f() {}'
    source = Source("f.cu", text, (tmp_path,))
    assert compile_kernel(source, "f").facts.max_threads == 32
    (tmp_path / "value.h").write_text("#define THREADS 64\n")
    assert compile_kernel(source, "f").facts.max_threads == 64


def test_a_damaged_cubin_is_compiled_again(saxpy: Source, cache_root: Path) -> None:
    first = compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128})
    (file,) = cache_root.glob("*/*/kernel.cubin")
    file.write_bytes(first.cubin[:-1])
    compiler.forget()
    again = compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128})
    assert (again.from_cache, again.cubin) == (False, first.cubin)
    assert file.read_bytes() == first.cubin


def test_threads_compile_one_request_once(saxpy: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    compile_once = compiler._compile
    monkeypatch.setattr(compiler, "_compile", lambda *args: calls.append(args) or compile_once(*args))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: compile_kernel(saxpy, "saxpy", defines={"BLOCK": 32}), range(8)))
    assert len(calls) == 1
    assert all(kernel is found[0] for kernel in found)


WORKER = """
import hashlib
from workbench.gpu.compile import compile_kernel
from workbench.gpu.source import Source
text = 'extern "C" __global__ void f(int* x) { *x = 1; }'
input()
print(hashlib.sha256(compile_kernel(Source.inline(text), "f").cubin).hexdigest())
"""


def test_processes_that_compile_the_same_agree_on_one_entry(cache_root: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", WORKER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    workers = [subprocess.Popen(command, text=True, **pipes) for _ in range(3)]
    results = [worker.communicate("go\n") for worker in workers]
    assert [errors for _, errors in results] == [""] * 3
    assert len({digest for digest, _ in results}) == 1
    assert len(list(cache_root.glob("*/*"))) == 1


def test_a_kernel_is_immutable(saxpy: Source) -> None:
    kernel = compile_kernel(saxpy, "saxpy", defines={"BLOCK": 128})
    with pytest.raises(dataclasses.FrozenInstanceError):
        kernel.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        kernel.defines["BLOCK"] = "1"  # type: ignore[index]
