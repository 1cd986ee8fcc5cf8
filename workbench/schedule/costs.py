"""What a plan costs in time: one table of constants a GPU, integer nanoseconds, source always named.

The model of one attention call, for a plan whose bins run at once:

    bin      = tiles at a CTA's pace + descriptors * descriptor_ns + pieces of split requests * partial_ns
    stream   = bytes of all tiles / bandwidth + descriptor_ns, until the first bytes are there
    merge    = 0 when no request is split, else merge_ns + merge_chunk_ns * (most chunks of a request)
    makespan = max(longest bin, stream) + merge;   call = launch_ns + makespan

A roofline over the call: where all CTAs together wait for the memory system, the fixed costs of each overlap with what
the others read; where one bin is longer than that, it alone decides. The CTAs of a static grid of several waves are no
such stream: one begins when another has ended, and reads nothing in between. There ``stream`` has the fixed costs of a
mean slot instead of one ``descriptor_ns``.

A CTA's pace depends on what the others do, not on the plan (:class:`Pace`): while the chip streams, loads take longer
and an SM gets no more than ``sm_bytes_per_us``; a straggler that reads on is limited by its own ``sm_elements_per_us``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from workbench import devices
from workbench.errors import InvalidArgument
from workbench.schedule import fitted

CACHE_BYTES = {"fp8": 1, "bf16": 2}
"""Bytes an element of the KV cache, by cache type."""

MAX_TIME_NS = 2**32 - 1
"""The map kernel computes times in 32 bits; what is longer, 4.3 s, counts as this where it decides."""

MODELLED = "modelled: costs of the kernel taken over from an H200, bandwidth {bandwidth}"


@dataclass(frozen=True, kw_only=True)
class CostConstants:
    """The constants of one GPU. Times in nanoseconds.

    Attributes
    ----------
    bytes_per_us : int
        What the memory system delivers to all CTAs together, bytes a microsecond.
    sm_elements_per_us : int
        What one SM can work through, elements of K and V a microsecond, shared by the CTAs resident there: the kernel's
        own pace, which does not depend on how many bytes an element has.
    sm_bytes_per_us : int
        What one SM gets of the memory system while all others ask too, bytes a microsecond, shared likewise: the bytes
        that it has under way over the time that they take then.
    descriptor_ns : int
        Fixed cost of one descriptor: fetch it, load q, first bytes, close the softmax.
    partial_ns : int
        Extra cost of a piece of a split request: write the partial result and count it in.
    empty_ns : int
        A CTA of a static grid that finds nothing to do.
    merge_ns, merge_chunk_ns : int
        The last merge of the call: fixed part, and part a chunk of the most split request.
    launch_ns : int
        From the launch to the first byte asked for, plus the drain at the end.
    source : str
        Begins with "modelled" or "measured".
    """

    bytes_per_us: int
    sm_elements_per_us: int
    sm_bytes_per_us: int
    descriptor_ns: int
    partial_ns: int
    empty_ns: int
    merge_ns: int
    merge_chunk_ns: int
    launch_ns: int
    source: str


def _modelled(gpu: devices.Gpu, cache: str) -> CostConstants:
    # By hand, from calls on an H200: a descriptor costs a little more in bf16, a partial result less.
    descriptor_ns, partial_ns = (1_900, 1_200) if cache == "fp8" else (2_200, 800)
    return CostConstants(
        bytes_per_us=round(gpu.read_bandwidth / 1e6),
        sm_elements_per_us=46_000,
        sm_bytes_per_us=max(50_000, round(gpu.read_bandwidth / 1e6 / gpu.sms)),
        descriptor_ns=descriptor_ns,
        partial_ns=partial_ns,
        empty_ns=1_000,
        merge_ns=1_100,
        merge_chunk_ns=20,
        launch_ns=1_700,
        source=MODELLED.format(bandwidth=gpu.read_bandwidth_source),
    )


TABLE: dict[str, CostConstants] = {}
"""Constants of one's own, by GPU name; they go before those that the package has."""


def constants(gpu: devices.Gpu, cache: str = "fp8") -> CostConstants:
    """The constants of ``gpu``: those of :data:`TABLE`, else fitted to measurements of this cache type, else modelled.

    Raises
    ------
    FitError
        The package's file of fitted constants is damaged.
    """
    if gpu.name in TABLE:
        return TABLE[gpu.name]
    if devices.CATALOGUE.get(gpu.name) == gpu and (fit := fitted.read(gpu.name).get(cache)):
        return CostConstants(**fit["constants"], source=fit["source"])
    return _modelled(gpu, cache)


Count = TypeVar("Count", int, npt.NDArray[np.int64])


@dataclass(frozen=True)
class Pace:
    """How fast a CTA reads, whatever the plan: at first with all others, then as if alone.

    Attributes
    ----------
    own_ns, loaded_ns : int
        Nanoseconds a tile alone, and while the chip streams; ``loaded_ns >= own_ns``.
    loaded_tiles : int or int64 array
        Tiles that a CTA reads until the chip has streamed all there is; an array has one entry a batch.
    """

    own_ns: int
    loaded_ns: int
    loaded_tiles: int | npt.NDArray[np.int64]

    def reading_ns(self, tiles: Count) -> Count:
        """Nanoseconds that a CTA reads ``tiles`` tiles; arrays broadcast with ``loaded_tiles``."""
        slow: Count = np.minimum(tiles, self.loaded_tiles)  # type: ignore[assignment]  # NumPy's integers count as int
        return tiles * self.own_ns + slow * (self.loaded_ns - self.own_ns)


