"""A GPU that the catalogue lacks, described in a TOML or JSON file."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import pydantic

from workbench import devices
from workbench.errors import InvalidArgument

__all__ = ["SUFFIXES", "read_gpu"]

SUFFIXES = (".toml", ".json")
"""How the name of such a file ends."""

EXAMPLE = """name = "my-gpu"
sms = 78
memory_bandwidth = 4.0e12"""

_ALLOWED: dict[str, dict[str, Any]] = {
    "name": {"min_length": 1, "max_length": 60, "pattern": r"^[^\x00-\x1f\x7f]*$"},
    "architecture": {"min_length": 1},
    "arch": {"pattern": r"^sm_\d{2,3}[af]?$"},
}
"""What a text may be; every other field is a number above 0."""


@cache
def _description() -> type[pydantic.BaseModel]:
    """The fields of :class:`devices.Gpu` as a file may have them: what is left out is that of the GPU ``like``."""
    hints = get_type_hints(devices.Gpu)
    fields: dict[str, Any] = {"like": (str, "H200")}
    for field in dataclasses.fields(devices.Gpu):
        if field.name == "aliases":  # names of catalogue entries
            continue
        kind, allowed = hints[field.name], _ALLOWED.get(field.name, {"gt": 0, "allow_inf_nan": False})
        if field.name in ("name", "sms"):
            fields[field.name] = (kind, pydantic.Field(**allowed))
        else:
            fields[field.name] = (kind | None, pydantic.Field(None, **allowed))
    return pydantic.create_model("Gpu", __config__=pydantic.ConfigDict(extra="forbid", strict=True), **fields)


def read_gpu(path: str | Path) -> devices.Gpu:
    """Read the description of a GPU.

    Parameters
    ----------
    path : str or Path
        A ``.toml`` or ``.json`` file: ``name`` and ``sms``, and any other field of :class:`workbench.devices.Gpu` in
        its units, such as ``memory_bandwidth`` in bytes a second. What is left out is taken from the catalogue's GPU
        ``like``, by default H200.

    Returns
    -------
    Gpu
        As :func:`workbench.devices.custom` makes it.

    Raises
    ------
    InvalidArgument
        The file cannot be read, is no TOML or JSON, lacks a field, has one too many, or holds a figure that no GPU has.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
        data = json.loads(text) if file.suffix.lower() == ".json" else tomllib.loads(text)
        described = _description().model_validate(data)
        given = described.model_dump(exclude_none=True)
    except OSError as error:
        raise InvalidArgument(f"{file} cannot be read: {error.strerror}. Give a file such as\n{EXAMPLE}") from None
    except pydantic.ValidationError as error:
        faults = "\n".join(map(_words, error.errors()))
        fields = ", ".join(_description().model_fields)
        raise InvalidArgument(f"{file} describes no GPU:\n{faults}\nFields: {fields}.") from None
    except (ValueError, RecursionError) as error:  # TOML's, JSON's and UTF-8's errors
        kind = "JSON" if file.suffix.lower() == ".json" else "TOML"
        raise InvalidArgument(f"{file} is no {kind}: {error}. Give a file such as\n{EXAMPLE}") from None
    if given["name"].casefold() in map(str.casefold, devices.names()):
        raise InvalidArgument(f"{file}: {given['name']!r} is a GPU of the catalogue. Give this one another name.")
    try:
        return devices.custom(**given)
    except InvalidArgument as error:
        raise InvalidArgument(f"{file}: {error}") from None


def _words(fault: Any) -> str:
    """One of pydantic's faults in a line: the field, what is wrong, and what was given."""
    field = "".join(f"{part}: " for part in fault["loc"])
    given = "" if fault["type"] == "missing" else f"; it is {str(fault['input'])[:40]!r}"
    return f"  {field}{fault['msg']}{given}"
