"""How a search for crossovers decides, and when it stops."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench.errors import InvalidArgument
from workbench.tune.evidence import LEAST_ROUNDS

COARSE_GRID = (
    1, 2, 4, 8, 16, 17, 32, 33, 48, 64, 65, 96, 128, 129, 192, 256, 257, 384, 512, 513, 768, 1024, 1025, 1536, 2048,
    2049, 3072, 4096, 4097, 6144, 8192,
)  # fmt: skip
"""Rows that are measured first. Tiles of 16 to 128 rows and waves of a power of two step just above these."""

LARGEST_M = 1 << 24


class Settings(BaseModel):
    """How a search decides and when it stops.

    Raises
    ------
    InvalidArgument
        There is no such setting, or a value is out of its range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    grid: Annotated[tuple[Annotated[int, Field(ge=1, le=LARGEST_M)], ...], Field(min_length=1)] = COARSE_GRID
    """M of the first sweep."""
    rounds: Annotated[int, Field(ge=LEAST_ROUNDS, le=10_000)] = 15
    """Interleaved rounds of a point's first measurement; each later one has as many as all before."""
    looks: Annotated[int, Field(ge=1, le=8)] = 3
    """Most measurements of one point."""
    width: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """A bracket is narrow enough when it is no wider than this share of its lower end, or 1."""
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.01
    """Differences below this share of the time do not matter."""
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Confidence of the winner at one point, over all its rivals and looks."""
    most_points: Annotated[int, Field(ge=1, le=10_000)] = 128
    """Points after which no bracket is narrowed further."""
    draws: Annotated[int, Field(ge=200, le=100_000)] = 2000
    """Bootstrap draws."""
    seed: Annotated[int, Field(ge=0)] = 0

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_context=False)[0]
            name = str(fault["loc"][0]) if fault["loc"] else "a setting"
            raise InvalidArgument(f"{name} is {str(fault['input'])[:80]}: {fault['msg']}.") from None
