"""Why a policy gives no plan."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from workbench.errors import WorkbenchError


@dataclass(frozen=True)
class Failure:
    """Why a policy gives no plan.

    Attributes
    ----------
    title : str
        Name of the policy for a reader.
    error : BaseException
        The workbench's own, or whatever a user's function raised.
    key : str
        Name of a policy of the user's; "" for a built-in one.
    """

    title: str
    error: BaseException
    key: str = ""

    @property
    def message(self) -> str:
        """The reason in words; for a user's function also the line that raised."""
        if isinstance(self.error, WorkbenchError):
            said = str(self.error)
            known = not self.key or self.key in said.partition("\n")[0]
            return said if known else f"policies[{self.key!r}]: {said}"
        frames = traceback.extract_tb(self.error.__traceback__)
        where = f", line {frames[-1].lineno} of {frames[-1].name}" if frames else ""
        return f"{self.title} raised {type(self.error).__name__}: {self.error}{where}"
