"""What a fused-MoE file is of, as its name says it letter by letter; SGLang and vLLM spell it differently.

========================= ==================================================== =======================================
point                     SGLang                                               vLLM
========================= ==================================================== =======================================
``block_shape`` in a name ``[128, 128]``, with a space                         ``[128,128]``, without
GPUs of the H200 family   each by its own name                                 all as ``NVIDIA_H200``
========================= ==================================================== =======================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from workbench.errors import InvalidArgument, TableError

Engine = Literal["sglang", "vllm"]
ENGINES: tuple[str, ...] = get_args(Engine)

DTYPES = ("fp8_w8a8", "int8_w8a8", "int8_w8a16", "int4_w4a16", "float32")
"""Values of ``dtype=``; bf16 and fp16 files have none."""

_NAME = re.compile(
    r"E=(?P<experts>[1-9]\d*),N=(?P<size>[1-9]\d*),device_name=(?P<device>[^,]+)(?:,dtype=(?P<dtype>[^,]+?))?"
    r"(?:,block_shape=\[(?P<rows>\d+),(?P<space> ?)(?P<columns>\d+)\])?(?P<channel>,per_channel_quant=True)?"
    r"(?P<down>_down)?\.json"
)


def check_engine(name: object) -> Engine:
    """Return the name of an engine.

    Raises
    ------
    InvalidArgument
        There is no such engine.
    """
    for known in get_args(Engine):
        if name == known:
            return known  # type: ignore[no-any-return]
    raise InvalidArgument(f"engine {name!r} is not known; give {' or '.join(ENGINES)}.")


@dataclass(frozen=True, kw_only=True)
class MoeKey:
    """What a file is of, as its name says it.

    Attributes
    ----------
    experts : int
        E: experts that this GPU holds; under expert parallelism fewer than the model has.
    size : int
        N: intermediate size that this GPU holds, of the down projection; under tensor parallelism a share.
    device : str
        Name of the GPU by its driver, spaces as underscores.
    dtype : str or None
        Of :data:`DTYPES`; None for bf16 and fp16.
    block_shape : tuple of int or None
        Rows and columns that share a weight scale.
    per_channel_quant : bool
        SGLang only.
    down : bool
        SGLang only: of the down projection alone.
    """

    experts: int
    size: int
    device: str
    dtype: str | None = None
    block_shape: tuple[int, int] | None = None
    per_channel_quant: bool = False
    down: bool = False

    @classmethod
    def of(cls, experts: int, size: int, gpu: str, **more: Any) -> Self:
        """The key for a GPU by the name that its driver gives it, such as "NVIDIA H200"."""
        return cls(experts=experts, size=size, device=gpu.replace(" ", "_"), **more)

    def file_name(self, engine: Engine) -> str:
        """The name that an engine looks for.

        Raises
        ------
        InvalidArgument
            vLLM has no file for quantisation by channel, nor one of the down projection.
        """
        device = self.device.replace(" ", "_")  # as both engines do with what the driver says
        if engine == "vllm":
            if self.per_channel_quant or self.down:
                raise InvalidArgument("vLLM reads no file with per_channel_quant or of the down projection alone.")
            device = "NVIDIA_H200" if "H200" in device.split("_") else device
        parts = [f"E={self.experts}", f"N={self.size}", f"device_name={device}"]
        if self.dtype:
            parts.append(f"dtype={self.dtype}")
        if self.block_shape:
            rows, columns = self.block_shape
            parts.append(f"block_shape=[{rows},{' ' if engine == 'sglang' else ''}{columns}]")
        if self.per_channel_quant:
            parts.append("per_channel_quant=True")
        return ",".join(parts) + ("_down" if self.down else "") + ".json"

    @classmethod
    def parse(cls, name: str) -> Self:
        """The key that a file's name says, in either engine's spelling.

        Raises
        ------
        TableError
            It is no such name.
        """
        found = _NAME.fullmatch(name)
        if found is None:
            raise TableError(
                f"{name} is no name of a fused-MoE file; expected "
                "E=..,N=..,device_name=..[,dtype=..][,block_shape=..].json"
            )
        rows, columns = found["rows"], found["columns"]
        return cls(
            experts=int(found["experts"]),
            size=int(found["size"]),
            device=found["device"],
            dtype=found["dtype"],
            block_shape=(int(rows), int(columns)) if rows else None,
            per_channel_quant=bool(found["channel"]),
            down=bool(found["down"]),
        )
