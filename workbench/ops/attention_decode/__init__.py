"""Decode attention over a paged KV cache, driven by a task map.

- ``api``: :func:`attention_decode` and its torch op; ``checks``: its arguments; ``contents``: what lies in them.
- ``buffers``: :class:`TaskMap`; ``task_map``: built on the GPU; ``upload``: from a CPU plan.
- ``dense``: a map in upstream's format.
- ``config``: shapes, configurations, their valid space.
- ``cuda``: compile and launch; ``triton``: the portable variant; ``reference``: float64.

``workbench.ops.attention_decode`` is the function, which has the package's name: import what is inside with ``from
workbench.ops.attention_decode import cuda``, not with ``import ... as``.
"""

from workbench.ops.attention_decode.api import attention_decode
from workbench.ops.attention_decode.buffers import TaskMap
from workbench.ops.attention_decode.config import AttentionConfig, AttentionShape, default_config
from workbench.ops.attention_decode.dense import write_dense
from workbench.ops.attention_decode.reference import attention_reference
from workbench.ops.attention_decode.task_map import build_task_map
from workbench.ops.attention_decode.upload import upload_plan

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
