"""Activations and router weights from one's own files, read without running anything in them."""

from __future__ import annotations

import os
import pickle
import stat
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch

from workbench.errors import ArrayFileError, MissingDependency

SUFFIXES = (".safetensors", ".pt", ".pth", ".npy")
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
LISTED = 12
"""Names that a message lists."""

MAX_ELEMENTS = 1 << 31


def load_activations(path: str | os.PathLike[str], k: int, *, name: str | None = None) -> torch.Tensor:
    """Activations before the router.

    Parameters
    ----------
    path
        A .safetensors, .pt or .npy file.
    k
        Hidden size.
    name
        Of the tensor, in a file with several.

    Returns
    -------
    torch.Tensor
        bf16 [tokens, k]: what the product reads; other types are rounded to it. Leading dimensions, such as batch and
        position, become tokens.

    Raises
    ------
    ArrayFileError
        The file cannot be read, holds no such tensor, or the tensor is of another shape or type, or not finite.
    """
    found, key = _load(path, name, lambda shape: len(shape) >= 2 and shape[-1] == k, f"[tokens, {k}]")
    return _finite(found.reshape(-1, k).to(torch.bfloat16, copy=True).contiguous(), path, key)


def load_weight(path: str | os.PathLike[str], n: int, k: int, *, name: str | None = None) -> torch.Tensor:
    """The weight of a router, float32 [n, k]; other types are converted.

    Parameters
    ----------
    path, name
        As in `load_activations`.
    n, k
        Experts and hidden size.

    Raises
    ------
    ArrayFileError
        As in `load_activations`.
    """
    found, key = _load(path, name, lambda shape: shape == (n, k), f"[{n}, {k}]")
    return _finite(found.to(torch.float32, copy=True).contiguous(), path, key)


def load_bias(path: str | os.PathLike[str], n: int, *, name: str | None = None) -> torch.Tensor:
    """The bias of the choice, float64 [n].

    Raises
    ------
    ArrayFileError
        As in `load_activations`.
    """
    found, key = _load(path, name, lambda shape: shape == (n,), f"[{n}]")
    return _finite(found.to(torch.float64, copy=True).contiguous(), path, key)


def _load(
    path: str | os.PathLike[str], name: str | None, fits: Callable[[tuple[int, ...]], bool], wanted: str
) -> tuple[torch.Tensor, str]:
    """The one tensor of the file that fits, or the one that is named; and its name."""
    try:
        file = Path(path)
    except TypeError:
        raise ArrayFileError(f"the file is {path!r}; give its path.") from None
    reader = {".safetensors": _safetensors, ".pt": _torch, ".pth": _torch, ".npy": _numpy}.get(file.suffix.lower())
    if reader is None:
        raise ArrayFileError(f"{file} is not read: give a file that ends in {', '.join(SUFFIXES)}.")
    try:
        status = file.stat()
    except (OSError, ValueError) as error:
        raise ArrayFileError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if not stat.S_ISREG(status.st_mode):
        raise ArrayFileError(f"{file} cannot be read: it is not a regular file.")
    tensors = {key: tensor for key, tensor in reader(file).items() if not tensor.is_nested}
    listed = ", ".join(f"{key} {list(tensor.shape)}" for key, tensor in list(tensors.items())[:LISTED])
    listed += f" and {len(tensors) - LISTED} more" if len(tensors) > LISTED else ""
    if name is not None and name not in tensors:
        raise ArrayFileError(f"{file} holds no tensor {name!r}; it holds {listed or 'none'}.")
    chosen = [key for key in ([name] if name is not None else tensors) if fits(tuple(tensors[key].shape))]
    if len(chosen) != 1:
        problem = "no tensor" if not chosen else f"{len(chosen)} tensors"
        remedy = "Give another file." if not chosen else "Give the name of one."
        raise ArrayFileError(f"{file} holds {problem} of the shape {wanted}; it holds {listed or 'none'}. {remedy}")
    tensor = tensors[chosen[0]]
    if tensor.dtype not in TYPES or tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        types = ", ".join(str(kind).removeprefix("torch.") for kind in TYPES)
        raise ArrayFileError(f"{file}: {chosen[0]} is {tensor.dtype}, {tensor.layout}; give a dense tensor of {types}.")
    if not 0 < tensor.numel() <= MAX_ELEMENTS:
        raise ArrayFileError(f"{file}: {chosen[0]} has {tensor.numel():,} elements; give 1 to {MAX_ELEMENTS:,}.")
    if tensor.numel() * tensor.element_size() > status.st_size:
        raise ArrayFileError(
            f"{file}: {chosen[0]} has {tensor.numel():,} elements, and the file {status.st_size:,} bytes: it repeats a "
            "few of them, such as an expanded view. Keep a contiguous copy, if you trust it."
        )
    return tensor.detach(), chosen[0]


