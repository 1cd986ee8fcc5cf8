"""``--policy``: a name, or a function in a Python file."""

from __future__ import annotations

import dataclasses
import runpy
import traceback
from pathlib import Path
from typing import Any

from workbench.errors import InvalidArgument, WorkbenchError
from workbench.schedule import CostModel, DecodePlan, Policy, resolve


def load_policy(text: str, cost: CostModel) -> Policy:
    """The policy that an option names.

    Parameters
    ----------
    text
        A name such as ``lpt`` or ``fixed_splits(8)``, or ``path/to/file.py:function``. The file is run, as Python
        would run it; the function is ``f(lengths, num_kv_heads, num_ctas, tile)``, or a policy object stands there.
    cost
        What ``balanced`` decides with.

    Raises
    ------
    InvalidArgument
        No such name, file or function, or the file fails to run; the message holds the line.
    """
    file, colon, name = text.rpartition(":")
    if not colon or not file.endswith(".py"):
        return resolve(text, cost)
    path = Path(file)
    if not path.is_file():
        raise InvalidArgument(f"--policy {text}: there is no file {file}. Give path/to/file.py:function.")
    try:
        namespace = runpy.run_path(str(path))
    except (Exception, SystemExit) as error:  # a script may end with sys.exit()
        raise InvalidArgument(f"--policy {text}: {file} fails to run: {_told(error, path)}") from None
    if name not in namespace:
        functions = sorted(n for n, v in namespace.items() if callable(v) and not n.startswith("_"))
        known = ", ".join(functions) or "no function"
        raise InvalidArgument(f"--policy {text}: {file} has no {name!r}; it has {known}.")
    return _Guarded(resolve(namespace[name]), path, f"{path.name}:{name}")


@dataclasses.dataclass(frozen=True)
class _Guarded:
    """A user's policy whose own errors are told as such.

    It goes by its file and name: a function may be called ``lpt`` without being ours.
    """

    inner: Policy
    path: Path
    name: str

    def plan(self, problem: Any) -> Any:
        try:
            made = self.inner.plan(problem)
            return dataclasses.replace(made, policy=self.name) if isinstance(made, DecodePlan) else made
        except WorkbenchError:
            raise
        except (Exception, SystemExit) as error:
            batch = f"{problem.batch} requests, {problem.num_kv_heads} KV heads, {problem.num_ctas} CTAs"
            message = f"policy {self.name} fails on a step of {batch}: {_told(error, self.path)}"
            raise InvalidArgument(message) from None


def _told(error: BaseException, path: Path) -> str:
    """An exception with the line of the user's file that it comes from."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: SyntaxError: {error.msg}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == path.name]
    where = f"line {frames[-1].lineno} ({frames[-1].line}): " if frames else ""
    return f"{where}{type(error).__name__}: {error}"
