"""Configurations that were measured to be the fastest on one GPU, for the calls that are given none.

    <folder>/<gpu>/<operator>-tuned.json

One's own folder is `workbench.settings.tables_dir`. What is in such a file goes before what the package ships.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, ValidationError, model_validator

from workbench import devices, settings
from workbench.errors import InvalidArgument, RecordError, TableError
from workbench.records.files import read_limited
from workbench.records.layout import slug
from workbench.records.parts import DIGEST, Microseconds, Part

SCHEMA_VERSION = 1
MAX_BYTES = 1 << 20


class TunedEntry(Part):
    """One configuration, and what it rests on."""

    key: Annotated[dict[str, JsonValue], Field(min_length=1)]
    """What it is for, by the operator's own names: attention's shape; the router's k, n, terms and m."""
    config: Annotated[dict[str, JsonValue], Field(min_length=1)]
    """Values by parameter; those that are absent stay the default's."""
    cases: Annotated[tuple[str, ...], Field(min_length=1)]
    """Workloads that it was measured on."""
    median_us: Microseconds | None = None
    """Median time of a call, where there was one workload."""
    gain: float
    """Share of the default's time that it saves."""
    gain_low: float
    gain_high: float
    """Ends of the interval of `gain`."""
    source_digest: Annotated[str, Field(pattern=DIGEST)]
    """SHA-256 over the kernel's sources that were measured."""
    date: datetime.date


class TunedTable(Part):
    """All entries of one operator on one model of GPU, one a key."""

    schema_version: Annotated[int, Field(ge=1, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    kind: Literal["tuned-configurations"] = "tuned-configurations"
    gpu: Annotated[str, Field(min_length=1)]
    """Name by the driver."""
    sms: Annotated[int, Field(gt=0)]
    operator: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
    entries: tuple[TunedEntry, ...] = ()

    @model_validator(mode="after")
    def _agree(self) -> Self:
        keys = [json.dumps(entry.key, sort_keys=True) for entry in self.entries]
        if len(set(keys)) < len(keys):
            raise ValueError("two entries have the same key")
        return self

    def find(self, key: dict[str, Any]) -> TunedEntry | None:
        """The entry for exactly this key."""
        return next((entry for entry in self.entries if entry.key == key), None)

    def with_entry(self, entry: TunedEntry) -> Self:
        """The table with an entry, in place of the one with the same key if there is one."""
        others = [other for other in self.entries if other.key != entry.key]
        return self.model_copy(update={"entries": (*others, entry)})

    def without(self, key: dict[str, Any]) -> Self:
        """The table without the entry of a key."""
        return self.model_copy(update={"entries": tuple(e for e in self.entries if e.key != key)})

    def encode(self) -> bytes:
        """The document as it is kept."""
        text = json.dumps(self.model_dump(mode="json", exclude_none=True), sort_keys=True, indent=1, allow_nan=False)
        return text.encode() + b"\n"

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Read a document.

        Raises
        ------
        TableError
            It is no such table.
        """
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, fault["loc"]))
            raise TableError(
                f"it is no table of tuned configurations: {f'{place}: ' if place else ''}{fault['msg']}"
            ) from None


def tuned_path(gpu: str, operator: str) -> Path:
    """The file of one's own table for a GPU and an operator."""
    try:
        name = devices.gpu(gpu).name
    except InvalidArgument:
        name = gpu
    return settings.tables_dir() / slug(name) / f"{operator}-tuned.json"


@cache
def load_tuned(gpu: str, operator: str) -> TunedTable | None:
    """`read_tuned`, kept after the first look."""
    return read_tuned(gpu, operator)


def read_tuned(gpu: str, operator: str) -> TunedTable | None:
    """One's own table as it is on disk, or None where there is none.

    Raises
    ------
    TableError
        There is a file, but it is no table or of something else; the message names it.
    """
    path = tuned_path(gpu, operator)
    if not path.exists():
        return None
    try:
        table = TunedTable.decode(read_limited(path, MAX_BYTES))
    except (RecordError, TableError) as error:
        raise TableError(f"{path}: {error}. Remove it, or make it again with `workbench tune apply`.") from None
    if table.operator != operator or tuned_path(table.gpu, operator) != path:
        raise TableError(f"{path} holds a table of {table.operator} on {table.gpu}. Move it where it belongs.")
    return table


@contextmanager
def tuned_lock(gpu: str, operator: str) -> Iterator[None]:
    """Hold one's own table of a GPU and an operator, so that between reading and writing it nobody else changes it.

    Raises
    ------
    TableError
        The system refuses, with its reason.
    """
    path = tuned_path(gpu, operator)
    lock = path.with_name(f".{path.name}.lock")  # a file of its own, for the table is replaced and not written into
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("ab")
    except OSError as error:
        raise TableError(
            f"{lock} cannot be written: {error.strerror or error}. Set WORKBENCH_TABLES_DIR to another folder."
        ) from None
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)  # gone with the process, however it ends
        yield


def save_tuned(table: TunedTable) -> Path:
    """Write one's own table in one step; it takes effect in processes that start afterwards.

    Raises
    ------
    TableError
        The system refuses, with its reason.
    """
    path = tuned_path(table.gpu, table.operator)
    temporary = path.with_name(f".workbench-{secrets.token_hex(8)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(table.encode())
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise TableError(
            f"{path} cannot be written: {error.strerror or error}. Set WORKBENCH_TABLES_DIR to another folder."
        ) from None
    load_tuned.cache_clear()
    return path
