"""A batch of twenty, run as a process of its own so that it can be killed."""

from __future__ import annotations

from workbench.capture import capture_batch, request

METRICS = ("gpu__time_duration.sum", "dram__bytes_read.sum")
SIZES = range(1, 21)


def requests():
    return [request("kernels:scale", {"size": size}, metrics=METRICS) for size in SIZES]


if __name__ == "__main__":
    capture_batch(requests()).result().check()
