"""Names of fused-MoE files, letter by letter, in each engine's spelling."""

from __future__ import annotations

import pytest

from tests.tables.moe import KEYS, NAMES
from workbench.errors import InvalidArgument, TableError
from workbench.tables.fused_moe_key import MoeKey, check_engine


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


def test_other_names_and_engines_are_refused():
    with pytest.raises(TableError, match="is no name of a fused-MoE file"):
        MoeKey.parse("config.json")
    with pytest.raises(InvalidArgument, match="engine 'trt'"):
        check_engine("trt")
