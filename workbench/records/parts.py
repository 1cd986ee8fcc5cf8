"""What records are made of: surroundings, work, side file, provenance."""

from __future__ import annotations

import datetime
import hashlib
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue

DIGEST = r"^[0-9a-f]{64}$"
Microseconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=0, lt=1 << 63)]
"""Fits a column of 64-bit integers."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+=,()-]{0,99}$")]
"""A word that can be a folder: no separator, no space, and not only dots."""


class Part(BaseModel):
    """Base of everything in a record: strict types, finite numbers, unknown fields kept."""

    # "constants": an infinite number in an unknown field stays one until `Record.encode` refuses it.
    model_config = ConfigDict(
        extra="allow", frozen=True, strict=True, allow_inf_nan=False, ser_json_inf_nan="constants"
    )


class Clocks(Part):
    """Clocks read beside the measurement, MHz."""

    sm_mhz: Count | None = None
    memory_mhz: Count | None = None
    max_sm_mhz: Count | None = None


class ClockReading(Part):
    """Clocks at one moment, as NVIDIA's management library tells them."""

    when: Annotated[str, Field(pattern=r"^(before|during|after)$")]
    """Relative to the timed work."""
    sm_mhz: Count | None = None
    memory_mhz: Count | None = None
    max_sm_mhz: Count | None = None
    """What the SM clock can be at most, MHz."""
    power_w: Annotated[float, Field(ge=0)] | None = None
    temperature_c: int | None = None
    reasons: tuple[str, ...] = ()
    """Why the clocks were not at their maximum, in words; "idle" counts as one."""


class Environment(Part):
    """What a figure holds for; None where it is not known or plays no part."""

    gpu: Annotated[str, Field(min_length=1, max_length=100, pattern=r"[A-Za-z0-9]")]
    """Name the driver gives the GPU, such as "NVIDIA H200"; of compile resources, the GPU compiled for."""
    date: datetime.date
    """Day of the observation."""
    sms: Annotated[int, Field(gt=0)] | None = None
    """Streaming multiprocessors."""
    driver: str | None = None
    """Release of the driver, such as "580.159.04"."""
    cuda: str | None = None
    """CUDA version, such as "13.0"."""
    torch: str | None = None
    triton: str | None = None
    clocks: Clocks | None = None


class Workload(Part):
    """What was computed. Fields that an operator has no use for are None."""

    case: Name
    """Name of the case; attention's are expressions of KV lengths such as "32x0.125K+32x4K"."""
    dtype: str | None = None
    """Element type that names the case: of the KV cache, or of the activations."""
    m: Count | None = None
    """Rows of a matrix product."""
    n: Count | None = None
    """Columns of a matrix product."""
    k: Count | None = None
    """Inner dimension of a matrix product."""
    model: str | None = None
    """Model that the shapes are of."""
    tp: Count | None = None
    """Tensor-parallel GPUs."""
    ep: Count | None = None
    """Expert-parallel GPUs."""
    tokens: Count | None = None
    """Tokens of a mixture-of-experts call."""
    parameters: Annotated[dict[str, JsonValue], Field(default_factory=dict)]
    """Whatever else defines the work, by the operator's own names."""


class Attachment(Part):
    """A file beside the document, named by what it holds."""

    suffix: Annotated[str, Field(pattern=r"^\.(npz|ncu-rep)$")]
    sha256: Annotated[str, Field(pattern=DIGEST)]
    size_bytes: Count

    @classmethod
    def of(cls, content: bytes, suffix: str) -> Self:
        """Describe the content of a file."""
        return cls(suffix=suffix, sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))

    def matches(self, content: bytes) -> bool:
        """Whether the content is the one described."""
        return len(content) == self.size_bytes and hashlib.sha256(content).hexdigest() == self.sha256


class Provenance(Part):
    """Who measured a figure that this project did not, and how."""

    measured_by: Annotated[str, Field(min_length=1)]
    source: str
    """Where the figure was read."""
    software: str | None = None
    """What was measured, with its version."""
