"""Small kernels to compile, and a cache of compiled kernels that starts empty in every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.gpu import compile as compiler
from workbench.gpu.source import Source


@pytest.fixture(autouse=True)
def cache_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of compiled kernels, empty; the process's memory is emptied too."""
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "cache"))
    compiler.forget()
    return compiler.cache_folder()


@pytest.fixture
def saxpy() -> Source:
    """``saxpy(float a, const float* x, float* y, int n)``, with ``BLOCK`` threads a CTA."""
    return Source.inline(
        """
        extern "C" __global__ void __launch_bounds__(BLOCK) saxpy(float a, const float* x, float* y, int n) {
            int i = blockIdx.x * BLOCK + threadIdx.x;
            if (i < n) y[i] = a * x[i] + y[i];
        }
        """,
        "saxpy.cu",
    )


@pytest.fixture
def reverse() -> Source:
    """``reverse<N, T>(T* x)``: a template with N elements of static shared memory."""
    return Source.inline(
        """
        template <int N, typename T>
        __global__ void reverse(T* x) {
            __shared__ T tile[N];
            tile[threadIdx.x] = x[threadIdx.x];
            __syncthreads();
            x[threadIdx.x] = tile[N - 1 - threadIdx.x];
        }
        """,
        "reverse.cu",
    )
