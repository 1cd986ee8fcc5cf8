"""Decode attention over a paged KV cache, driven by a task map.

- ``api``: :func:`attention_decode`, argument checks, the torch custom op with its fake.
- ``task_map``: :class:`TaskMap`, built on the GPU or uploaded from a CPU plan.
- ``config``: shapes, configurations, their valid space.
- ``cuda``: compile and launch; ``reference``: float64.
"""

from workbench.ops.attention_decode.api import attention_decode
from workbench.ops.attention_decode.config import AttentionConfig, AttentionShape, default_config
from workbench.ops.attention_decode.reference import attention_reference
from workbench.ops.attention_decode.task_map import TaskMap, build_task_map, upload_plan, write_dense

__all__ = [
    "AttentionConfig",
    "AttentionShape",
    "TaskMap",
    "attention_decode",
    "attention_reference",
    "build_task_map",
    "default_config",
    "upload_plan",
    "write_dense",
]
