"""How a provider looks: one hue and one dash each, so that colour is never the only difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from workbench.widgets.colours import Theme


@dataclass(frozen=True)
class Style:
    """One provider's line.

    Attributes
    ----------
    light, dark : str
        ``#rrggbb`` on each theme.
    dash : str
        As SVG has it; empty: solid.
    title : str
        For a reader.
    """

    light: str
    dark: str
    dash: str
    title: str

    def colour(self, theme: str) -> str:
        """The hue on a theme of that name."""
        return self.dark if theme == "dark" else self.light


STYLES: Mapping[str, Style] = MappingProxyType(
    {
        "cuda": Style("#d04a0a", "#ff8446", "", "cuda (ours)"),
        "cuda-3terms": Style("#8a3828", "#e13593", "12 3 2 3", "cuda, 3 terms"),
        "hpc": Style("#008af1", "#0a8abc", "8 3", "HPC-Ops"),
        "cublas-fp32": Style("#696f8b", "#c6dde6", "2 3", "cuBLAS FP32"),
        "cublas-tf32": Style("#0f436a", "#3cc291", "8 3 2 3", "cuBLAS TF32"),
        "cublas-bf16": Style("#aa8d67", "#f9d109", "4 3", "cuBLAS bf16"),
        "triton": Style("#843bb0", "#975dff", "14 4", "triton (ours)"),
        "triton-3terms": Style("#ee1ee0", "#de91f1", "3 5", "triton, 3 terms"),
    }
)
"""By provider. Any two hues are at least 8.9 apart in OKLab (times 100) for every kind of colour vision."""


def style_of(name: str, theme: Theme) -> Style:
    """The style of a provider; one that is not listed is drawn in the colour of secondary text."""
    return STYLES.get(name) or Style(theme.muted, theme.muted, "1 4", name)


def title_of(name: str) -> str:
    """What a reader calls a provider."""
    return STYLES[name].title if name in STYLES else name
