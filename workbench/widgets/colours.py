"""Colours: what each one means, and how far apart they stay for a colour-blind reader.

Hue means a request and nothing else: the selected one, the four heaviest others, and five steps of grey-blue by
length for the rest. Policies are A (ink) and B (slate); the accent means interaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

HEAVY = 4
"""Requests that get a hue of their own besides the selected one."""

STEPS = 5
"""Steps of grey-blue for all other requests."""

FIRST_STEP = 1 + HEAVY
"""Colour class of the shortest of the other requests."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colours of one theme, ``#rrggbb``.

    Attributes
    ----------
    requests : tuple of str
        Colour classes: 0 selected, 1 to 4 heaviest, 5 to 9 the rest from short to long.
    foot_share : float
        Opacity of the fixed part of a chunk over the background.
    background, ink, slate, muted, line, grid, accent : str
        Page; text and policy A; policy B; secondary text; frames; axis grid; interaction.
    later, earlier : str
        Ends of a bin after and before the model's; in the residual strip only.
    on_request : tuple of str
        Text on each colour class.
    """

    requests: tuple[str, ...]
    on_request: tuple[str, ...]
    foot_share: float
    background: str
    ink: str
    slate: str
    muted: str
    line: str
    grid: str
    accent: str
    later: str
    earlier: str

    @property
    def shades(self) -> tuple[str, ...]:
        """Colour of each shade of a segment: request classes in the tones of :data:`STAGE_TONES`, tone by tone."""
        return tuple(tone(self, colour) for tone in STAGE_TONES.values() for colour in self.requests)

    def to_dict(self) -> dict[str, object]:
        """All fields as plain data, with the shades, and the tone of each stage on a neutral colour."""
        stages = {stage: tone(self, self.slate) for stage, tone in STAGE_TONES.items()}
        return asdict(self) | {"shades": list(self.shades), "stages": stages}


STAGE_TONES: dict[str, Callable[[Theme, str], str]] = {
    "streaming": lambda theme, colour: colour,
    "waiting": lambda theme, colour: mix(colour, theme.background, theme.foot_share),
    "combining": lambda theme, colour: mix(theme.ink, colour, 0.42),
    "merge": lambda theme, colour: mix(theme.ink, colour, 0.82),
}
"""Tone of a request's colour in each measured stage: pale, the colour itself, and two steps towards ink."""


def stage_shades(classes: npt.NDArray[np.uint8], stage: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Shade of each piece, an index into :attr:`Theme.shades`.

    Parameters
    ----------
    classes
        uint8 [pieces], colour class of the piece's request.
    stage
        uint8 [pieces], position in :data:`STAGE_TONES`.
    """
    return classes + stage * np.uint8(FIRST_STEP + STEPS)


LIGHT = Theme(
    requests=(
        "#d04a0a",
        "#3c5a94", "#3f876a", "#6b2447", "#ca9236",
        "#dbe1e7", "#c8d0d8", "#b4bec8", "#a0acb8", "#8d9ba9",
    ),
    on_request=("#ffffff", "#ffffff", "#ffffff", "#ffffff", "#14181c") + ("#14181c",) * STEPS,
    foot_share=0.34,
    background="#ffffff",
    ink="#14181c",
    slate="#687784",
    muted="#5c6873",
    line="#d0d6dc",
    grid="#e9edf0",
    accent="#0b6bcb",
    later="#9c1458",
    earlier="#35a0c8",
)  # fmt: skip

DARK = Theme(
    requests=(
        "#f07a40",
        "#8cc0e6", "#5aa692", "#a07bcf", "#e2c26b",
        "#2f363d", "#3d464f", "#4c5660", "#5a6772", "#687784",
    ),
    on_request=("#14181c",) * 5 + ("#ffffff",) * STEPS,
    foot_share=0.36,
    background="#111111",
    ink="#e9edf0",
    slate="#8a99a6",
    muted="#9aa6b1",
    line="#39414a",
    grid="#262c32",
    accent="#4aa3ff",
    later="#f9a8d0",
    earlier="#2a8f96",
)  # fmt: skip

THEMES = {"light": LIGHT, "dark": DARK}


def request_classes(
    lengths: npt.NDArray[np.int64], selected: int | None, *, hues: bool = True
) -> tuple[npt.NDArray[np.uint8], tuple[int, ...]]:
    """Colour class of each request.

    Parameters
    ----------
    lengths
        int64 [batch], tokens.
    selected
        Index of the selected request, or None.
    hues
        Whether the heaviest others get hues of their own.

    Returns
    -------
    classes : uint8 array [batch]
        Index into :attr:`Theme.requests`. The rest are spread over the steps by the logarithm of their length.
    heavy : tuple of int
        The requests of classes 1 to 4, heaviest first; equal lengths keep the order of the batch.
    """
    classes = np.full(lengths.size, FIRST_STEP + STEPS // 2, np.uint8)
    rest = lengths > 0
    if selected is not None:
        rest[selected] = False
    order = np.argsort(-lengths, kind="stable")
    heavy = tuple(order[rest[order]][:HEAVY].tolist())
    if not hues or (heavy and lengths[heavy[0]] == lengths[rest].min()):
        heavy = ()  # all equal: no request is heavier than another, so none earns a hue
    rest[list(heavy)] = False
    if rest.any():
        log = np.log(lengths[rest].astype(np.float64))
        span = log.max() - log.min()
        if span > 0:
            step = np.minimum((log - log.min()) / span * STEPS, STEPS - 1)
            classes[rest] = FIRST_STEP + step.astype(np.uint8)
    for rank, request in enumerate(heavy):
        classes[request] = 1 + rank
    if selected is not None:
        classes[selected] = 0
    return classes, heavy


def mix(colour: str, over: str, share: float) -> str:
    """``colour`` at opacity ``share`` over ``over``."""
    a, b = _channels(colour), _channels(over)
    return "#" + "".join(f"{round(x * share + y * (1 - share)):02x}" for x, y in zip(a, b, strict=True))


# Severity 1 of Machado, Oliveira, Fernandes, "A physiologically-based model for simulation of color vision
# deficiency", IEEE TVCG 15 (2009); on linear RGB.
_DEFICIENCY = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritan": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}

# Ottosson, "A perceptual color space for image processing" (2020): linear RGB to cone responses, and to OKLab.
_CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
_OKLAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)

VISIONS = tuple(_DEFICIENCY)
"""``normal`` and the three kinds of colour blindness that :func:`distance` simulates."""


def distance(first: str, second: str, vision: str = "normal") -> float:
    """How far apart two colours look: Euclidean distance in OKLab, times 100.

    Parameters
    ----------
    first, second
        ``#rrggbb``.
    vision
        One of :data:`VISIONS`.
    """
    return float(100 * np.linalg.norm(_oklab(first, vision) - _oklab(second, vision)))


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _oklab(colour: str, vision: str) -> Floats:
    srgb = np.array(_channels(colour)) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(_DEFICIENCY[vision]) @ linear, 0, 1)
    lab: Floats = np.array(_OKLAB) @ np.cbrt(np.array(_CONES) @ seen)
    return lab
