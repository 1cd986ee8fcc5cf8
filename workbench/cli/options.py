"""Options that ``plan`` and ``report`` share, and what they make."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from workbench import devices
from workbench.errors import InvalidArgument
from workbench.report.kernel import Kernel

_KERNEL, _ENGINE = "Kernel and GPU", "Simulated engine (traces)"
_MOST_TB_S = 1000

Gpu = Annotated[
    str, typer.Option("--gpu", help=f"GPU: {', '.join(devices.names())}.", rich_help_panel=_KERNEL, metavar="NAME")
]
PlannedGpu = Annotated[
    str,
    typer.Option(
        "--gpu",
        help=f"GPU: {', '.join(devices.names())}, or a .toml or .json file that describes another one.",
        rich_help_panel=_KERNEL,
        metavar="NAME|FILE",
    ),
]
Sms = Annotated[
    int | None, typer.Option(help="SMs, where other than those of --gpu.", rich_help_panel=_KERNEL, min=1, max=4096)
]
Bandwidth = Annotated[
    float | None,
    typer.Option(
        help="Memory bandwidth in TB/s (1e12 bytes a second), where other than that of --gpu.", rich_help_panel=_KERNEL
    ),
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


def device(gpu: str, sms: int | None, bandwidth: float | None) -> devices.Gpu:
    """The GPU that the options describe.

    Parameters
    ----------
    gpu
        Name in the catalogue, or a file that :func:`workbench.device_files.read_gpu` reads.
    sms, bandwidth
        SMs, and memory bandwidth in TB/s, to be put in the place of its own.

    Raises
    ------
    InvalidArgument
        For a GPU that is not known, a file that describes none, or a bandwidth that is none.
    """
    if Path(gpu).suffix.lower() in (".toml", ".json"):
        from workbench.device_files import read_gpu

        base = read_gpu(gpu)
    else:
        try:
            base = devices.gpu(gpu)
        except InvalidArgument:
            raise InvalidArgument(
                f"--gpu {gpu} is neither in the catalogue ({', '.join(devices.names())}) nor a .toml or .json file. "
                "Describe the GPU in such a file, or change one that is known with --sms and --bandwidth."
            ) from None
    if bandwidth is not None and not 0 < bandwidth <= _MOST_TB_S:
        raise InvalidArgument(
            f"--bandwidth {bandwidth:g}: give TB/s, above 0 and up to {_MOST_TB_S}, such as 4.8 for an H200."
        )
    changes = {} if bandwidth is None else {"memory_bandwidth": bandwidth * 1e12}
    made = devices.custom(base.name, sms=sms or base.sms, like=base, **changes, aliases=base.aliases)
    if made == base:
        return base
    speed = "" if bandwidth is None else f" at {bandwidth:g} TB/s"
    return dataclasses.replace(made, name=f"like {base.name}{speed}", aliases=())


def kernel(
    device: devices.Gpu,
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
        For a cache type or a shape that is not known, or no ``--ctas-per-sm`` where the rule has none.
    """
    if ctas_per_sm is None:
        if q_len > 5:
            raise InvalidArgument(f"--q-len {q_len} has no usual number of CTAs an SM. Give --ctas-per-sm.")
        ctas_per_sm = devices.ctas_per_sm(q_len)
    made = Kernel(device, ctas_per_sm, kv_heads, group, head_dim, tile, floor, q_len, cache)
    _ = made.cost  # refuses cache, group and head dim before any work
    return made
