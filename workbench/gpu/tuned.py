"""One's own tuned configurations for the GPU of this machine."""

from __future__ import annotations

from functools import cache

from workbench.gpu.driver import device, probe
from workbench.tables.tuned import TunedTable, load_tuned


@cache
def own_table(operator: str) -> TunedTable | None:
    """The table that ``workbench tune apply`` wrote for an operator.

    None where there is none, no GPU, or GPUs of several models, of which a call does not say which one it is for.

    Raises
    ------
    TableError
        There is a file, but it cannot be used.
    """
    models = {device(index).name for index in range(probe().device_count)} if probe().problem is None else set()
    return load_tuned(models.pop(), operator) if len(models) == 1 else None
