"""Activations and weights from files: right ones, damaged ones, and ones that would run code."""

from __future__ import annotations

import json
import os
import pickle
import struct

import numpy as np
import pytest
import torch

from workbench.errors import ArrayFileError
from workbench.measure.precision_files import load_activations, load_bias, load_weight

N, K = 16, 24
WEIGHT = torch.randn((N, K), generator=torch.Generator().manual_seed(0))
X = torch.randn((2, 5, K), generator=torch.Generator().manual_seed(1))


def save(path, tensors):
    """One tensor, or several by name, in the format of the file's name."""
    if path.suffix == ".npy":
        np.save(path, tensors.numpy())
    elif path.suffix == ".safetensors":
        from safetensors.torch import save_file

        save_file(tensors if isinstance(tensors, dict) else {"tensor": tensors}, path)
    else:
        torch.save(tensors, path)
    return path


@pytest.mark.parametrize("suffix", [".npy", ".pt", ".pth", ".safetensors"])
def test_a_single_tensor(tmp_path, suffix):
    weight = load_weight(save(tmp_path / f"w{suffix}", WEIGHT), N, K)
    assert torch.equal(weight, WEIGHT)
    x = load_activations(save(tmp_path / f"x{suffix}", X), K)
    assert torch.equal(x, X.reshape(10, K).bfloat16())
    bias = load_bias(save(tmp_path / f"b{suffix}", WEIGHT[0]), K)
    assert torch.equal(bias, WEIGHT[0].double())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floating_types_are_converted(tmp_path, dtype):
    weight = load_weight(save(tmp_path / "w.safetensors", WEIGHT.to(dtype)), N, K)
    assert weight.dtype == torch.float32
    assert torch.equal(weight, WEIGHT.to(dtype).float())


def test_big_endian_arrays(tmp_path):
    np.save(tmp_path / "w.npy", WEIGHT.numpy().astype(">f4"))
    assert torch.equal(load_weight(tmp_path / "w.npy", N, K), WEIGHT)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_the_one_that_fits_is_found_and_the_others_are_named(tmp_path, suffix):
    path = save(tmp_path / f"w{suffix}", {"gate.weight": WEIGHT.clone(), "norm": WEIGHT[0].clone()})
    assert torch.equal(load_weight(path, N, K), WEIGHT)
    two = save(tmp_path / f"two{suffix}", {"a": WEIGHT.clone(), "b": WEIGHT * 2})
    with pytest.raises(ArrayFileError, match=r"2 tensors of the shape \[16, 24\]; it holds a \[16, 24\], b"):
        load_weight(two, N, K)
    assert torch.equal(load_weight(two, N, K, name="b"), WEIGHT * 2)
    with pytest.raises(ArrayFileError, match="no tensor 'c'"):
        load_weight(two, N, K, name="c")
    with pytest.raises(ArrayFileError, match=r"no tensor of the shape \[8, 24\]; it holds a \[16, 24\]"):
        load_weight(two, 8, K)


