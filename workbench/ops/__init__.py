"""Operators: public functions over compiled kernels, one folder an operator.

Importing this package imports torch, or says how to get it; it touches no GPU.
"""

from importlib.util import find_spec

from workbench.errors import MissingDependency

if find_spec("torch") is None:
    raise MissingDependency("torch", needed_for="every operator", install="pip install torch==2.13.0")

from workbench.ops.attention_decode import AttentionConfig, TaskMap, attention_decode, build_task_map
from workbench.ops.router_gemm import RouterConfig, RouterWeight, router_gemm, split_router_weight

__all__ = [
    "AttentionConfig",
    "RouterConfig",
    "RouterWeight",
    "TaskMap",
    "attention_decode",
    "build_task_map",
    "router_gemm",
    "split_router_weight",
]
