"""The command line: ``workbench doctor``, ``workbench lab`` and the commands of the main job.

Exit codes, the same for every command:

==== =========================================================================================
code meaning
==== =========================================================================================
0    done
1    the command ran and what it looked at is not in order, or a part it needs is missing
2    the input cannot be used: an unknown option, an argument or a file with a fault in it
130  interrupted with Ctrl-C
==== =========================================================================================

A command is one function in a module of its own, and one entry of `COMMANDS`. Its module imports pandas, torch and
the like inside that function, so that ``--help`` stays quick.
"""

from __future__ import annotations

import errno
import io
import os
import sys

import typer
from rich.console import Console

import workbench
from workbench.cli import bench, capture, crossover, doctor, fit, lab, plan, records, report, timeline, tune
from workbench.errors import InvalidArgument, InvalidPlan, ReportDamaged, TableError, WorkbenchError, WorkloadError

COMMANDS = (
    crossover.crossover,
    doctor.doctor,
    fit.fit,
    lab.lab,
    plan.plan,
    records.records,
    report.report,
    timeline.timeline,
)

GROUPS = {"bench": bench.app, "capture": capture.app, "tune": tune.app}
"""Commands that have commands of their own."""

FAULTY_INPUT = (InvalidArgument, InvalidPlan, ReportDamaged, TableError, WorkloadError)

app = typer.Typer(
    help="Schedules, kernels and measurements of the operators that decide serving latency.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for _command in COMMANDS:
    app.command()(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hpc-ops-workbench {workbench.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", help="Print the version.", callback=_print_version, is_eager=True),
) -> None:
    """Schedules, kernels and measurements of the operators that decide serving latency."""


OUTPUT_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a write to standard output fails with where it goes to a full or broken disk; typer ends on a closed pipe."""


def main() -> None:
    """Run the command line; an error that the user can mend is one message, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # it is None where the shell closed it
            # A terminal may lack a character of ours, and a file may have a name that is not text.
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except WorkbenchError as error:
        _tell(str(error))
        raise SystemExit(2 if isinstance(error, FAULTY_INPUT) else 1) from None
    except OSError as error:
        if error.filename is not None or error.errno not in OUTPUT_LOST:
            raise
        # What is still buffered for it cannot be written either, and would be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _tell(f"standard output cannot be written: {error.strerror}. Send it elsewhere.")
        raise SystemExit(1) from None


def _tell(message: str) -> None:
    Console(stderr=True, soft_wrap=True).print(f"Error: {message}", markup=False, highlight=False)
