"""The cost model: which constants it takes, what it says about them, what it refuses."""

from __future__ import annotations

import pytest

from workbench import devices
from workbench.errors import InvalidArgument
from workbench.schedule import CostConstants, cost_model
from workbench.schedule import costs as module


@pytest.mark.parametrize("name", list(devices.names()))
def test_every_gpu_of_the_catalogue_has_a_model(name: str) -> None:
    cost = cost_model(name)
    assert cost.gpu == name
    assert cost.source.startswith(("modelled", "measured"))
    if cost.source.startswith("modelled"):
        assert cost.constants.bytes_per_us == round(devices.gpu(name).read_bandwidth / 1e6)


def test_a_custom_gpu() -> None:
    small = devices.custom("small", sms=10, memory_bandwidth=1e12)
    cost = cost_model(small)
    assert (cost.gpu, cost.constants.bytes_per_us) == ("small", 1_000_000)
    assert cost.source.startswith("modelled")
    assert "datasheet" in cost.source


def test_measured_constants_replace_modelled_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = CostConstants(bytes_per_us=1, sm_elements_per_us=2, sm_bytes_per_us=9, descriptor_ns=3, partial_ns=4,
                             empty_ns=5, merge_ns=6, merge_chunk_ns=7, launch_ns=8,
                             source="measured on a bench")  # fmt: skip
    monkeypatch.setitem(module.TABLE, "A100", measured)
    assert cost_model("A100").constants is measured
    assert cost_model("A100").source == "measured on a bench"
    assert cost_model("H100").source.startswith("modelled")


@pytest.mark.parametrize(("cache", "element"), [("fp8", 1), ("bf16", 2)])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("tile", [32, 64, 128])
def test_bytes(cache: str, element: int, head_dim: int, tile: int) -> None:
    cost = cost_model(cache=cache, head_dim=head_dim, group=4)
    assert cost.tile_bytes(tile) == tile * head_dim * 2 * element
    assert cost.partial_bytes(3) == 4 * 3 * (head_dim + 1) * 4
    assert cost.to_dict()["constants"]["launch_ns"] == cost.constants.launch_ns


def test_no_merge_when_nothing_is_split() -> None:
    cost = cost_model()
    assert cost.merge_ns(0) == cost.merge_ns(1) == 0
    assert cost.merge_ns(2) == cost.constants.merge_ns + 2 * cost.constants.merge_chunk_ns


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"gpu": "GTX 970"}, "No GPU is named 'GTX 970'"),
        ({"gpu": 5}, "No GPU is named 5"),
        ({"cache": "int4"}, "cache is 'int4'. Known cache types: fp8, bf16"),
        ({"cache": ["fp8"]}, r"cache is \['fp8'\]"),
        ({"head_dim": 96}, "head_dim is 96. The kernels take 64, 128 or 256"),
        ({"head_dim": 128.0}, "head_dim is 128.0"),
        ({"group": 0}, "group is 0. Give the query heads a KV head, 1 to 16"),
        ({"group": 2.0}, "group is 2.0"),
        ({"group": True}, "group is True"),
    ],
    ids=str,
)
def test_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        cost_model(**arguments)
