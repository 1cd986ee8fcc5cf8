"""Where a record lies in a store.

    <gpu>/<operator>/<case>/<configuration digest>/<kind>-<digest>.json
                                                   <kind>-<digest of the side file>.npz

The path follows from the document, so a file in another place is a fault.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath

from workbench.records.documents import Record
from workbench.records.parts import Attachment

DIGEST_DIGITS = 32
"""Hexadecimal digits of a name: 128 bits, so that different contents do not meet."""


def slug(text: str) -> str:
    """A name as a folder: "NVIDIA H200" is "nvidia-h200"."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def folder(record: Record) -> PurePosixPath:
    """Folder of a record, relative to its store."""
    return PurePosixPath(
        slug(record.environment.gpu), record.operator, record.workload.case, record.configuration_digest
    )


def location(record: Record, content: bytes) -> PurePosixPath:
    """Path of a record with the given encoded content, relative to its store."""
    digest = hashlib.sha256(content).hexdigest()[:DIGEST_DIGITS]
    return folder(record) / f"{record.kind}-{digest}.json"


def attachment_location(record: Record, attachment: Attachment) -> PurePosixPath:
    """Path of a record's side file, relative to its store."""
    return folder(record) / f"{record.kind}-{attachment.sha256[:DIGEST_DIGITS]}{attachment.suffix}"
