"""How a tuning study says that it measured, so that nobody takes its times for those of a comparison.

A benchmark measures one configuration, the one that runs when none is given, beside other policies and other
implementations. A study measures many configurations of one implementation beside each other, and the least of many
medians is less than the time of any of them. So tables of who is how fast go by benchmarks.
"""

from __future__ import annotations

STUDY = (
    "Replays of a CUDA graph of at least 24 calls that rotate over input sets, in turns with the default "
    "configuration; inputs together exceed the L2 cache; checked against float64 on poisoned outputs first"
)
FINALS = STUDY.replace("the default configuration", "the other finalists of the study")


def is_of_study(method: object) -> bool:
    """Whether a record's method is that of a tuning study."""
    return method in (STUDY, FINALS)
