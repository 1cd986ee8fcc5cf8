"""Where a Triton kernel runs: on a GPU, or in Triton's interpreter on a CPU."""

from __future__ import annotations

import torch

from workbench.errors import InvalidArgument


def is_interpreted(kernel: object, device: torch.device, name: str, *, otherwise: str = "") -> bool:
    """Whether a kernel runs in the interpreter, which was decided when Triton was imported.

    Parameters
    ----------
    kernel
        What ``triton.jit`` made.
    device, name
        Where the tensors are, and the argument that says so.
    otherwise
        Another way for CPU tensors, a sentence.

    Raises
    ------
    InvalidArgument
        The kernel cannot run on the device.
    """
    import triton

    interpreted = not isinstance(kernel, triton.JITFunction)
    if interpreted == (device.type == "cpu"):
        return interpreted
    if interpreted:
        raise InvalidArgument(
            f"{name} is on {device}, and Triton runs in its interpreter here; unset TRITON_INTERPRET, or give CPU "
            "tensors."
        )
    raise InvalidArgument(
        f"{name} is on {device}; move the tensors to a GPU, or set TRITON_INTERPRET=1 before Triton is imported to run "
        f"in its interpreter. {otherwise}".rstrip()
    )
