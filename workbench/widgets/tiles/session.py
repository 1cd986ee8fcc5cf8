"""The tuner without a browser: settings, the configuration on screen, and what is known of it and of all others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench import devices
from workbench.errors import InvalidArgument, WorkbenchError
from workbench.records import Store, origin_label
from workbench.tune.resources import Resources
from workbench.tune.space import Space, Value
from workbench.widgets.tiles.compiler import Compiler
from workbench.widgets.tiles.journal import Read, apply_best, journal_of, read_journal
from workbench.widgets.tiles.known import Known
from workbench.widgets.tiles.state import SETTINGS, WORK, State
from workbench.widgets.tiles.study import Plan, StudyRun
from workbench.widgets.tiles.times import recorded_times
from workbench.widgets.tiles.work import options_of, space_of, with_values

KEPT = 12
"""Workloads whose figures are kept."""


class Session:
    """Settings with all that follows from them. A change is carried out whole or not at all.

    Parameters
    ----------
    store
        Where records are looked for, and added by a study.
    journal
        Of a study; None: the one of the workload among one's own, where there is one.
    study, compiler
        What runs beside.
    **settings
        Of `State`.

    Attributes
    ----------
    applied : str
        What became of the last `apply`, until something is changed.
    """

    def __init__(
        self, *, store: Store | None, journal: Path | None, study: StudyRun, compiler: Compiler, **settings: Any
    ) -> None:
        self.store, self.study, self.compiler = store or Store(), study, compiler
        self.given = journal
        self.state = State()
        self.journal_problem = self.applied = ""
        self.read: Read | None = None
        self._known: dict[tuple[object, ...], Known] = {}
        self.known: Known
        self.options: dict[str, tuple[Value, ...]]
        self.change(**settings)

    @property
    def space(self) -> Space:
        """Of the workload on screen."""
        return self.known.space

    @property
    def values(self) -> dict[str, Value]:
        """By parameter, whether they can run together or not."""
        return dict(self.state.values)

    @property
    def refused(self) -> str:
        """Why the values on screen cannot run; "" where they can."""
        return self.space.why_invalid(self.space.make(self.values)) or ""

    @property
    def config(self) -> Any:
        """The configuration on screen.

        Raises
        ------
        InvalidArgument
            The values cannot run together.
        """
        if reason := self.refused:
            raise InvalidArgument(f"{self.values} cannot run {self.space.workload.case}: {reason}.")
        return self.space.make(self.values)

    @property
    def resources(self) -> Resources | None:
        """What it needs; None before it is compiled, and where it cannot run."""
        return None if self.refused else self.known.resources.get(self.config)

    def change(self, **changes: Any) -> None:
        """Change settings at once.

        Raises
        ------
        WorkbenchError
            A value is not allowed; nothing is changed then.
        """
        if unknown := sorted(set(changes) - set(SETTINGS)):
            raise InvalidArgument(f"the tuner has no setting {', '.join(unknown)}; it has {', '.join(SETTINGS)}.")
        wished = changes.pop("values", None)
        state = replace(self.state, **changes)
        fresh = not self.state.values or any(getattr(state, name) != getattr(self.state, name) for name in WORK)
        known = self._known_of(state) if fresh else self.known
        options = options_of(known.space, known.default)
        values = with_values(options, self._values_for(known, options), {} if wished is None else wished)
        self.known, self.options = known, options
        self.state = replace(state, values=values)
        self.applied = ""
        if fresh:
            self._read_journal()
            self._scan()
        self.look()

    def look(self) -> None:
        """Find what the configuration on screen needs: at once where it is in the cache, else beside the notebook."""
        if self.refused or self.config in self.known.resources:
            self.compiler.want_nothing()
        elif self.known.is_compiled(self.config):
            self.compiler.want_nothing()
            self.known.add(self.known.find(self.config))
        else:
            self.compiler.want(self.known, self.config)
        beside = (self.known.default, self.known.best())
        lacking = [each for each in beside if each is not None and each not in self.known.resources]
        self.compiler.want_also(self.known, dict.fromkeys(lacking))
        found = self.resources
        if found is not None and found.kernel is not None:
            self.compiler.count(found.kernel)

    def compile(self) -> Resources:
        """What the configuration on screen needs, compiled now if it was not.

        Raises
        ------
        InvalidArgument
            The values cannot run together.
        """
        config = self.config
        if config not in self.known.resources:
            self.known.add(self.known.find(config))
        self.look()
        return self.known.resources[config]

    def compile_all(self) -> None:
        """Compile every configuration that is listed, beside the notebook."""
        self.compiler.batch(self.known, [config for config in self.known.rows() if config not in self.known.resources])

    def plan(self) -> Plan:
        """What a study of the workload on screen would do.

        Raises
        ------
        InvalidArgument
            Nothing is left to be tried besides the default.
        """
        state, space, default = self.state, self.space, self.known.default
        ranked = space.promising(len(space) + 1, self.known.device)
        configs = [each for each in ranked if not state.applicable or space.could_be_default(each, default)][
            : state.most
        ]
        if len(configs) < 2:
            raise InvalidArgument("only the default would be tried; allow more configurations.")
        return Plan(space, configs, state.method, self.given, self.store)

    def apply(self, *, force: bool = False) -> Path:
        """Make the best of the study on screen the default of its GPU and shape; returns the table's file.

        Raises
        ------
        InvalidArgument
            There is no finished study, none of its best could be the default, or none is surely faster.
        """
        if self.read is None or self.study.running:
            raise InvalidArgument(
                "there is no finished study of this workload here. Measure it on a GPU first, or give journal=."
            )
        path = apply_best(self.space, self.read.path, force=force)
        self.applied = f"Wrote {path}; processes that start from now on use it."
        return path

    def learn(self) -> None:
        """Take what the running study has found since the last look."""
        study = self.study
        if study.plan is None or not study.gpu:
            return
        for known in self._known.values():
            if known.space is study.plan.space:
                known.learn(study.trials, study.result, origin_label("measured", gpu=study.gpu))
                if known is self.known and study.journal is not None:
                    self.read = Read(study.journal, study.gpu, study.trials, study.result)
                    self.journal_problem = ""
                    if not study.running:  # its kernels are in the cache now
                        self._scan()
                        self.look()

    def _scan(self) -> None:
        self.compiler.scan(self.known, [each for each in self.known.rows() if each not in self.known.resources])

    def _values_for(self, known: Known, options: dict[str, tuple[Value, ...]]) -> dict[str, Value]:
        """The values so far where the workload takes them, else the default's."""
        default = known.default.to_dict()
        if known is getattr(self, "known", None):
            return self.values
        kept = {name: value for name, value in self.values.items() if value in options.get(name, ())}
        if set(kept) == set(options) and known.space.why_invalid(known.space.make(kept)) is None:
            return kept
        return {name: default[name] for name in options}

    def _known_of(self, state: State) -> Known:
        key = tuple(getattr(state, name) for name in WORK)
        if key not in self._known:
            space, device = space_of(state), devices.gpu(state.gpu)
            default = space.default(device)
            while len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = Known(space, device, default, recorded_times(self.store, space, device))
        return self._known[key]

    def _read_journal(self) -> None:
        """A study that was finished, or begun, earlier; one that cannot be read is told and left."""
        known, self.read, self.journal_problem = self.known, None, ""
        if self.study.running and self.study.plan is not None and self.study.plan.space is known.space:
            return self.learn()
        path = self.given or journal_of(known.space, known.device)
        if path is None or (self.study.running and path == self.study.journal):
            return None
        try:
            self.read = read_journal(known.space, path)
        except WorkbenchError as error:
            self.journal_problem = str(error)
            return None
        if devices.gpu(self.read.gpu).name != known.device.name:
            self.journal_problem = f"{path.name} is a study of {self.read.gpu}."
            self.read = None
            return None
        known.learn(self.read.trials, self.read.result, origin_label("recorded", gpu=self.read.gpu, date=_day(path)))
        return None


def _day(path: Path) -> str:
    """When a journal was last written to."""
    import datetime

    return datetime.date.fromtimestamp(path.stat().st_mtime).isoformat()
