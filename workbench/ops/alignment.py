"""Where tensors may begin, for kernels that copy 16 bytes at a time."""

from __future__ import annotations

from workbench.errors import InvalidArgument

ALIGNMENT = 16
"""Bytes of one copy."""


def check_addresses(**addresses: int) -> None:
    """Check that tensors begin where a kernel's copies may.

    Raises
    ------
    InvalidArgument
        For an address that is not a multiple of 16.
    """
    for name, address in addresses.items():
        if address % ALIGNMENT:
            raise InvalidArgument(
                f"{name} begins at address {address:#x}, which is not a multiple of {ALIGNMENT} bytes: it is a view "
                "that starts inside another tensor. Give a copy."
            )
