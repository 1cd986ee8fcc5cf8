"""The configuration that runs when none is given: one's own tuned one, else the default of the shape."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from workbench.errors import InvalidArgument, TableError
from workbench.gpu.tuned import own_table
from workbench.ops.attention_decode.config import AttentionConfig, AttentionShape, default_config

FREE = ("warps", "stages", "prefetch", "pdl")
"""Parameters that a tuned default may set. A map that the caller built has its tile and its CTAs, and ``early_map`` and
``early_cache`` are promises that only the caller can make."""


def chosen_config(shape: AttentionShape) -> AttentionConfig:
    """What ``config=None`` means on this machine.

    Raises
    ------
    TableError
        One's own table holds a configuration that cannot run the shape.
    """
    default = default_config(shape)
    table = own_table("attention_decode")
    entry = None if table is None else table.find(asdict(shape))
    if entry is None:
        return default
    try:
        values: dict[str, Any] = {name: entry.config[name] for name in FREE if name in entry.config}
        return replace(default, **values).check(shape)
    except (InvalidArgument, TypeError) as error:
        raise TableError(f"the tuned configuration of {shape} cannot be used: {error}") from None
