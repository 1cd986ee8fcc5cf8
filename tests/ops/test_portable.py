from __future__ import annotations

import pytest
import torch

from workbench.errors import InvalidArgument
from workbench.ops.portable import is_interpreted

triton = pytest.importorskip("triton")

CPU, GPU = torch.device("cpu"), torch.device("cuda", 1)


def kernel():
    """Triton reads its source, and never runs it here."""


def compiled() -> object:
    """What ``triton.jit`` makes for a GPU, whatever the environment of the tests says."""
    return triton.JITFunction(kernel)


def test_a_kernel_runs_where_its_tensors_are() -> None:
    assert is_interpreted("interpreted", CPU, "x") is True
    assert is_interpreted(compiled(), GPU, "x") is False


def test_tensors_elsewhere_are_refused_with_a_way_out() -> None:
    with pytest.raises(InvalidArgument, match=r"^x is on cuda:1, and Triton runs in its interpreter here; unset"):
        is_interpreted("interpreted", GPU, "x")
    with pytest.raises(InvalidArgument, match=r"^x is on cpu; move the tensors to a GPU, .* in its interpreter\.$"):
        is_interpreted(compiled(), CPU, "x")
    with pytest.raises(InvalidArgument, match=r"in its interpreter\. Do this\.$"):
        is_interpreted(compiled(), CPU, "x", otherwise="Do this.")
