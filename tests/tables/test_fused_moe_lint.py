"""What an engine would never read, or not use as it looks, is told; a good file is not."""

from __future__ import annotations

import json

import pytest

from tests.tables.moe import BLOCK, NAMES, TENSOR, TILE
from workbench.errors import InvalidArgument
from workbench.tables.fused_moe import MoeTable, write_moe
from workbench.tables.fused_moe_lint import lint_file, lint_folder


def severities(found):
    return [(finding.severity, finding.message) for finding in found]


def put(folder, name, content=None):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(json.dumps({"1": TILE, "64": TILE} if content is None else content))
    return path


def test_a_good_file_is_not_told(tmp_path):
    write_moe(MoeTable(BLOCK, {1: TILE, 64: TILE}), tmp_path, "sglang", "3.6.0")
    assert lint_folder(tmp_path, "sglang", gpu="NVIDIA H200", triton="3.6.0", expected=[BLOCK]) == []


def test_the_other_engines_spelling_is_never_read(tmp_path):
    stripped = put(tmp_path, NAMES["block", "vllm"])
    spaced = put(tmp_path, NAMES["block", "sglang"])
    assert severities(lint_file(stripped, "sglang")) == [("unread", f"sglang looks for {NAMES['block', 'sglang']}")]
    assert severities(lint_file(spaced, "vllm")) == [("unread", f"vllm looks for {NAMES['block', 'vllm']}")]
    assert lint_file(stripped, "vllm") == []


def test_places_that_are_not_looked_at(tmp_path):
    name = NAMES["tensor", "sglang"]
    put(tmp_path / "configs", name)
    old = put(tmp_path / "configs" / "triton_3_4_0", name)
    found = {f.path.parent.name: (f.severity, f.message) for f in lint_folder(tmp_path, "sglang", triton="3.6.0")}
    assert found["configs"][0] == "unread"
    assert found["triton_3_4_0"] == ("warning", "read only as a fallback, tiles tuned with another Triton than 3.6.0")
    put(tmp_path / "configs" / "triton_3_6_0", name)
    told = severities(lint_file(old, "sglang", root=tmp_path, triton="3.6.0"))
    assert told == [("unread", "triton_3_6_0 has a file of the same name, which goes before")]
    assert severities(lint_file(old, "vllm", root=tmp_path)) == [("unread", f"vllm looks in {tmp_path}")]


def test_other_gpus_names_and_missing_files(tmp_path):
    put(tmp_path, NAMES["plain", "vllm"])
    put(tmp_path, "E=8,N=64,device=NVIDIA_H200.json")
    put(tmp_path, "E=8,N=64,device_name=NVIDIA_H200,dtype=fp8.json")
    found = [str(f) for f in lint_folder(tmp_path, "vllm", gpu="NVIDIA H200", expected=[TENSOR])]
    assert any("unread: it is of NVIDIA_H100_80GB_HBM3, and the GPU here is NVIDIA_H200" in line for line in found)
    assert any("device=NVIDIA_H200.json: unread" in line and "is no name" in line for line in found)
    assert any("dtype 'fp8' is none" in line for line in found)
    assert any("E=192" in line and "uses its default tiles" in line for line in found)
    assert len(found) == 4


@pytest.mark.parametrize(
    ("content", "severity", "words"),
    [
        ({"1": TILE, "triton_version": "3.6.0"}, "error", "SGLang takes no other"),
        ({"1": {**TILE, "waves_per_eu": 2}}, "error", "no such argument"),
        ({"1": {**TILE, "BLOCK_SIZE_N": 96}}, "error", "powers of two"),
        ({"1": {**TILE, "BLOCK_SIZE_M": 8}}, "error", "powers of two from 16"),
        ({"1": {**TILE, "num_warps": 3}}, "error", "num_warps is 3"),
        ({"1": {**TILE, "num_stages": 0}}, "error", "num_stages is 0"),
        ({"1": {**TILE, "GROUP_SIZE_M": 0}}, "error", "GROUP_SIZE_M is 0"),
        ({"1": {**TILE, "BLOCK_SIZE_K": 256}}, "warning", "spans scale blocks of 128"),
        ({"1": {**TILE, "BLOCK_SIZE_N": 256, "num_stages": 8}}, "error", "at least 286,720 bytes"),
        ({"1": {k: v for k, v in TILE.items() if k != "num_warps"}}, "warning", "num_warps left to Triton"),
        ({"64": TILE, "1": TILE}, "warning", "ascending order"),
        ({"0": TILE, "1": TILE}, "warning", "entry 0 is nearest to no number"),
        ({"1": {"BLOCK_SIZE_M": 64}}, "error", "lacks BLOCK_SIZE_N"),
        ({"1": [64]}, "error", "expected numbers by name"),
        ([], "error", "expected an object"),
        ({}, "error", "no entry"),
    ],
)
def test_content_that_ends_in_an_error_or_misleads(tmp_path, content, severity, words):
    path = put(tmp_path, NAMES["block", "sglang"], content)
    (finding,) = lint_file(path, "sglang")
    assert finding.severity == severity
    assert words in finding.message


def test_arguments_are_checked(tmp_path):
    with pytest.raises(InvalidArgument, match="there is no folder"):
        lint_folder(tmp_path / "none", "vllm")
    with pytest.raises(InvalidArgument, match="give triton"):
        lint_folder(tmp_path, "sglang")


def test_a_device_with_a_space_is_never_read(tmp_path):
    path = put(tmp_path, "E=8,N=64,device_name=NVIDIA H200.json")
    for engine in ("sglang", "vllm"):
        assert severities(lint_file(path, engine)) == [
            ("unread", f"{engine} looks for E=8,N=64,device_name=NVIDIA_H200.json")
        ]
    assert "is no name" in lint_file(put(tmp_path, "E=0,N=64,device_name=NVIDIA_H200.json"), "vllm")[0].message
