"""Fused-MoE files: exact names, exact content, nearest entries, and what an engine would never read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import InvalidArgument, TableError
from workbench.tables.fused_moe import TILE_KEYS, MoeKey, MoeTable, check_engine, place, read_moe, write_moe
from workbench.tables.fused_moe_lint import lint_file, lint_folder

TILE = dict(zip(TILE_KEYS, (64, 128, 128, 32, 4, 3), strict=True))
BLOCK = MoeKey.of(256, 256, "NVIDIA H200", dtype="fp8_w8a8", block_shape=(128, 128))
TENSOR = MoeKey.of(192, 192, "NVIDIA H200", dtype="fp8_w8a8")
PLAIN = MoeKey.of(128, 192, "NVIDIA H100 80GB HBM3")
NAMES = {
    ("block", "sglang"): "E=256,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json",
    ("block", "vllm"): "E=256,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json",
    ("tensor", "sglang"): "E=192,N=192,device_name=NVIDIA_H200,dtype=fp8_w8a8.json",
    ("tensor", "vllm"): "E=192,N=192,device_name=NVIDIA_H200,dtype=fp8_w8a8.json",
    ("plain", "sglang"): "E=128,N=192,device_name=NVIDIA_H100_80GB_HBM3.json",
    ("plain", "vllm"): "E=128,N=192,device_name=NVIDIA_H100_80GB_HBM3.json",
}
KEYS = {"block": BLOCK, "tensor": TENSOR, "plain": PLAIN}


@pytest.mark.parametrize(("which", "engine"), NAMES)
def test_names_letter_by_letter(which, engine):
    name = NAMES[which, engine]
    assert KEYS[which].file_name(engine) == name
    assert MoeKey.parse(name) == KEYS[which]


def test_the_family_of_the_h200_has_one_name_in_vllm_only():
    nvl = MoeKey.of(8, 64, "NVIDIA H200 NVL")
    assert nvl.file_name("sglang") == "E=8,N=64,device_name=NVIDIA_H200_NVL.json"
    assert nvl.file_name("vllm") == "E=8,N=64,device_name=NVIDIA_H200.json"
    assert MoeKey.of(8, 64, "NVIDIA H20").file_name("vllm") == "E=8,N=64,device_name=NVIDIA_H20.json"


def test_what_sglang_alone_has():
    down = MoeKey.of(8, 64, "NVIDIA H200", dtype="int8_w8a8", per_channel_quant=True, down=True)
    name = "E=8,N=64,device_name=NVIDIA_H200,dtype=int8_w8a8,per_channel_quant=True_down.json"
    assert down.file_name("sglang") == name
    assert MoeKey.parse(name) == down
    with pytest.raises(InvalidArgument, match="vLLM reads no file"):
        down.file_name("vllm")


def test_content_is_what_each_engine_loads(tmp_path):
    table = MoeTable(BLOCK, {64: TILE, 1: {**TILE, "BLOCK_SIZE_M": 16}})
    sglang = write_moe(table, tmp_path, "sglang", "3.6.0")
    vllm = write_moe(table, tmp_path, "vllm", "3.6.0")
    assert sglang == tmp_path / "configs" / "triton_3_6_0" / NAMES["block", "sglang"]
    assert vllm == tmp_path / NAMES["block", "vllm"]
    # What the engines do with it: every key of SGLang's is a number; vLLM takes triton_version off first.
    loaded = {int(key): value for key, value in json.loads(sglang.read_bytes()).items()}
    assert list(loaded) == [1, 64]
    said = json.loads(vllm.read_bytes())
    assert said.pop("triton_version") == "3.6.0"
    assert {int(key): value for key, value in said.items()} == loaded
    assert read_moe(sglang).tiles == read_moe(vllm).tiles == loaded
    assert not list(tmp_path.rglob("*.part"))


@given(st.lists(st.integers(1, 300), min_size=1, max_size=8, unique=True))
def test_spans_are_what_nearest_gives_for_every_number_of_tokens(keys):
    table = MoeTable(PLAIN, dict.fromkeys(keys, TILE))
    chosen = [min(keys, key=lambda key: abs(key - tokens)) for tokens in range(1, 400)]  # what both engines compute
    assert [table.nearest(tokens) for tokens in range(1, 400)] == chosen
    spans = table.spans()
    assert spans[0].first == 1
    assert spans[-1].last is None
    for tokens in range(1, 400):
        (span,) = [s for s in spans if s.first <= tokens and (s.last is None or tokens <= s.last)]
        assert span.key == chosen[tokens - 1]


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


def test_reading_names_the_file(tmp_path):
    path = tmp_path / NAMES["plain", "vllm"]
    with pytest.raises(TableError, match=r"E=128.*cannot be read"):
        read_moe(path)
    path.write_text("{")
    with pytest.raises(TableError, match=r"E=128.*no JSON"):
        read_moe(path)
    with pytest.raises(TableError, match="is no name of a fused-MoE file"):
        read_moe(tmp_path / "config.json")


def test_arguments_are_checked(tmp_path):
    with pytest.raises(InvalidArgument, match="engine 'trt'"):
        check_engine("trt")
    with pytest.raises(InvalidArgument, match="folders are by version"):
        place(tmp_path, PLAIN, "sglang")
    with pytest.raises(InvalidArgument, match="there is no folder"):
        lint_folder(tmp_path / "none", "vllm")
    with pytest.raises(InvalidArgument, match="give triton"):
        lint_folder(tmp_path, "sglang")
    with pytest.raises(InvalidArgument, match="no entry"):
        MoeTable(PLAIN, {}).nearest(3)