class Command:
    """What a hostile pickle does when it is loaded."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("kind", ["torch.save", "pickle"])
def test_pickled_objects_are_refused_and_do_not_run(tmp_path, kind):
    path, mark = tmp_path / "w.pt", tmp_path / "ran"
    content = {"weight": WEIGHT, "extra": Command(mark)}
    if kind == "pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path)
    with pytest.raises(ArrayFileError, match="can run code of whoever wrote it, so it is refused") as refused:
        load_weight(path, N, K)
    assert "weights_only" not in str(refused.value), "torch's advice to run it is passed on"
    np.save(tmp_path / "w.npy", np.array([Command(mark)], dtype=object), allow_pickle=True)
    with pytest.raises(ArrayFileError, match="no array that can be read"):
        load_weight(tmp_path / "w.npy", N, K)
    path.with_suffix(".npy").write_bytes(b"no array at all")
    with pytest.raises(ArrayFileError, match="Python objects, or no array at all") as refused:
        load_weight(path.with_suffix(".npy"), N, K)
    assert "allow_pickle" not in str(refused.value)
    assert not mark.exists()


def whole(suffix, tmp_path):
    return save(tmp_path / f"whole{suffix}", WEIGHT.clone()).read_bytes()


@pytest.mark.parametrize("suffix", [".npy", ".pt", ".safetensors"])
@pytest.mark.parametrize("share", [0, 1, 8, 0.3, 0.9])
def test_cut_files_are_refused(tmp_path, suffix, share):
    content = whole(suffix, tmp_path)
    path = tmp_path / f"w{suffix}"
    path.write_bytes(content[: share if share >= 1 or share == 0 else int(len(content) * share)])
    with pytest.raises(ArrayFileError, match=rf"w\{suffix}"):
        load_weight(path, N, K)


@pytest.mark.parametrize("suffix", [".npy", ".pt", ".safetensors"])
def test_damaged_files_are_read_right_or_refused(tmp_path, suffix):
    """Every 7th byte of the file set to another value, one at a time: nothing but our error ever comes out."""
    content = whole(suffix, tmp_path)
    path = tmp_path / f"w{suffix}"
    refused = 0
    for place in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[place] ^= 0x5A
        path.write_bytes(damaged)
        try:
            weight = load_weight(path, N, K)
        except ArrayFileError:
            refused += 1
        else:
            assert tuple(weight.shape) == (N, K)
    assert refused > 0


def safetensors(header, data=b""):
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(text)) + text + data


FULL = WEIGHT.numpy().tobytes()


@pytest.mark.parametrize(
    "content",
    [
        struct.pack("<Q", 1 << 62) + b"{}",
        safetensors({"w": {"dtype": "F32", "shape": [N, K], "data_offsets": [0, 1 << 40]}}, FULL),
        safetensors({"w": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, len(FULL)]}}, FULL),
        safetensors({"w": {"dtype": "F32", "shape": [N, K], "data_offsets": [8, 4]}}, FULL),
        safetensors({"w": {"dtype": "X32", "shape": [N, K], "data_offsets": [0, len(FULL)]}}, FULL),
        safetensors({"w": {"dtype": "I32", "shape": [N, K], "data_offsets": [0, len(FULL)]}}, FULL),
        safetensors(b"[" * 1000),
        safetensors(b"not json"),
    ],
)
def test_hostile_headers_are_refused(tmp_path, content):
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(ArrayFileError):
        load_weight(tmp_path / "w.safetensors", N, K)


def test_an_array_that_promises_more_than_the_file_holds_is_refused(tmp_path):
    content = whole(".npy", tmp_path)
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118)
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 24), }"
    (tmp_path / "w.npy").write_bytes(header + text.ljust(117) + b"\n" + content[128:])
    with pytest.raises(ArrayFileError, match="no array that can be read"):
        load_weight(tmp_path / "w.npy", N, K)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_values_that_are_not_finite_are_refused(tmp_path, value):
    wrong = WEIGHT.double().clone()
    wrong[3, 4] = value
    path = save(tmp_path / "w.npy", wrong)
    with pytest.raises(ArrayFileError, match=r"w\.npy: w holds 1 values that are NaN, infinite, or too large"):
        load_weight(path, N, K)


def test_other_types_and_files_are_refused(tmp_path):
    for wrong in (torch.zeros((N, K), dtype=torch.int32), torch.zeros((N, K), dtype=torch.complex64)):
        with pytest.raises(ArrayFileError, match="give a dense tensor of float16"):
            load_weight(save(tmp_path / "w.pt", wrong), N, K)
    with pytest.raises(ArrayFileError, match="give a dense tensor"):
        load_weight(save(tmp_path / "w.pt", torch.eye(N, K).to_sparse()), N, K)
    with pytest.raises(ArrayFileError, match="holds a list"):
        load_weight(save(tmp_path / "w.pt", [WEIGHT]), N, K)
    with pytest.raises(ArrayFileError, match=r"ends in \.safetensors"):
        load_weight(tmp_path / "w.bin", N, K)
    with pytest.raises(ArrayFileError, match="No such file"):
        load_weight(tmp_path / "absent.npy", N, K)
    (tmp_path / "folder.npy").mkdir()
    os.mkfifo(tmp_path / "pipe.npy")
    for name in ("folder.npy", "pipe.npy"):
        with pytest.raises(ArrayFileError, match="not a regular file"):
            load_weight(tmp_path / name, N, K)
    with pytest.raises(ArrayFileError):
        load_weight("nul\0.npy", N, K)