def _numpy(path: Path) -> dict[str, torch.Tensor]:
    try:
        # Mapped, so that a header that promises more than the file holds is refused before memory is taken.
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the map is read-only; who loads copies what they take of it
            return {path.stem: torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))}
    except Exception as error:  # a damaged header makes NumPy's parsers raise whatever its bytes lead them to
        words = _first_line(error)
        words = "it holds Python objects, or no array at all" if "allow_pickle" in words else words
        raise ArrayFileError(f"{path} is no array that can be read: {words}.") from None


def _safetensors(path: Path) -> Mapping[str, torch.Tensor]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise MissingDependency(
            "safetensors", needed_for="reading .safetensors files", install="pip install safetensors"
        ) from None
    try:
        tensors: dict[str, torch.Tensor] = load_file(path)
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError) as error:
        raise ArrayFileError(f"{path} is no safetensors file: {_first_line(error)}.") from None
    return tensors


def _torch(path: Path) -> Mapping[str, torch.Tensor]:
    try:
        if zipfile.is_zipfile(path):
            _refuse_packed(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the pickle's protocol: what matters of it is an error
            content = torch.load(path, map_location="cpu", weights_only=True)
    except ArrayFileError:
        raise
    except pickle.UnpicklingError:  # whose words advise to run it
        raise ArrayFileError(
            f"{path} holds more than tensors, and reading that can run code of whoever wrote it, so it is refused. "
            "Keep the tensor alone: torch.save(tensor, path), or a .safetensors file."
        ) from None
    except Exception as error:  # a damaged file makes torch's reader raise whatever its bytes lead it to
        raise ArrayFileError(
            f"{path} is no file of torch.save: {type(error).__name__}: {_first_line(error)}."
        ) from None
    if isinstance(content, torch.Tensor):
        return {path.stem: content}
    if isinstance(content, Mapping):
        return {str(key): value for key, value in content.items() if isinstance(value, torch.Tensor)}
    raise ArrayFileError(f"{path} holds a {type(content).__name__}; give a tensor, or a dict of tensors.")


def _refuse_packed(path: Path) -> None:
    """torch.save does not compress; a file that does can unfold to any size."""
    with zipfile.ZipFile(path) as archive:
        unfolded = sum(entry.file_size for entry in archive.infolist())
    if unfolded > path.stat().st_size:
        raise ArrayFileError(
            f"{path} unfolds to {unfolded:,} bytes: it was compressed, which torch.save does not do. Unpack and save "
            "it again, if you trust it."
        )


def _finite(tensor: torch.Tensor, path: str | os.PathLike[str], key: str) -> torch.Tensor:
    wrong = int((~tensor.isfinite()).sum())
    if wrong:
        raise ArrayFileError(
            f"{path}: {key} holds {wrong:,} values that are NaN, infinite, or too large for {tensor.dtype}."
        )
    return tensor


def _first_line(error: BaseException) -> str:
    text = str(error).strip().split("\n", 1)[0]
    return (text[:200] or type(error).__name__).rstrip(".")
