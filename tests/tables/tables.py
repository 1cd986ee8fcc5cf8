"""A dispatch table to test with."""

from __future__ import annotations

import datetime
from typing import Any

from workbench.records import Environment
from workbench.tables import DispatchTable, RegretNote, Span, TrafficNote

SPANS = (
    Span(low=0, high=0, provider="cuda", basis="outside"),
    Span(low=1, high=64, provider="cuda", winner="cuda", basis="measured", measured=(1, 16, 64)),
    Span(low=65, high=80, provider="cuda", basis="undecided", measured=(80,)),
    Span(low=81, high=95, provider="cublas-fp32", basis="undecided"),
    Span(low=96, high=512, provider="cublas-fp32", winner="cublas-fp32", basis="measured", measured=(96, 512)),
    Span(low=513, high=None, provider="cublas-fp32", basis="outside"),
)


def table(**changes: Any) -> DispatchTable:
    fields: dict[str, Any] = {
        "k": 4096,
        "n": 192,
        "precision": "split",
        "providers": {"cuda": "split", "cublas-fp32": "fp32"},
        "spans": SPANS,
        "level": 0.95,
        "environment": Environment(gpu="NVIDIA H200", date=datetime.date(2026, 11, 29), sms=132, torch="2.11.0"),
        "origins": ("recorded (NVIDIA H200, 2026-11-29)",),
        "evidence": "0" * 64,
        "made_by": "hpc-ops-workbench 0.1.0",
        "traffic": TrafficNote(label="a trace", calls=100.0, smallest=1, largest=400),
        "regret": (RegretNote(against="SGLang's table", us=-3.0, low=-3.2, high=-2.9),),
    }
    return DispatchTable(**{**fields, **changes})
