"""What can go wrong in a way the user can mend.

Every error a user can cause is a `WorkbenchError`, and its message says three things: what was given, what is
allowed, and what to do. A subclass also derives from the built-in exception that a reader of plain Python would
expect, so ``except ValueError`` keeps working. Errors of any other type are defects of the workbench itself.
"""

from __future__ import annotations

from collections.abc import Sequence


class WorkbenchError(Exception):
    """Base of every error that the workbench raises on purpose."""


class InvalidArgument(WorkbenchError, ValueError):
    """A value passed to a public function is outside what that function accepts."""


class InvalidPlan(WorkbenchError, ValueError):
    """A schedule breaks a rule: work left out, done twice, or outside its request."""

    def __init__(self, plan: str, problems: Sequence[object]) -> None:
        """
        Parameters
        ----------
        plan
            What was checked: the policy's name, or the kind of document.
        problems
            What is wrong, each printable on its own line.
        """
        super().__init__(f"{plan}: not a valid plan:\n" + "\n".join(f"  - {problem}" for problem in problems))
        self.problems = list(problems)


class StaleWeight(WorkbenchError, RuntimeError):
    """A router weight changed after it was split into terms, and the terms were not made again."""


class WorkloadError(WorkbenchError, ValueError):
    """A trace or a list of lengths cannot be read; the message names file, line and what was expected."""


class TraceError(WorkloadError):
    """A request trace cannot be read.

    Attributes
    ----------
    path : str
        The file as it was given.
    line : int or None
        Line of the file, counted from 1 (row of a Parquet file); None when the whole file is meant.
    expected : str
        What would have been right there.
    """

    def __init__(self, path: str, line: int | None, problem: str, *, expected: str, unit: str = "line") -> None:
        """
        Parameters
        ----------
        path, line, expected
            As the attributes.
        problem
            What was found instead.
        unit
            What `line` counts: "line", or "row" in a file that has no lines.
        """
        place = path if line is None else f"{path}, {unit} {line}"
        super().__init__(f"{place}: {problem}. Expected {expected}.")
        self.path = path
        self.line = line
        self.expected = expected


class TraceFileError(TraceError):
    """The file is absent, unreadable, empty, compressed, or not the kind of file that its reader expects."""


class TraceFormatError(TraceError):
    """The file can be read, but its format is unknown or lacks a column."""


class TraceRecordError(TraceError):
    """One record of the trace is broken; ``skip_bad=True`` counts such records instead."""


class LengthsError(WorkloadError):
    """An expression of lengths such as "64x4K + 2x32K" cannot be read.

    Attributes
    ----------
    token : str
        The part that cannot be read.
    position : int
        Where it begins, counted from 0.
    """

    def __init__(self, text: str, token: str, position: int, *, expected: str) -> None:
        """
        Parameters
        ----------
        text
            The whole expression; the message shows its line with the token underlined.
        token, position
            As the attributes.
        expected
            What is allowed there.
        """
        start = text.rfind("\n", 0, position) + 1
        line = text[start:].split("\n", 1)[0]
        column = position - start
        shown = line[max(0, column - 60) : column + 60].replace("\t", " ")
        underline = " " * min(column, 60) + "^" * max(1, min(len(token), 60))
        super().__init__(
            f"cannot read the lengths at character {position + 1}, {token[:60]!r}: expected {expected}.\n"
            f"    {shown}\n    {underline}"
        )
        self.token = token
        self.position = position


class StepOutOfRange(WorkloadError, IndexError):
    """A decode step was asked for that the simulation does not have."""


class RecordError(WorkbenchError, ValueError):
    """A record, or a file that belongs to one, cannot be read or kept."""


class TimelineError(WorkbenchError, ValueError):
    """The stamps of a kernel do not fit the plan they are said to be of, or contradict each other."""


class FitError(WorkbenchError, ValueError):
    """Measurements do not determine the constants of a cost model, or a file of constants cannot be used."""


class MissingData(WorkbenchError, FileNotFoundError):
    """A file that belongs to the workbench (a kernel, a notebook, a record) is not where it should be."""


class MissingDependency(WorkbenchError, ImportError):
    """An optional package is not installed; the message gives the command that installs it."""

    def __init__(self, package: str, *, needed_for: str, install: str) -> None:
        """
        Parameters
        ----------
        package
            Name of the package as the user would import it.
        needed_for
            What cannot be done without it, as the end of a sentence: "running the portable kernels".
        install
            The command that brings it.
        """
        super().__init__(f"{package} is not installed, and {needed_for} needs it. Install it with: {install}")
        self.package = package


class NoGpu(WorkbenchError, RuntimeError):
    """The call needs an NVIDIA GPU or its driver, and this machine shows none."""


class CompileError(WorkbenchError, RuntimeError):
    """A kernel did not compile.

    Attributes
    ----------
    configuration : str
        The kernel and the constants it was compiled with.
    log : str
        Everything the compiler said.
    """

    def __init__(self, configuration: str, log: str) -> None:
        super().__init__(f"{configuration} does not compile:\n{log.strip()}")
        self.configuration = configuration
        self.log = log


class LaunchError(WorkbenchError, RuntimeError):
    """A compiled kernel could not be loaded or launched; the message holds the launch and the driver's answer."""


class WorkerLost(WorkbenchError, RuntimeError):
    """A process that did a part of the work ended before it was done."""


class CaptureError(WorkbenchError, RuntimeError):
    """A capture with Nsight Compute did not succeed.

    Attributes
    ----------
    log : str
        What the processes of the capture printed, and Nsight Compute's own log.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class CaptureCancelled(CaptureError):
    """The capture was cancelled; nothing was recorded."""


class CaptureTimeout(CaptureError):
    """The capture took longer than its limit and was ended; nothing was recorded."""


class CountersForbidden(CaptureError):
    """The driver lets administrators only read hardware counters (ERR_NVGPUCTRPERM)."""


class CountersBusy(CaptureError):
    """Another profiler or monitor holds the hardware counters."""


class ProfilerUnavailable(CaptureError):
    """Nsight Compute, or the nsight-python that fits it, is missing or cannot start here."""


class UnknownMetric(CaptureError):
    """Nsight Compute does not know a metric on this GPU."""


class NothingProfiled(CaptureError):
    """The captured call launched no kernel, or none that Nsight Compute saw."""


class UnevenKernels(CaptureError):
    """Runs of the captured call launched different numbers of kernels, so counters cannot be assigned to them."""


class WorkFailed(CaptureError):
    """The captured call itself raised an error, whose traceback the message ends in, or it ended its process."""


class ReportDamaged(WorkbenchError, ValueError):
    """A report of Nsight Compute (.ncu-rep) is empty, cut off, or no such file."""


class CacheWarning(UserWarning):
    """The cache of compiled kernels cannot be used fully; results are the same, compiling is repeated."""


class RecordWarning(UserWarning):
    """Files of a store of records were skipped; the other records are complete."""


class TableError(WorkbenchError, ValueError):
    """A dispatch table cannot be read, or was made for another GPU or shape."""


class StudyError(WorkbenchError, RuntimeError):
    """A study cannot go on: its journal is in use, of another study or damaged, or its default cannot be measured."""


class ArrayFileError(WorkbenchError, ValueError):
    """A file of activations or weights cannot be read, or holds something else; the message names the file."""
