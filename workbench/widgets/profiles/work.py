"""How much work a recorded workload is: operations and bytes that any correct kernel has to spend on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.errors import WorkbenchError
from workbench.measure.attention_case import ELEMENT_BYTES, AttentionCase
from workbench.records import Record, Workload
from workbench.workloads import as_lengths, parse_lengths

ATTENTION, ROUTER = "attention_decode", "router_gemm"

WEIGHT_BYTES = MappingProxyType({"cublas-bf16": 2, "cublas-tf32": 4, "cublas-fp32": 4})
"""Of an element of the router's weight, by provider; ours read 2 for each term."""

MOST_REQUESTS = 1 << 16
"""Beyond, a workload in a record is taken for damaged and not planned."""


@dataclass(frozen=True)
class Work:
    """What a call has to do.

    Attributes
    ----------
    operations : int
        Multiplications and additions.
    needed_bytes : int or None
        Bytes that have to be read at least once; None where it is not known.
    """

    operations: int
    needed_bytes: int | None


def work_of(record: Record) -> Work | None:
    """The work of a record's workload; None where the operator is not known or the workload is not described.

    Decode attention: 4 operations a query row, key and element of the head; K and V once. Router: the 2 m n k of the
    product, in however many terms it is computed, so that implementations stand by their speed; activations once, and
    the weight in the form in which it is read: bf16 for each of our terms, FP32 for cuBLAS in FP32 and TF32.
    """
    if record.operator == ATTENTION:
        case = attention_case(record.workload)
        return None if case is None else Work(case.operations, case.kv_bytes)
    if record.operator == ROUTER:
        sizes = [record.workload.m, record.workload.n, record.workload.k]
        if not all(sizes):
            return None
        m, n, k = (int(size or 0) for size in sizes)
        weight = _weight_bytes(record)
        return Work(2 * m * n * k, None if weight is None else 2 * m * k + weight * n * k)
    return None


def _weight_bytes(record: Record) -> int | None:
    """Bytes that are read of each element of a router's weight; None of implementations that are not known."""
    if record.provider in WEIGHT_BYTES:
        return WEIGHT_BYTES[record.provider]
    terms = record.configuration.get("terms")
    return 2 * terms if type(terms) is int and 1 <= terms <= 3 else None


def attention_case(work: Workload) -> AttentionCase | None:
    """The batch and shape that a workload of decode attention describes; None where it does not."""
    given: dict[str, Any] = dict(work.parameters)
    names = ("num_q_heads", "num_kv_heads", "head_dim", "page_size", "q_len")
    sizes = [given.get(name) for name in names]
    if work.dtype not in ELEMENT_BYTES or not all(type(size) is int and 0 < size <= 1 << 16 for size in sizes):
        return None
    heads, kv_heads, head_dim, page_size, q_len = (int(size) for size in sizes if size)
    lengths = _lengths(work.case, given.get("lengths"))
    if lengths is None or heads % kv_heads:
        return None
    return AttentionCase(work.case, lengths, work.dtype, heads // kv_heads, kv_heads, head_dim, page_size, q_len)


def _lengths(case: str, given: Any) -> npt.NDArray[np.int64] | None:
    try:
        found = _parsed(case) if given is None else as_lengths(given)
    except WorkbenchError:  # a name that is no expression, or lengths that are none
        return None
    return found if 0 < found.size <= MOST_REQUESTS else None


@lru_cache(maxsize=512)
def _parsed(case: str) -> npt.NDArray[np.int64]:
    found = parse_lengths(case)
    found.setflags(write=False)
    return found
