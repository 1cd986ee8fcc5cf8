"""What ``workbench crossover`` does for one shape, and how it is printed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.progress import Progress
from rich.table import Table

from workbench.cli.files import check_writable, write_whole
from workbench.errors import InvalidArgument
from workbench.records import Environment, Store, origin_label
from workbench.tables import RouterModel, format_sglang, same_gpu
from workbench.tables.sglang import ThresholdTable
from workbench.tune.analysis import Analysis, analyse
from workbench.tune.crossover import CrossoverSearch, Settings
from workbench.tune.intervals import Interval
from workbench.tune.recorded import recorded_points
from workbench.tune.regret import Regret
from workbench.tune.traffic import Traffic


@dataclass(frozen=True)
class Source:
    """Figures of one shape.

    Attributes
    ----------
    search : CrossoverSearch
    environment : Environment
    origins : tuple of str
        Where the figures come from, in words.
    words : str
        The same for a reader, with what is assumed.
    notes : tuple of str
        What was left out.
    """

    search: CrossoverSearch
    environment: Environment
    origins: tuple[str, ...]
    words: str
    notes: tuple[str, ...] = ()


def recorded(
    store: Store,
    k: int,
    n: int,
    *,
    gpu: str,
    precision: str,
    providers: Sequence[str] | None,
    deviation: float,
    settings: Settings,
) -> Source:
    """Figures from records; nothing is measured.

    Raises
    ------
    InvalidArgument
        There are none, or none accurate enough.
    """
    found = recorded_points(store, gpu=gpu, k=k, n=n, providers=providers, deviation=deviation)
    figures = sum(len(point.assumed) + len(point.blocks) for point in found.points)
    words = f"Figures: {figures} records at {len(found.points)} M, none measured now; {'; '.join(found.origins)}."
    if found.references:
        part = "None of them" if found.references == figures else f"{found.references} of them do not"
        verb = "has samples" if found.references == figures else "have samples"
        words += f" {part} {verb}: a deviation of {100 * deviation:g} % of each such median is assumed."
    search = CrossoverSearch(found.providers, precision=precision, settings=settings, points=found.points)
    return Source(search, found.environment, found.origins, words, found.notes)


def measured(
    k: int,
    n: int,
    *,
    precision: str,
    providers: Sequence[str] | None,
    settings: Settings,
    state: Path | None,
    bars: Progress,
) -> Source:
    """Figures measured on the GPU at hand, of the given providers or of all that run here.

    Raises
    ------
    NoGpu
        There is none; the message names ``--from-records``.
    InvalidArgument
        A provider cannot be measured here, or the file of the state is damaged or of other providers.
    """
    from workbench.errors import NoGpu
    from workbench.gpu import driver

    if reason := driver.probe().problem:
        raise NoGpu(f"{reason} Without a GPU, add --from-records: it uses what was measured elsewhere.")
    import workbench.ops  # noqa: F401  (says how to get torch where it is missing)
    from workbench.measure.environment import environment_here
    from workbench.tune.live import LiveRouter, default_providers
    from workbench.tune.run import steps

    if state is not None:
        check_writable(state)
    live = LiveRouter(k, n, tuple(dict.fromkeys(providers or default_providers())))
    classes, where = live.classes(), environment_here()
    search = CrossoverSearch(classes, precision=precision, settings=settings)
    if state is not None and state.exists():
        search = _resumed(state, search, k, n, where.gpu)
    task = bars.add_task(f"K {k}, N {n}", total=search.progress()[1])
    for _ in steps(search, live.measure):
        done, total = search.progress()
        bars.update(task, completed=done, total=total)
        if state is not None:
            write_whole(state, _state(search, k, n, where.gpu))
    origin = origin_label("measured", gpu=where.gpu, date=where.date)
    words = f"Figures: {origin}, {len(search.points)} M, rounds of all providers interleaved, "
    words += f"brackets narrowed to {settings.width:.0%} of M."
    return Source(search, where, (origin_label("recorded", gpu=where.gpu, date=where.date),), words)


def _state(search: CrossoverSearch, k: int, n: int, gpu: str) -> bytes:
    return json.dumps({"k": k, "n": n, "gpu": gpu, "search": json.loads(search.to_json())}).encode()


def _resumed(path: Path, asked: CrossoverSearch, k: int, n: int, gpu: str) -> CrossoverSearch:
    """What was measured before, under the settings and the precision that are asked for now."""
    try:
        kept = json.loads(path.read_bytes())
        search = CrossoverSearch.from_json(json.dumps(kept["search"]))
        shape, measured_on = (kept["k"], kept["n"]), str(kept["gpu"])
    except KeyError as error:
        raise InvalidArgument(f"{path} is no state of a search: it lacks {error}. Name another file.") from None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InvalidArgument(f"{path} is no state of a search: {error}. Name another file, or remove it.") from None
    if shape != (k, n) or search.providers != asked.providers or not same_gpu(measured_on, gpu):
        raise InvalidArgument(
            f"{path} is of K {shape[0]}, N {shape[1]} and {', '.join(search.providers)}, on {measured_on}; asked are K "
            f"{k}, N {n} and {', '.join(asked.providers)}, on {gpu}. Name another file."
        )
    return CrossoverSearch(asked.providers, precision=asked.precision, settings=asked.settings, points=search.points)


def analysed(source: Source, k: int, n: int, traffic: Traffic, in_use: ThresholdTable) -> Analysis:
    """The table of one shape and its regret."""
    return analyse(
        source.search,
        k=k,
        n=n,
        environment=source.environment,
        origins=source.origins,
        traffic=traffic,
        sglang=in_use,
    )


def sglang_text(analyses: Sequence[Analysis]) -> str:
    """The closest dict of SGLang's form, and above it, as comments, what the form cannot say and what that costs.

    Raises
    ------
    InvalidArgument
        A shape has no such rule.
    """
    table: dict[tuple[int, int], int] = {}
    comments = []
    for analysis in analyses:
        shape = (analysis.table.k, analysis.table.n)
        fit = analysis.threshold
        if fit is None:
            raise InvalidArgument(
                f"K {shape[0]}, N {shape[1]} has no rule of SGLang's form: " + "; ".join(analysis.notes)
            )
        if fit.first is not None:
            table[shape] = max(fit.first, 1)
        comments.append(f"{shape}: {fit.choice.label}; loses {_amount(fit.regret)} us a call against the best choice.")
        comments += [f"    {sentence}" for sentence in fit.lost]
    first = analyses[0].table
    head = [
        f"Smallest M by (K, N), on {first.environment.gpu}; by {first.made_by}.",
        f"Figures: {'; '.join(first.origins)}.",
        f"Traffic: {analyses[0].traffic.label}.",
    ]
    return "".join(f"# {' '.join(line.split())}\n" for line in head + comments) + format_sglang(table)


def document(analysis: Analysis, source: Source, model: RouterModel | None) -> dict[str, Any]:
    """Everything that `show` prints, as plain data."""
    fit = analysis.threshold
    return {
        "model": model.name if model else None,
        "figures": source.words,
        "left_out": list(source.notes),
        "table": json.loads(analysis.table.encode()),
        "crossings": [dataclasses.asdict(crossing) for crossing in analysis.search.crossings()],
        "points": [dataclasses.asdict(verdict) for verdict in analysis.search.verdicts()],
        "rules_against_the_best_choice": [dataclasses.asdict(rule) for rule in analysis.rules],
        "sglang_form": None if fit is None else {"first": fit.first, "cannot_express": list(fit.lost)},
        "notes": list(analysis.notes),
    }


def show(analysis: Analysis, source: Source, model: RouterModel | None) -> None:
    """Print one shape."""
    console = Console()
    table, search = analysis.table, analysis.search

    def say(text: str = "", style: str | None = None) -> None:
        console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    say(f"{f'{model.name}: ' if model else ''}K {table.k}, N {table.n} on {table.environment.gpu}", "bold")
    say(source.words)
    for note in source.notes:
        say(f"Left out: {note}")
    say(f"Allowed: {', '.join(f'{name} ({own})' for name, own in table.providers.items())}\n")
    rows = [
        [_rows(i), i.winner or "undecided", ", ".join(map(str, i.measured)) or "-", _assumed(i)]
        for i in search.intervals()
    ]
    _table(("M", "fastest", "measured at", "in between"), rows, numeric=())
    say("Beyond the M measured nothing is claimed.\n")
    say(f"Cost under {analysis.traffic.label}", "bold")
    layers = model.layers if model else None
    heads: tuple[str, ...] = ("rule", "us a call", "lost to the best choice", f"{search.settings.level:.0%} interval")
    heads = (*heads, f"lost a pass ({layers} layers)") if layers else heads
    costs = [["the best choice", f"{_best_cost(analysis):.2f}", "", "", *([""] if layers else [])]]
    for rule in analysis.rules:
        row = [rule.rule, f"{rule.cost_us:.2f}", _signed(rule.us), f"{_signed(rule.low_us)} to {_signed(rule.high_us)}"]
        costs.append([*row, f"{rule.us * layers:+.0f} us"] if layers else row)
    _table(heads, costs, numeric=heads[1:])
    for words in _left_out(analysis):
        say(words)
    for note in analysis.notes:
        say(f"Not given: {note}")
    if analysis.threshold and analysis.threshold.lost:
        say("SGLang's form cannot express: " + "; ".join(analysis.threshold.lost) + ".")
    say()


def _best_cost(analysis: Analysis) -> float:
    """Over the most calls that any rule is priced for."""
    most = min(analysis.rules, key=lambda rule: rule.outside, default=None)
    return most.against_us if most else float("nan")


def _left_out(analysis: Analysis) -> list[str]:
    """Which calls the costs leave out; a rule that lacks figures leaves out more, so its cost is of other calls."""
    outside = min((rule.outside for rule in analysis.rules), default=0.0)
    words = [f"{outside:.1%} of the calls have an M outside what was measured and are left out."] if outside else []
    fewer = [rule for rule in analysis.rules if rule.outside > outside]
    words += [
        f"{rule.rule}: {rule.outside:.1%} of the calls have an M where it has no figures and are left out; "
        f"the best choice takes {rule.against_us:.2f} us for the others."
        for rule in fewer
    ]
    return words


def _amount(rule: Regret) -> str:
    return f"{rule.us:.3f} ({rule.low_us:.3f} to {rule.high_us:.3f})"


def _signed(us: float) -> str:
    return f"{us:+.2f}" if abs(us) >= 0.1 else f"{us:+.3f}"


def _rows(interval: Interval) -> str:
    return f"{interval.low:,}" if interval.low == interval.high else f"{interval.low:,} to {interval.high:,}"


def _assumed(interval: Interval) -> str:
    if interval.winner is None or not interval.widest_gap:
        return ""
    return f"assumed, widest gap {interval.widest_gap:,}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, numeric: Sequence[str]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numeric else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    # A number is never cut: where the terminal is narrow, lines break.
    console = Console()
    width = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    Console(width=max(width, console.width)).print(table)