@dataclass(frozen=True)
class CostModel:
    """The cost model for one kernel shape on one GPU. Made by :func:`cost_model`.

    Attributes
    ----------
    gpu : str
        Name in the catalogue.
    cache : str
        ``"fp8"`` or ``"bf16"``.
    group : int
        Query heads a KV head.
    head_dim : int
        Elements a head.
    constants : CostConstants
        Times and rates, with their source.
    sms : int
        SMs of the GPU; what an SM can do is shared by its CTAs.
    """

    gpu: str
    cache: str
    group: int
    head_dim: int
    constants: CostConstants
    sms: int

    @property
    def source(self) -> str:
        """Where the times come from; begins with "modelled" or "measured"."""
        return self.constants.source

    def tile_bytes(self, tile: int) -> int:
        """Bytes of K and V in one tile of one KV head."""
        return tile * self.head_dim * 2 * CACHE_BYTES[self.cache]

    def partial_bytes(self, q_len: int) -> int:
        """Bytes of one partial result: FP32 output and LSE of ``group * q_len`` rows."""
        return self.group * q_len * (self.head_dim + 1) * 4

    def cta_tile_ns(self, tile: int, num_ctas: int) -> int:
        """Nanoseconds for one tile at a CTA's own pace, when ``num_ctas`` CTAs share the GPU's SMs.

        A CTA keeps its share of the SM also when its neighbours are done: it has no more warps than it was given.
        """
        ctas_per_sm = _ceil(num_ctas, self.sms)
        return _ceil(tile * self.head_dim * 2 * 1000 * ctas_per_sm, self.constants.sm_elements_per_us)

    def loaded_tile_ns(self, tile: int, num_ctas: int) -> int:
        """The same while all CTAs stream; never less."""
        ctas_per_sm = _ceil(num_ctas, self.sms)
        loaded = _ceil(self.tile_bytes(tile) * 1000 * ctas_per_sm, self.constants.sm_bytes_per_us)
        return max(self.cta_tile_ns(tile, num_ctas), loaded)

    def stream_ns(self, tiles: Count, tile: int) -> Count:
        """Nanoseconds for ``tiles`` tiles at the bandwidth of the whole chip."""
        return _ceil(tiles * self.tile_bytes(tile) * 1000, self.constants.bytes_per_us)

    def pace(self, total: Count, tile: int, num_ctas: int) -> Pace:
        """How fast a CTA reads in a call of ``total`` tiles; of an array, for many calls at once."""
        loaded = self.loaded_tile_ns(tile, num_ctas)
        streaming = np.minimum(self.stream_ns(total, tile), MAX_TIME_NS)
        return Pace(self.cta_tile_ns(tile, num_ctas), loaded, streaming // loaded)

    def merge_ns(self, max_chunks: int) -> int:
        """Nanoseconds from the end of the last bin to the end of the last merge."""
        c = self.constants
        return c.merge_ns + c.merge_chunk_ns * max_chunks if max_chunks > 1 else 0

    def to_dict(self) -> dict[str, object]:
        """The model as plain data."""
        return asdict(self)


def _ceil(a: Count, b: int) -> Count:
    return -(-a // b)


def cost_model(
    gpu: str | devices.Gpu = "H200", *, cache: str = "fp8", group: int = 8, head_dim: int = 128
) -> CostModel:
    """The cost model of decode attention on ``gpu``.

    Parameters
    ----------
    gpu : str or devices.Gpu
        A name of the catalogue, or a GPU made with :func:`workbench.devices.custom`.
    cache : str
        ``"fp8"`` or ``"bf16"``.
    group : int
        Query heads a KV head, 1 to 16.
    head_dim : int
        64, 128 or 256.

    Raises
    ------
    InvalidArgument
        For a GPU that is not in the catalogue, or another shape.
    """
    device = gpu if isinstance(gpu, devices.Gpu) else devices.gpu(gpu)
    if not isinstance(cache, str) or cache not in CACHE_BYTES:
        raise InvalidArgument(f"cache is {cache!r}. Known cache types: {', '.join(CACHE_BYTES)}.")
    if not isinstance(head_dim, int) or head_dim not in (64, 128, 256):
        raise InvalidArgument(f"head_dim is {head_dim!r}. The kernels take 64, 128 or 256.")
    if isinstance(group, bool) or not isinstance(group, int) or not 1 <= group <= 16:
        raise InvalidArgument(f"group is {group!r}. Give the query heads a KV head, 1 to 16.")
    return CostModel(device.name, cache, group, head_dim, constants(device, cache), device.sms)


def given_or_default(cost: CostModel | None) -> CostModel:
    """The model itself, or the default one: decode attention with an FP8 cache on an H200.

    Raises
    ------
    InvalidArgument
        For anything else, such as the name of a GPU.
    """
    if cost is None:
        return cost_model()
    if not isinstance(cost, CostModel):
        raise InvalidArgument(f"cost is {cost!r}. Give a cost model, such as cost_model('H100', cache='bf16').")
    return cost
