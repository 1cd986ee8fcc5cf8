"""What can go wrong in a way the user can mend.

Every error a user can cause is a `WorkbenchError`, and its message says three things: what was given, what is
allowed, and what to do. A subclass also derives from the built-in exception that a reader of plain Python would
expect, so ``except ValueError`` keeps working. Errors of any other type are defects of the workbench itself.
"""

from __future__ import annotations


class WorkbenchError(Exception):
    """Base of every error that the workbench raises on purpose."""


class InvalidArgument(WorkbenchError, ValueError):
    """A value passed to a public function is outside what that function accepts."""


class InvalidPlan(WorkbenchError, ValueError):
    """A schedule breaks a rule: work left out, done twice, or outside its request."""


class WorkloadError(WorkbenchError, ValueError):
    """A trace or a list of lengths cannot be read; the message names file, line and what was expected."""


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
    """A kernel did not compile; the message holds the compiler's own log."""
