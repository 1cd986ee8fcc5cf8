"""Options that ``plan`` and ``report`` share, and what they make."""

from __future__ import annotations

from typing import Annotated

import typer

from workbench import devices
from workbench.errors import InvalidArgument
from workbench.report.kernel import Kernel

_KERNEL, _ENGINE = "Kernel and GPU", "Simulated engine (traces)"

Gpu = Annotated[
    str, typer.Option("--gpu", help=f"GPU: {', '.join(devices.names())}.", rich_help_panel=_KERNEL, metavar="NAME")
]
CtasPerSm = Annotated[
    int | None,
    typer.Option(
        help="CTAs resident on an SM; default: HPC-Ops' rule by query tokens.", rich_help_panel=_KERNEL, min=1, max=32
    ),
]
KvHeads = Annotated[int, typer.Option(help="KV heads on this GPU.", rich_help_panel=_KERNEL, min=1, max=1024)]
Tile = Annotated[int, typer.Option(help="KV tile, tokens: 32, 64 or 128.", rich_help_panel=_KERNEL)]
Floor = Annotated[int, typer.Option(help="Work floor of a bin, tokens.", rich_help_panel=_KERNEL, min=0)]
QLen = Annotated[
    int, typer.Option(help="Query tokens a request (1 + draft tokens).", rich_help_panel=_KERNEL, min=1, max=64)
]
Cache = Annotated[str, typer.Option(help="KV cache: fp8 or bf16.", rich_help_panel=_KERNEL)]
Group = Annotated[int, typer.Option(help="Query heads a KV head.", rich_help_panel=_KERNEL, min=1, max=16)]
HeadDim = Annotated[int, typer.Option(help="Elements a head: 64, 128 or 256.", rich_help_panel=_KERNEL)]

MaxBatch = Annotated[int, typer.Option(help="Most requests in a batch.", rich_help_panel=_ENGINE, min=1)]
KvCapacity = Annotated[int, typer.Option(help="Tokens that the KV cache holds.", rich_help_panel=_ENGINE, min=1)]
PrefillBudget = Annotated[int, typer.Option(help="Prompt tokens prefilled a step.", rich_help_panel=_ENGINE, min=1)]
Rate = Annotated[
    float | None,
    typer.Option(help="Poisson arrivals of so many requests a second, not the trace's.", rich_help_panel=_ENGINE),
]
Seed = Annotated[int, typer.Option(help="Seed of --rate.", rich_help_panel=_ENGINE, min=0)]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Count broken records of the trace, do not stop.", rich_help_panel=_ENGINE)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object with the same numbers.")]


def kernel(
    gpu: str,
    ctas_per_sm: int | None,
    kv_heads: int,
    group: int,
    head_dim: int,
    tile: int,
    floor: int,
    q_len: int,
    cache: str,
) -> Kernel:
    """The kernel that the options describe.

    Raises
    ------
    InvalidArgument
        For a GPU, a cache type or a shape that is not known, or no ``--ctas-per-sm`` where the rule has none.
    """
    device = devices.gpu(gpu)
    if ctas_per_sm is None:
        if q_len > 5:
            raise InvalidArgument(f"--q-len {q_len} has no usual number of CTAs an SM. Give --ctas-per-sm.")
        ctas_per_sm = devices.ctas_per_sm(q_len)
    made = Kernel(device.name, device.sms, ctas_per_sm, kv_heads, group, head_dim, tile, floor, q_len, cache)
    _ = made.cost  # refuses cache, group and head dim before any work
    return made
