"""Router weights split into bf16 terms: ``W = W0 + W1 / 256 (+ W2 / 65536)``."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from workbench.errors import InvalidArgument, StaleWeight
from workbench.ops.router_gemm.config import BLOCK

ROUNDINGS = ("nearest", "truncate")
SCALE = 256.0
"""What each further term is multiplied by, so that it does not leave bf16's range where W does not."""

_UPPER_HALF = -65536
"""The 16 bits of an FP32 value that bf16 keeps, as a signed integer."""


def _split_into(weight: torch.Tensor, rounding: str, terms: torch.Tensor) -> None:
    """Write the terms of an FP32 weight [N, K] into bf16 [terms, N, K]; each remainder is exact in FP32."""
    rest = weight
    for term in terms:
        term.copy_(rest if rounding == "nearest" else (rest.view(torch.int32) & _UPPER_HALF).view(torch.float32))
        rest = (rest - term.float()) * SCALE


def _block(terms: torch.Tensor, blocks: torch.Tensor) -> None:
    """Write terms [terms, N, K] into blocks [ceil(K / 64), terms, N, 64], whose end past K stays as it is."""
    whole = terms.shape[2] // BLOCK * BLOCK
    blocks[: whole // BLOCK].copy_(terms[:, :, :whole].reshape(*terms.shape[:2], -1, BLOCK).permute(2, 0, 1, 3))
    if whole < terms.shape[2]:
        blocks[-1, :, :, : terms.shape[2] - whole].copy_(terms[:, :, whole:])


def _check(weight: torch.Tensor) -> None:
    if not isinstance(weight, torch.Tensor):
        raise InvalidArgument(f"weight is a {type(weight).__name__}; give a torch tensor.")
    if weight.layout != torch.strided or weight.is_nested:
        raise InvalidArgument(f"weight is of layout {weight.layout}, or nested; give a dense tensor [experts, hidden].")
    if weight.ndim != 2 or weight.dtype != torch.float32:
        raise InvalidArgument(f"weight is {weight.dtype} {tuple(weight.shape)}; give torch.float32 [experts, hidden].")
    if not weight.is_contiguous():
        raise InvalidArgument(f"weight has strides {weight.stride()}; give a contiguous tensor [experts, hidden].")
    for name, size in zip(("experts (N)", "hidden size (K)"), weight.shape, strict=True):
        if size == 0 or size % 8:
            raise InvalidArgument(f"weight has {size} {name}; give a multiple of 8, such as {size // 8 * 8 + 8}.")


def _version(weight: torch.Tensor) -> int | None:
    """Count of in-place changes, None for inference tensors, which have none."""
    return None if weight.is_inference() else int(weight._version)


@dataclass(eq=False, repr=False)
class RouterWeight:
    """A router weight and its bf16 terms; made by :func:`split_router_weight`.

    Attributes
    ----------
    weight : float32 tensor [N, K]
        The weight that was split; not a copy.
    terms : bf16 tensor [terms, N, K]
        ``weight = terms[0] + terms[1] / 256 (+ terms[2] / 65536)``. Its memory never moves, so a graph captured with it
        stays right after :meth:`update_`.
    blocks : bf16 tensor [ceil(K / 64), terms, N, 64]
        The terms once more, in the order in which the CUDA kernel reads them: what it copies at once is one run of
        bytes, where rows of K would be as many pieces. Zero past K.
    rounding : str
        ``"nearest"`` or ``"truncate"``.
    fresh : bool
        Whether the terms were written since the last product, which then waits for the kernel that wrote them.
    """

    weight: torch.Tensor
    terms: torch.Tensor
    blocks: torch.Tensor
    rounding: str
    fresh: bool = True
    _seen: tuple[int, int | None] = (0, None)

    def __repr__(self) -> str:
        experts, hidden = self.shape
        return f"RouterWeight({experts} x {hidden}, {self.num_terms} terms, {self.rounding}, on {self.terms.device})"

    @property
    def shape(self) -> tuple[int, int]:
        """Experts and hidden size."""
        return self.terms.shape[1], self.terms.shape[2]

    @property
    def num_terms(self) -> int:
        """Terms, 2 or 3."""
        return self.terms.shape[0]

    def update_(self, weight: torch.Tensor) -> RouterWeight:
        """Split another weight of the same shape, or the same one after it changed, into the same memory.

        Runs on the GPU without synchronising and can be captured in a graph.

        Raises
        ------
        InvalidArgument
            For another shape, type or device.
        """
        _check(weight)
        if tuple(weight.shape) != self.shape or weight.device != self.terms.device:
            raise InvalidArgument(
                f"weight is {tuple(weight.shape)} on {weight.device}; this router weight is {self.shape} on "
                f"{self.terms.device}. Split the new one with split_router_weight."
            )
        with torch.no_grad():
            _split_into(weight.detach(), self.rounding, self.terms)
            _block(self.terms, self.blocks)
        self.weight, self.fresh = weight, True
        self._seen = (weight.data_ptr(), _version(weight))
        return self

    def verify(self, weight: torch.Tensor) -> bool:
        """Whether terms and blocks are those of ``weight``, by its contents; synchronises.

        Sees what :meth:`check_fresh` cannot: changes through ``weight.data``, of inference tensors, and a module whose
        weight is another tensor now, as after ``load_state_dict(..., assign=True)``.

        Raises
        ------
        InvalidArgument
            For another type than FP32, or where there are no contents: one of the two is on the meta device.
        """
        _check(weight)
        if weight.is_meta or self.terms.is_meta:
            which = "weight" if weight.is_meta else "this router weight"
            raise InvalidArgument(f"{which} is on the meta device and has no contents; verify once they are loaded.")
        if tuple(weight.shape) != self.shape:
            return False
        expected = split_router_weight(weight.detach(), self.rounding, self.num_terms)
        return all(
            torch.equal(want.view(torch.int16), have.view(torch.int16).to(weight.device))
            for want, have in ((expected.terms, self.terms), (expected.blocks, self.blocks))
        )

    def check_fresh(self) -> None:
        """Check that the weight was not changed or moved since the split, as far as torch tells.

        Raises
        ------
        StaleWeight
            When it was.
        """
        address, version = self._seen
        now = (self.weight.data_ptr(), _version(self.weight))
        if now != (address, version):
            what = "moved to other memory" if now[0] != address else "changed in place"
            raise StaleWeight(
                f"the weight {self.shape} was {what} since it was split, and the split is of the old one; call "
                "update_(weight) after each load."
            )


def split_router_weight(weight: torch.Tensor, rounding: str = "nearest", terms: int = 2) -> RouterWeight:
    """Split an FP32 router weight into bf16 terms, once, when it is loaded.

    ``W0 = bf16(W)``, ``W1 = bf16((W - W0) * 256)``, and so on. The error of two terms is at most 2^-17 |W| by rounding
    to nearest and below 2^-15 |W| by truncation; three terms by rounding to nearest are exact wherever bf16 does not
    underflow (24 bits of an FP32 value in three times 8).

    Parameters
    ----------
    weight : float32 tensor [N, K]
        Contiguous; N and K are multiples of 8. Values are not looked at, so that nothing synchronises: one that is not
        finite, or that bf16 rounds to infinity (from 3.39e38), makes its expert's scores NaN.
    rounding : {"nearest", "truncate"}
    terms : {2, 3}

    Returns
    -------
    RouterWeight

    Raises
    ------
    InvalidArgument
        For another type, shape, rounding or number of terms.
    """
    _check(weight)
    if rounding not in ROUNDINGS:
        raise InvalidArgument(f"rounding is {rounding!r}; give 'nearest' or 'truncate'.")
    if not isinstance(terms, int) or terms not in (2, 3):
        raise InvalidArgument(f"terms is {terms!r}; give 2, or 3 for scores within FP32 rounding.")
    with torch.inference_mode(False):  # inference tensors could be updated in inference mode only
        memory = torch.empty((terms, *weight.shape), dtype=torch.bfloat16, device=weight.device)
        blocks = memory.new_zeros((-(-weight.shape[1] // BLOCK), terms, weight.shape[0], BLOCK))
    return RouterWeight(weight, memory, blocks, rounding).update_(weight)
