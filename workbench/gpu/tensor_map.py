"""Describe a tensor to the bulk copy engine (TMA) of Hopper and later GPUs.

A tensor map holds address, shape, strides and the box that one copy moves. It is made by the host, passed to a kernel
as a ``const __grid_constant__ CUtensorMap`` parameter, and stays valid while the tensor's memory does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from workbench.errors import InvalidArgument, LaunchError
from workbench.gpu import driver, streams

if TYPE_CHECKING:
    import torch
    from cuda.core import TensorMapDescriptor

Swizzle = Literal[0, 32, 64, 128]

_ALIGNMENT = 16
_MOST_BOX = 256
_MOST_SIZE = 1 << 32
_MOST_STRIDE = 1 << 40


def tensor_map(
    tensor: torch.Tensor, box: tuple[int, ...], *, swizzle: Swizzle = 0, l2_promotion: Swizzle | Literal[256] = 0
) -> TensorMapDescriptor:
    """Make a tensor map.

    Parameters
    ----------
    tensor : torch.Tensor
        On the GPU, 1 to 5 dimensions, the last one contiguous; the others may have any order of strides. Element types
        of 1, 2, 4 or 8 bytes; FP8 is moved as bytes. Elements outside the tensor are filled with zeros.
    box : tuple of int
        Elements that one copy moves, in the order of the tensor's dimensions, 1 to 256 each.
    swizzle : {0, 32, 64, 128}
        Width in bytes of the pattern that spreads rows over the banks of shared memory; 0 for none.
    l2_promotion : {0, 64, 128, 256}
        Bytes that a miss brings into L2; 0 for none.

    Returns
    -------
    TensorMapDescriptor
        128 bytes, to be given to `workbench.gpu.launch.Kernel.launch` as an argument. It keeps the tensor alive.

    Raises
    ------
    InvalidArgument
        The engine cannot copy this tensor with this box; the message says which rule is broken.
    NoGpu
        There is no GPU.
    LaunchError
        The driver refuses all the same.
    """
    check_tensor_map(tensor, box, swizzle)
    if l2_promotion not in (0, 64, 128, 256):
        raise InvalidArgument(f"l2_promotion is {l2_promotion!r}; allowed are 0, 64, 128, 256.")
    driver.require_gpu()
    if not tensor.is_cuda:
        raise InvalidArgument(f"A tensor map needs a tensor on a GPU; this one is on {tensor.device}.")
    import torch
    from cuda.core import TensorMapDescriptorOptions
    from cuda.core._tensor_map import TensorMapDataType, TensorMapL2Promotion, TensorMapSwizzle
    from cuda.core._utils.cuda_utils import CUDAError
    from cuda.core.utils import StridedMemoryView

    # Read as integers of the same width, which the exchange between libraries knows for every element type.
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    types = {
        torch.bfloat16: TensorMapDataType.BFLOAT16,
        torch.float16: TensorMapDataType.FLOAT16,
        torch.float32: TensorMapDataType.FLOAT32,
        torch.float64: TensorMapDataType.FLOAT64,
        torch.int32: TensorMapDataType.INT32,
        torch.int64: TensorMapDataType.INT64,
    }
    by_width = {1: TensorMapDataType.UINT8, 2: TensorMapDataType.UINT16, 4: TensorMapDataType.UINT32}
    options = TensorMapDescriptorOptions(
        box_dim=box,
        data_type=types.get(tensor.dtype, by_width.get(tensor.element_size())),
        swizzle=getattr(TensorMapSwizzle, f"SWIZZLE_{swizzle}B" if swizzle else "NONE"),
        l2_promotion=getattr(TensorMapL2Promotion, f"L2_{l2_promotion}B" if l2_promotion else "NONE"),
    )
    with torch.cuda.device(tensor.device):
        streams.enter_context(tensor.get_device())
        view = StridedMemoryView.from_any_interface(tensor.detach().view(bits), stream_ptr=-1)
        try:
            return view.as_tensor_map(options=options)
        except (CUDAError, ValueError, RuntimeError) as error:
            raise LaunchError(
                f"The driver refuses a tensor map of shape {tuple(tensor.shape)}, strides {tensor.stride()}, type "
                f"{tensor.dtype}, box {box}, swizzle {swizzle}: {error}"
            ) from None


def check_tensor_map(tensor: Any, box: tuple[int, ...], swizzle: int = 0) -> None:
    """Check the rules of ``cuTensorMapEncodeTiled`` in the driver API's manual; needs no GPU.

    Raises
    ------
    InvalidArgument
        A rule is broken.
    """
    if not isinstance(tensor, streams.torch().Tensor) or tensor.layout != streams.torch().strided:
        kind = getattr(tensor, "layout", type(tensor).__name__)
        raise InvalidArgument(f"A tensor map describes a dense torch tensor; given is a {kind}.")
    shape, strides, size = tuple(tensor.shape), tuple(tensor.stride()), tensor.element_size()
    given = f"the tensor has shape {shape}, strides {strides} and elements of {size} bytes"
    if not 1 <= len(shape) <= 5:
        raise InvalidArgument(f"A tensor map has 1 to 5 dimensions; {given}.")
    if size not in (1, 2, 4, 8) or tensor.is_complex():
        raise InvalidArgument(f"A tensor map has real elements of 1, 2, 4 or 8 bytes, not {tensor.dtype}.")
    if strides[-1] != 1:
        raise InvalidArgument(f"The last dimension of a tensor map is contiguous; {given}.")
    if any(not 1 <= extent <= _MOST_SIZE for extent in shape):
        raise InvalidArgument(f"Each extent of a tensor map is 1 to 2**32; {given}.")
    if any(stride * size % _ALIGNMENT or not 0 < stride * size < _MOST_STRIDE for stride in strides[:-1]):
        raise InvalidArgument(f"Strides of a tensor map are multiples of 16 bytes below 2**40; {given}.")
    if tensor.data_ptr() % _ALIGNMENT:
        raise InvalidArgument(f"The address of a tensor map is a multiple of 16; this one is {tensor.data_ptr():#x}.")
    fits = isinstance(box, tuple) and len(box) == len(shape)
    if not fits or any(type(extent) is not int or not 1 <= extent <= _MOST_BOX for extent in box):
        raise InvalidArgument(
            f"box is {box!r}; give a tuple with one extent of 1 to {_MOST_BOX} for each dimension; {given}."
        )
    row = box[-1] * size
    if row % _ALIGNMENT:
        raise InvalidArgument(f"A row of the box is a multiple of 16 bytes; box {box} has rows of {row}.")
    if swizzle not in (0, 32, 64, 128):
        raise InvalidArgument(f"swizzle is {swizzle!r}; allowed are 0, 32, 64, 128.")
    if swizzle and row > swizzle:
        raise InvalidArgument(
            f"A row of the box is at most the swizzle's {swizzle} bytes; box {box} has rows of {row}."
        )
