"""Fused-MoE files that the tests are about: what they are of, and their names in both engines."""

from __future__ import annotations

from workbench.tables.fused_moe import TILE_KEYS
from workbench.tables.fused_moe_key import MoeKey

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
