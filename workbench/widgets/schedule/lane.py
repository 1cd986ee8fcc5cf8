"""Segments stacked on columns: the typed arrays that a canvas draws, and nothing about what they mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False, kw_only=True)
class Lane:
    """Segments of a panel, column by column and from the bottom up.

    Attributes
    ----------
    offsets : uint32 array [columns + 1]
        Segments of column ``c`` are ``offsets[c]:offsets[c + 1]``.
    start, foot, end : float32 arrays [segments]
        Bottom, top of the pale part, and top of each segment.
    colour : uint8 array [segments]
        Shade: :attr:`Theme.shades` names them.
    descriptor : int32 array [segments]
        Row in ``plan.descriptors``.
    top : float32 array [columns]
        Where the last segment ends; 0 for an empty column.
    """

    offsets: npt.NDArray[np.uint32] = field(repr=False)
    start: npt.NDArray[np.float32] = field(repr=False)
    foot: npt.NDArray[np.float32] = field(repr=False)
    end: npt.NDArray[np.float32] = field(repr=False)
    colour: npt.NDArray[np.uint8] = field(repr=False)
    descriptor: npt.NDArray[np.int32] = field(repr=False)
    top: npt.NDArray[np.float32] = field(repr=False)

    @classmethod
    def stack(
        cls,
        column: npt.NDArray[np.integer[Any]],
        columns: int,
        *,
        start: npt.NDArray[np.floating[Any]],
        foot: npt.NDArray[np.floating[Any]],
        end: npt.NDArray[np.floating[Any]],
        colour: npt.NDArray[np.uint8],
        descriptor: npt.NDArray[np.integer[Any]],
    ) -> Self:
        """Sort segments into their columns.

        Parameters
        ----------
        column : int array [segments]
            Column of each segment; those of one column are given in time order.
        columns
            How many there are.
        start, foot, end, colour, descriptor : arrays [segments]
            As the attributes.
        """
        order = np.argsort(column, kind="stable")
        offsets = np.zeros(columns + 1, np.uint32)
        np.cumsum(np.bincount(column, minlength=columns), out=offsets[1:])
        top = np.zeros(columns)
        np.maximum.at(top, column, end)
        return cls(
            offsets=offsets,
            start=start[order].astype(np.float32),
            foot=foot[order].astype(np.float32),
            end=end[order].astype(np.float32),
            colour=colour[order],
            descriptor=descriptor[order].astype(np.int32),
            top=top.astype(np.float32),
        )
