"""The figures of one router on screen: from records, or measured here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from workbench.errors import InvalidArgument
from workbench.records import Environment, Store, origin_label
from workbench.tune import CrossoverSearch, Settings, recorded_points
from workbench.tune.recorded import ASSUMED_DEVIATION

RECORDED, LIVE = "recorded", "live"
MODES = {RECORDED: "Recorded", LIVE: "Live"}
MARKS = {"recorded": "\u25d0", "reference": "\u25c7", "measured": "\u25cf"}


@dataclass(frozen=True)
class Origin:
    """Where one provider's figures come from.

    Attributes
    ----------
    mark : str
        Of `MARKS`, one or two.
    words : str
        Such as "recorded (NVIDIA H200, 2026-11-29)".
    """

    mark: str
    words: str


@dataclass(frozen=True)
class Figures:
    """What is known of one router on one GPU.

    Attributes
    ----------
    mode : str
        `RECORDED` or `LIVE`.
    search : CrossoverSearch
        Points and providers; its precision is set by whoever looks.
    environment : Environment
    origins : tuple of str
        All sources, in words.
    of : mapping of str to Origin
        By provider.
    notes : tuple of str
        What was assumed or left out.
    classes : mapping of str to str
        Every provider that has figures, with its precision class, also those that are not compared.
    """

    mode: str
    search: CrossoverSearch
    environment: Environment
    origins: tuple[str, ...]
    of: Mapping[str, Origin]
    notes: tuple[str, ...]
    classes: Mapping[str, str]

    def compare(self, names: Collection[str] | None, precision: str) -> Figures:
        """The same figures with only some providers compared.

        Raises
        ------
        InvalidArgument
            A name has no figures, or none is accurate enough.
        """
        if names is None and precision == self.search.precision:
            return self
        chosen = tuple(self.classes) if names is None else tuple(names)
        if not chosen or (unknown := [name for name in chosen if name not in self.classes]):
            raise InvalidArgument(
                f"providers are {', '.join(unknown) if chosen else 'none'}; there are figures of "
                f"{', '.join(self.classes)}. Name at least one of them."
            )
        classes = {name: own for name, own in self.classes.items() if name in chosen}
        search = CrossoverSearch(classes, precision=precision, settings=self.search.settings, points=self.search.points)
        return Figures(self.mode, search, self.environment, self.origins, self.of, self.notes, self.classes)


def recorded_figures(store: Store, gpu: str, k: int, n: int, settings: Settings | None = None) -> Figures:
    """Figures from records.

    Raises
    ------
    InvalidArgument
        There are none of this shape on this GPU.
    """
    found = recorded_points(store, gpu=gpu, k=k, n=n)
    notes = list(found.notes)
    if found.references:
        notes.append(
            f"{found.references} figures came without samples; a deviation of {100 * ASSUMED_DEVIATION:g} % is assumed "
            "of each"
        )
    origins = {name: _origin(found.origins_of[name]) for name in found.providers}
    search = CrossoverSearch(
        found.providers, precision=_least_accurate(found.providers), settings=settings, points=found.points
    )
    return Figures(RECORDED, search, found.environment, found.origins, origins, tuple(notes), found.providers)


def measured_figures(search: CrossoverSearch, environment: Environment) -> Figures:
    """Figures of a measurement here, which may still go on."""
    words = origin_label("measured", gpu=environment.gpu, date=environment.date)
    kept = origin_label("recorded", gpu=environment.gpu, date=environment.date)  # what a saved table will say of them
    origin = {name: Origin(MARKS["measured"], words) for name in search.providers}
    return Figures(LIVE, search, environment, (kept,), origin, (), dict(search.providers))


def recorded_gpus(store: Store, k: int, n: int) -> list[str]:
    """GPUs of which records have times of this shape."""
    rows = store.rows(operator="router_gemm", k=k, n=n, kind=["timing", "reference"])
    return sorted({str(row["gpu"]) for row in rows})


def _origin(words: Collection[str]) -> Origin:
    marks = dict.fromkeys(mark for text in words for kind, mark in MARKS.items() if text.startswith(kind))
    return Origin("".join(marks), "; ".join(words))


def _least_accurate(classes: Mapping[str, str]) -> str:
    from workbench.tables import CLASSES

    return max(classes.values(), key=list(CLASSES).index)
