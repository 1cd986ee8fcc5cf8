"""Operators: public functions over compiled kernels, one folder an operator.

Importing this package imports torch; it touches no GPU.
"""

from workbench.ops.attention_decode import AttentionConfig, TaskMap, attention_decode, build_task_map

__all__ = ["AttentionConfig", "TaskMap", "attention_decode", "build_task_map"]
