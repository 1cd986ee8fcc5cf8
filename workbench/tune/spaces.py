"""Spaces from plain data, from names, and for a list of cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.errors import InvalidArgument, WorkloadError
from workbench.measure.attention_case import AttentionCase, case_name
from workbench.tune.space import Space
from workbench.tune.space_attention import AttentionSpace
from workbench.tune.space_router import RouterProduct, RouterSpace
from workbench.workloads import as_lengths, parse_lengths

OPERATORS: dict[str, type[Space]] = {space.operator: space for space in (AttentionSpace, RouterSpace)}


def attention_space(lengths: str, *, cache: str = "fp8", whole: bool = False, **shape: int) -> AttentionSpace:
    """The space of decode attention for lengths such as "64x4K + 2x32K".

    Parameters
    ----------
    lengths
        An expression of `workbench.workloads.parse_lengths`.
    cache
        ``"fp8"`` or ``"bf16"``.
    whole
        Every value that the kernel declares, not only those worth measuring.
    **shape
        ``group``, ``kv_heads``, ``head_dim``, ``page_size``, ``q_len`` of `AttentionCase`.
    """
    parsed = parse_lengths(lengths)
    case = AttentionCase(case_name(lengths, parsed), parsed, cache, **shape)
    return AttentionSpace.whole(case) if whole else AttentionSpace(case)


def router_space(m: int, n: int, k: int, *, terms: int = 2, whole: bool = False) -> RouterSpace:
    """The space of the router GEMM for M tokens, N experts and hidden size K; ``whole`` as in `attention_space`."""
    product = RouterProduct(m, n, k, terms)
    return RouterSpace.whole(product) if whole else RouterSpace(product)


def space_from(said: Mapping[str, Any]) -> Space:
    """Undo :meth:`Space.to_dict`.

    Raises
    ------
    InvalidArgument
        It describes no space of an operator known here.
    """
    try:
        if said["operator"] == AttentionSpace.operator:
            case = AttentionCase(str(said["case"]), as_lengths(said["lengths"]), said["cache"], **said["shape"])
            return AttentionSpace(case, said["parameters"], said["policy"])
        if said["operator"] == RouterSpace.operator:
            return RouterSpace(RouterProduct(**said["product"]), said["parameters"])
    except (KeyError, TypeError, AttributeError, WorkloadError) as error:
        raise InvalidArgument(f"this describes no space: {type(error).__name__} {error}.") from None
    raise InvalidArgument(f"operator {said['operator']!r} has no space; {', '.join(OPERATORS)} have.")
