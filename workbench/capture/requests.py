"""One capture that is asked for, as plain data: what a batch file holds and a record remembers."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from workbench.capture.metrics import expand
from workbench.errors import InvalidArgument
from workbench.records import Workload
from workbench.records.parts import Name

MOST_RUNS = 100


class Request(BaseModel):
    """What to capture.

    Attributes
    ----------
    target : str
        ``module:name`` of the operator's adapter, or of a user's function; see `workbench.capture.operators`.
    operator, provider, policy, configuration, workload
        As in the record that the capture becomes.
    metrics : tuple of str
        Nsight Compute's names.
    runs : int
        How often the call is profiled; the record has the mean and the deviation.
    seed : int
        Of the inputs.
    counters : bool
        False: no Nsight Compute, but events, the in-kernel timeline and the kernels that torch's profiler sees.
    timeline : bool
        Run the kernel's instrumented build too, where there is one.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    target: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]
    operator: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
    provider: Name
    policy: str | None = None
    configuration: dict[str, JsonValue]
    workload: Workload
    metrics: tuple[str, ...]
    runs: Annotated[int, Field(ge=1, le=MOST_RUNS)] = 1
    seed: Annotated[int, Field(ge=0)] = 0
    counters: bool = True
    timeline: bool = False

    @property
    def digest(self) -> str:
        """What two equal requests have in common: 32 hexadecimal digits."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def label(self) -> str:
        """The request in a few words, for progress and messages."""
        setting = " ".join(f"{name}={value}" for name, value in self.configuration.items())
        return " ".join(filter(None, (self.operator, self.workload.case, self.policy, setting)))


def make_request(**fields: Any) -> Request:
    """A request from checked parts; sets of metrics are resolved.

    Raises
    ------
    InvalidArgument
        A field has a value that it cannot have; the message names the field.
    """
    try:
        return Request(**{**fields, "metrics": expand(fields["metrics"])})
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise InvalidArgument(f"a capture cannot have {place}={fault['input']!r}: {fault['msg']}.") from None
