"""Files and tensors that are not what they say: refused in words, before they take memory."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch

from workbench.errors import ArrayFileError, InvalidArgument
from workbench.measure import precision_arms
from workbench.measure.precision import precision_view
from workbench.measure.precision_files import load_activations, load_weight
from workbench.measure.precision_routing import route
from workbench.measure.precision_synthetic import synthetic
from workbench.tables import RouterModel

K = 64
ROUTER = RouterModel(name="small", k=K, n=16, top_k=2, layers=1, scoring="sigmoid", biased=True)


def given(**changes):
    random = torch.Generator().manual_seed(0)
    x, weight = torch.randn((40, K), generator=random).bfloat16(), torch.randn((16, K), generator=random) / 6
    return {"x": x, "weight": weight, "router": ROUTER, "bias": torch.zeros(16)} | changes


def test_a_view_that_repeats_a_few_bytes_is_not_unfolded(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(torch.ones(1, 1).expand(1 << 24, K), path)
    assert path.stat().st_size < 4096
    with pytest.raises(ArrayFileError, match=r"has 1,073,741,824 elements.*it repeats a few of them"):
        load_activations(path, K)


def test_a_compressed_archive_is_not_unfolded(tmp_path):
    torch.save(torch.zeros(1 << 12, K), plain := tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(plain) as source,
        zipfile.ZipFile(tmp_path / "packed.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for entry in source.infolist():
            packed.writestr(entry.filename, source.read(entry))
    assert load_activations(plain, K).shape == (1 << 12, K)
    with pytest.raises(ArrayFileError, match=r"unfolds to 1,0\d\d,\d\d\d bytes: it was compressed"):
        load_activations(tmp_path / "packed.pt", K)


def test_an_array_of_another_shape_is_not_read(tmp_path, monkeypatch):
    np.lib.format.open_memmap(tmp_path / "x.npy", "w+", dtype="f4", shape=(1 << 12, K))
    monkeypatch.setattr(np, "array", lambda *_: pytest.fail("the file was copied"))
    with pytest.raises(ArrayFileError, match=r"no tensor of the shape \[tokens, 65\]"):
        load_activations(tmp_path / "x.npy", K + 1)


@pytest.mark.parametrize("order", ["<f4", ">f4", "<f8", "<f2"])
def test_arrays_of_either_byte_order_are_copies(tmp_path, order):
    path = tmp_path / "w.npy"
    wanted = np.arange(16 * K).reshape(16, K) / 8
    np.save(path, wanted.astype(order))
    weight = load_weight(path, 16, K)
    assert weight.tolist() == wanted.astype(order).astype("f4").tolist()
    weight.add_(1)  # the file stays as it is
    assert np.load(path)[0, 0] == 0


@pytest.mark.filterwarnings("ignore:.*prototype:UserWarning")
def test_nested_tensors_are_passed_over(tmp_path):
    nested = torch.nested.nested_tensor([torch.ones(2, K)])
    torch.save({"ragged": nested, "x": torch.ones(2, K)}, tmp_path / "x.pt")
    assert load_activations(tmp_path / "x.pt", K).shape == (2, K)
    torch.save(nested, tmp_path / "alone.pt")
    with pytest.raises(ArrayFileError, match="it holds none"):
        load_activations(tmp_path / "alone.pt", K)


def test_a_path_is_a_path():
    with pytest.raises(ArrayFileError, match="the file is None; give its path"):
        load_activations(None, K)


def test_parameters_are_compared_as_tensors_are():
    wanted = precision_view(**given()).to_dict()
    parameters = given()
    parameters["weight"] = torch.nn.Parameter(parameters["weight"])
    parameters["bias"] = torch.nn.Parameter(parameters["bias"])
    parameters["x"] = parameters["x"].requires_grad_()
    assert precision_view(**parameters).to_dict() == wanted


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"x": [[1.0]]}, "x is a list"),
        ({"weight": np.zeros((16, K))}, "weight is a ndarray"),
        ({"bias": [0.0] * 16}, "the bias is a list"),
        ({"router": "hy3"}, "router is 'hy3'; give a RouterModel"),
        ({"router": replace(ROUTER, top_k=2.0)}, "sizes that are no whole numbers"),
        ({"arms": ()}, r"arms are \(\); give some of fp32"),
        ({"arms": None}, "arms are None"),
        ({"arms": [5]}, "arms 5 are not known"),
        ({"weight_bound": "1e-3"}, "weight_bound='1e-3'"),
    ],
)
def test_what_is_of_another_kind_is_named(changes, match):
    with pytest.raises(InvalidArgument, match=match):
        precision_view(**given(**changes))


def test_one_arm_may_be_given_by_its_name():
    assert list(precision_view(**given(arms="tf32")).arms) == ["tf32"]


def test_scores_beyond_the_range_are_no_figures():
    """FP32 overflows where float64 does not: NaN would pass for "nothing moved"."""
    large = given()
    large["x"], large["weight"] = (large["x"].float() * 1e30).bfloat16(), large["weight"] * 1e20
    with pytest.raises(InvalidArgument, match="FP32: some scores are not finite"):
        precision_view(**large)
    edge = given()
    edge["weight"][0, 0] = 3.4e38  # finite, and infinite in bf16
    with pytest.raises(InvalidArgument, match="leave this arm out"):
        precision_view(**edge, arms=["bf16"])


def test_weights_of_scores_that_are_all_0_are_0():
    routed = route(torch.full((1, 16), -1e4), ROUTER)
    assert routed.weights.tolist() == [[0.0] * 16]


def test_figures_do_not_depend_on_how_many_tokens_are_widened_at_once(monkeypatch):
    whole = precision_view(**given()).to_dict()
    monkeypatch.setattr(precision_arms, "ROWS_AT_ONCE", 7)
    parts = precision_view(**given()).to_dict()
    assert parts["margins"] == whole["margins"]
    for name, arm in parts["arms"].items():
        assert arm["rel_error"] == pytest.approx(whole["arms"][name]["rel_error"], rel=0.2, abs=1e-7)
        assert arm["changed"] == whole["arms"][name]["changed"]
    json.dumps(parts, allow_nan=False)


@pytest.mark.parametrize("changes", [{"tokens": 1.5}, {"tokens": "5"}, {"seed": "a"}, {"seed": -1}])
def test_made_up_inputs_have_whole_numbers(changes):
    with pytest.raises(InvalidArgument, match="give a whole number"):
        synthetic("hy3", **{"tokens": 4} | changes)
