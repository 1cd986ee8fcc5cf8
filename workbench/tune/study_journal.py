"""The journal of a study: an Optuna journal file of finished trials, which a killed process leaves usable.

Only what is finished is written, each trial in one line, so a process that is killed loses the trial in flight and no
other; a line that was cut short is taken off when the file is opened again. Optuna's own tools read the file.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from workbench.errors import InvalidArgument, MissingDependency, StudyError
from workbench.tune.space import Space, Value
from workbench.tune.study_trials import Trial

if TYPE_CHECKING:
    from types import ModuleType

_ABOUT, _TRIAL = "about", "trial"


def require_optuna() -> ModuleType:
    """Optuna, without its messages about each trial.

    Raises
    ------
    MissingDependency
        It is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise MissingDependency(
            "optuna", needed_for="keeping and resuming studies", install="pip install 'optuna>=4.4'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    module: ModuleType = optuna
    return module


class Journal:
    """Finished trials of one study in a file, open for this process alone.

    Parameters
    ----------
    path
        The file; its folder must exist. A study of another space or kernel in it is refused.
    about
        What the study is of; must be the same when it is opened again.
    parameters
        Values of each parameter.
    writable
        False: the file is only read, also while another process has it open.

    Raises
    ------
    StudyError
        Another process has the file open, it holds another study or none, or it cannot be written.
    MissingDependency
        Optuna is not installed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        about: Mapping[str, Any],
        parameters: Mapping[str, Sequence[Value]],
        *,
        writable: bool = True,
    ) -> None:
        optuna = require_optuna()
        self.path = Path(path)
        self._lock = _hold(self.path) if writable else os.open(os.devnull, os.O_RDONLY)
        try:
            with self._writing():
                if writable:
                    _mend(self.path)
                self._study = _open(optuna, self.path, create=writable)
                self._check(dict(about))
        except BaseException:
            self.close()
            raise
        self._distributions = {
            name: optuna.distributions.CategoricalDistribution(tuple(values)) for name, values in parameters.items()
        }
        self._create_trial, self._states = optuna.trial.create_trial, optuna.trial.TrialState

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process open the file."""
        os.close(self._lock)
        self._lock = os.open(os.devnull, os.O_RDONLY)

    @property
    def trials(self) -> list[Trial]:
        """All finished trials, in the order in which they were finished.

        Raises
        ------
        StudyError
            One cannot be read.
        """
        try:
            return [Trial.from_dict(kept.user_attrs[_TRIAL]) for kept in self._study.get_trials(deepcopy=False)]
        except (KeyError, ValueError) as error:
            raise self._edited("a trial", error) from None

    def configs(self, space: Space) -> list[Any] | None:
        """The configurations that the study was limited to; None where it was not.

        Raises
        ------
        StudyError
            They are none of the space.
        """
        if (noted := self.noted("configs")) is None:
            return None
        try:
            return [space.make(values) for values in noted]
        except TypeError as error:
            raise self._edited("configurations", error) from None

    def add(self, trial: Trial) -> None:
        """Keep a trial; when this returns it is on the disk.

        Raises
        ------
        StudyError
            The file cannot be written.
        """
        timed = trial.state == "timed"
        made = self._create_trial(
            state=self._states.COMPLETE if timed else self._states.FAIL,
            value=trial.relative if timed else None,
            params={name: trial.config[name] for name in self._distributions},
            distributions=self._distributions,
            user_attrs={_TRIAL: trial.to_dict()},
        )
        with self._writing():
            self._study.add_trial(made)

    def note(self, name: str, value: Any) -> None:
        """Keep a value of the whole study, such as a finished round of its finals; raises as `add`."""
        with self._writing():
            self._study.set_user_attr(name, value)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """What the system refuses, as an error that says what to do; half a line is taken off again."""
        try:
            yield
        except OSError as error:
            with suppress(OSError):  # of a disk that takes nothing any more; opening the file again mends it
                _mend(self.path)
            raise StudyError(
                f"{self.path} cannot be written: {error.strerror or error}. What was finished before is in it. Make "
                "room, and resume the study."
            ) from None

    def _edited(self, what: str, error: Exception) -> StudyError:
        return StudyError(f"{self.path} holds {what} that cannot be read: {error}. Was it edited? Begin another file.")

    def noted(self, name: str) -> Any:
        """What was kept under a name; None where nothing was."""
        return self._study.user_attrs.get(name)

    def _check(self, about: dict[str, Any]) -> None:
        about = json.loads(json.dumps(about))
        known = self.noted(_ABOUT)
        if known is None:
            self.note(_ABOUT, about)
        elif known != about:
            differ = [name for name in sorted({*known, *about}) if known.get(name) != about.get(name)]
            raise StudyError(
                f"{self.path} holds a study that differs in {', '.join(differ)}. "
                "Times of different kernels and workloads are not compared; name another file."
            )


def about_of(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What the study in a file is of, read without opening it for writing.

    Raises
    ------
    StudyError
        There is no such file, or it is no journal of a study.
    """
    optuna = require_optuna()
    if not Path(path).is_file():
        raise StudyError(f"there is no file {path}. Give the journal of a study.")
    about = _open(optuna, Path(path), create=False).user_attrs.get(_ABOUT)
    if not isinstance(about, dict) or not {"space", "gpu"} <= about.keys():
        raise StudyError(f"{path} is no journal of a study of this program.")
    return about


_NAME = "study"


def _open(optuna: ModuleType, path: Path, *, create: bool = True) -> Any:
    journal = optuna.storages.journal
    try:
        storage = optuna.storages.JournalStorage(journal.JournalFileBackend(str(path), lock_obj=_Held()))
        if not create:
            return optuna.load_study(study_name=_NAME, storage=storage)
        return optuna.create_study(study_name=_NAME, storage=storage, direction="minimize", load_if_exists=True)
    except OSError:
        raise
    except Exception as error:  # Optuna checks nothing that it reads, so anything may go wrong with it
        raise StudyError(f"{path} is no journal of a study: {type(error).__name__}: {error}.") from None


class _Held:
    """What Optuna asks for around each write: nothing, for the file is held for as long as it is open."""

    def acquire(self) -> bool:
        """Held already."""
        return True

    def release(self) -> None:
        """Kept."""


def _hold(path: Path) -> int:
    """Open the file for this process alone; the system lets go when the process ends, however it ends."""
    try:
        held = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be opened: {error.strerror or error}. Name another file.") from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise StudyError(f"{path} is open in another process. Wait for it, or name another file.") from None
    return held


def _mend(path: Path) -> None:
    """Take off a last line that a killed process did not finish."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
