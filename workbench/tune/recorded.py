"""Figures of the router product from records, as points that a search can start from."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from workbench.errors import InvalidArgument
from workbench.records import Environment, Record, ReferenceRecord, Store, TimingRecord, is_of_study, origin_label
from workbench.tables import CLASSES, ROUTER_PROVIDERS, canonical, class_of
from workbench.tune.evidence import LEAST_ROUNDS, Block, Point

ASSUMED_DEVIATION = 0.02
"""Relative standard deviation assumed of a figure that came without samples: what repeating a run usually moves."""


@dataclass(frozen=True)
class Recorded:
    """What the records say about one shape on one GPU.

    Attributes
    ----------
    points : tuple of Point
        By ascending M. Figures with samples are blocks of their own, not interleaved with others; references are
        medians with an assumed deviation.
    providers : dict of str to str
        Precision class of each: the least accurate of its measured errors and its design.
    origins : tuple of str
        Where the figures come from, in words.
    origins_of : dict of str to tuple of str
        The same for each provider.
    environment : Environment
        Of the newest figure.
    references : int
        Figures without samples.
    notes : tuple of str
        What was left out, and why.
    """

    points: tuple[Point, ...]
    providers: dict[str, str]
    origins: tuple[str, ...]
    origins_of: dict[str, tuple[str, ...]]
    environment: Environment
    references: int
    notes: tuple[str, ...] = field(default=())


def recorded_points(
    store: Store,
    *,
    gpu: str,
    k: int,
    n: int,
    providers: Collection[str] | None = None,
    deviation: float = ASSUMED_DEVIATION,
) -> Recorded:
    """Read the figures of one shape.

    Of several figures of one provider at one M, samples count before a reference, those of a comparison before those of
    a tuning study, the newest day before older ones, and the fastest configuration of that day before the others.

    Parameters
    ----------
    store
        Where the records are.
    gpu, k, n
        Which figures; any name of the GPU that the catalogue knows.
    providers
        Only these, by their names in `ROUTER_PROVIDERS`; None: all.
    deviation
        Relative standard deviation to assume of a median without samples.

    Raises
    ------
    InvalidArgument
        There is no figure of that shape on that GPU, or of one of `providers`, or `deviation` is not between 0 and 1.

    Warns
    -----
    RecordWarning
        Files of the store were skipped.
    """
    if not 0 <= deviation < 1:
        raise InvalidArgument(f"deviation={deviation}; give a share of the time from 0 to below 1")
    chosen: dict[tuple[int, str], TimingRecord | ReferenceRecord] = {}
    errors: dict[str, list[float]] = defaultdict(list)
    short: list[str] = []
    wanted = {"operator": "router_gemm", "gpu": gpu, "k": k, "n": n, "kind": ["timing", "reference"]}
    for path, record in store.records(**wanted):
        figure = _usable(record)
        if figure is None:
            if not is_of_study(record.method):  # a study's are short where it gave a configuration up
                short.append(path.name)
            continue
        key = (int(figure.workload.m or 0), canonical(figure.provider, 3 if _terms(figure) == 3 else 2))
        if providers is not None and key[1] not in providers:
            continue
        if key not in chosen or _rank(figure) > _rank(chosen[key]):
            chosen[key] = figure
    for (_, name), figure in chosen.items():
        errors[name] += [figure.rel_error] if figure.rel_error is not None else []
    notes = []
    if short:
        whose = short[0] if len(short) == 1 else f"{short[0]} and {len(short) - 1} more"
        was, had = ("was", "it has") if len(short) == 1 else ("were", "they have")
        notes.append(f"{whose} {was} left out: {had} fewer than {LEAST_ROUNDS} samples, or no M from 1")
    nothing = f"no record of router_gemm with K {k}, N {n} on {gpu}"
    remedy = "; `workbench records --operator router_gemm` lists what there is"
    if lacking := sorted({*(providers or ())} - {name for _, name in chosen}):
        there = ", ".join(sorted({name for _, name in chosen}))
        raise InvalidArgument(
            f"{nothing} by {', '.join(lacking)}" + (f"; of those asked for, {there} has some" if there else "") + remedy
        )
    designs = {name: known.precision for name, known in ROUTER_PROVIDERS.items()}
    found = {name: class_of(errors[name], designs.get(name)) for _, name in sorted(chosen)}
    for name, own in found.items():
        if own is None:
            why = f"error {max(errors[name]):.1e} is beyond every class" if errors[name] else "no error is known"
            notes.append(f"{name} was left out: {why}")
    classes = {name: own for name, own in found.items() if own is not None}
    kept = {key: figure for key, figure in sorted(chosen.items()) if key[1] in classes}
    if not kept:
        raise InvalidArgument(nothing + remedy)
    figures = list(kept.values())
    return Recorded(
        points=tuple(
            _point(m, {name: figure for (at, name), figure in kept.items() if at == m}, deviation)
            for m in sorted({m for m, _ in kept})
        ),
        providers={
            name: classes[name] for name in sorted(classes, key=lambda name: (list(CLASSES).index(classes[name]), name))
        },
        origins=_origins(figures),
        origins_of={name: _origins([f for (_, whose), f in kept.items() if whose == name]) for name in classes},
        environment=max((figure.environment for figure in figures), key=lambda environment: environment.date),
        references=sum(isinstance(figure, ReferenceRecord) for figure in figures),
        notes=tuple(notes),
    )


def evidence_digest(points: Collection[Point]) -> str:
    """SHA-256 over all figures, for a table to name what it rests on."""
    content = [
        [
            point.m,
            [[sorted(block.samples_us.items()), block.paired] for block in point.blocks],
            sorted(point.assumed.items()),
        ]
        for point in points
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _usable(record: Record) -> TimingRecord | ReferenceRecord | None:
    if not isinstance(record, (TimingRecord, ReferenceRecord)) or not record.workload.m:
        return None
    return None if isinstance(record, TimingRecord) and len(record.samples_us) < LEAST_ROUNDS else record


def _terms(figure: TimingRecord | ReferenceRecord) -> object:
    """Terms of the split weight, where the record says."""
    return figure.configuration.get("terms", figure.workload.parameters.get("terms"))


def _rank(figure: TimingRecord | ReferenceRecord) -> tuple[bool, bool, str, float]:
    # The least of a study's many medians is less than the time of any of them.
    compared = not is_of_study(figure.method)
    return isinstance(figure, TimingRecord), compared, figure.environment.date.isoformat(), -figure.median_us


def _point(m: int, figures: dict[str, TimingRecord | ReferenceRecord], deviation: float) -> Point:
    blocks = tuple(
        Block({name: figure.samples_us}, paired=False)
        for name, figure in figures.items()
        if isinstance(figure, TimingRecord)
    )
    assumed = {name: (f.median_us, deviation) for name, f in figures.items() if isinstance(f, ReferenceRecord)}
    return Point(m, blocks, assumed)


def _origins(figures: Collection[TimingRecord | ReferenceRecord]) -> tuple[str, ...]:
    return tuple(sorted({_origin(figure) for figure in figures}))


def _origin(figure: TimingRecord | ReferenceRecord) -> str:
    where = figure.environment
    if isinstance(figure, ReferenceRecord):
        return origin_label("reference", gpu=where.gpu, date=where.date, by=figure.provenance.measured_by)
    return origin_label("recorded", gpu=where.gpu, date=where.date)
