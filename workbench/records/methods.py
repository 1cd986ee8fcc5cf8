"""How records say that they were measured where it decides what they may be used for.

A benchmark measures one configuration, the one that runs when none is given, beside other policies and other
implementations. A study measures many configurations of one implementation beside each other, and the least of many
medians is less than the time of any of them. So tables of who is how fast go by benchmarks.

Timelines are of calls one after another, as a serving engine makes them, or of one launch by itself on cold caches, as
Nsight Compute and captures make it. The second is slower, so where both are there, the first is what is shown.
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


PROFILED_STAMPS = "Stamps of the instrumented kernel, in the launch that Nsight Compute profiled"
ALONE_STAMPS = "Stamps of the instrumented kernel, calls launched alone on scrubbed caches; that of median makespan"


def is_alone(method: object) -> bool:
    """Whether a timeline's method is that of a capture: one launch by itself, caches cold."""
    return method in (PROFILED_STAMPS, ALONE_STAMPS)
