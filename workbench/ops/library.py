"""Operators as torch knows them, under ``torch.ops.workbench``.

``torch.library.custom_op`` costs 60 us a call on the host, an operator defined by its schema 3 us; a decode kernel runs
for 6 to 20. So: schemas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_Library: Any = torch.library.Library  # untyped in torch
_LIBRARY = _Library("workbench", "FRAGMENT")  # kept: its operators vanish with it


def define(name: str, schema: str, implementation: Callable[..., None]) -> Any:
    """Define an operator that runs on CUDA and writes into its arguments.

    Parameters
    ----------
    name : str
        It becomes ``torch.ops.workbench.<name>``.
    schema : str
        Arguments in torch's schema language; what is written is marked, as in ``Tensor(a!) out``.
    implementation : callable
        Called with the arguments on a CUDA device; returns nothing, so there is nothing to infer for fake tensors.

    Returns
    -------
    The operator, ready to call. Compiled graphs keep the strides of its arguments, for caches are strided views.
    """
    _LIBRARY.define(f"{name}({schema}) -> ()", tags=(torch.Tag.needs_exact_strides,))
    _LIBRARY.impl(name, implementation, "CUDA")
    torch.library.register_fake(f"workbench::{name}", _fake, lib=_LIBRARY)
    return getattr(torch.ops.workbench, name).default


def _fake(*_arguments: object) -> None:
    return None
