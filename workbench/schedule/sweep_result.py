"""What a sweep found: the numbers of every policy and step, and the steps at which a policy loses most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidArgument
from workbench.schedule.blocks import Ints

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]

BY_POLICY = ("makespan_us", "call_us", "waiting_us", "idle_fraction", "max_over_mean", "merge_us")


@dataclass(frozen=True, eq=False)
class Sweep:
    """Numbers of every policy and step. Times in microseconds, by the cost model; see :class:`Metrics` for each.

    Attributes
    ----------
    policies : tuple of str
    makespan_us, call_us, waiting_us, idle_fraction, max_over_mean, merge_us : float64 arrays [policies, steps]
        Fields of :class:`workbench.schedule.Metrics`.
    bound_us : float64 array [steps]
    tiles, batch : int64 arrays [steps]
        Tiles of all KV heads, and requests.
    source : str
        Where the times come from.
    """

    policies: tuple[str, ...]
    makespan_us: Floats = field(repr=False)
    call_us: Floats = field(repr=False)
    waiting_us: Floats = field(repr=False)
    idle_fraction: Floats = field(repr=False)
    max_over_mean: Floats = field(repr=False)
    merge_us: Floats = field(repr=False)
    bound_us: Floats = field(repr=False)
    tiles: Ints = field(repr=False)
    batch: Ints = field(repr=False)
    source: str

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return int(self.tiles.size)

    def index(self, policy: str | int) -> int:
        """Row of a policy.

        Raises
        ------
        InvalidArgument
            If the sweep does not have it.
        """
        if isinstance(policy, str) and policy in self.policies:
            return self.policies.index(policy)
        if isinstance(policy, int) and 0 <= policy < len(self.policies):
            return policy
        raise InvalidArgument(f"policy {policy!r} is not in this sweep; it has {', '.join(self.policies)}")

    @property
    def best_call_us(self) -> Floats:
        """Shortest call of each step among the sweep's policies, float64 [steps]."""
        best: Floats = self.call_us.min(axis=0)
        return best

    @property
    def over_best(self) -> Floats:
        """Each call over the step's shortest, float64 [policies, steps]; 1 where the policy is the best."""
        return self.call_us / self.best_call_us

    def worst(self, policy: str | int, n: int = 3, *, apart: int = 1) -> Ints:
        """The steps at which a policy's call is longest against the best policy's, worst first.

        Parameters
        ----------
        policy
            Name or row.
        n
            Steps wanted; fewer come back if there are no more.
        apart
            Least distance between two of them: neighbouring steps look alike.

        Returns
        -------
        int64 array [<= n]
        """
        left = self.over_best[self.index(policy)].copy()
        found: list[int] = []
        while len(found) < n and left.size and np.isfinite(left).any():
            step = int(np.argmax(left))
            found.append(step)
            left[max(step - apart + 1, 0) : step + apart] = -np.inf
        return np.array(found, np.int64)

    def to_frame(self) -> pd.DataFrame:
        """One row for each policy and step: policy, step, batch, tiles, bound_us and the fields by policy."""
        import pandas as pd

        count = len(self.policies)
        columns: dict[str, Any] = {
            "policy": np.repeat(np.array(self.policies, object), self.num_steps),
            "step": np.tile(np.arange(self.num_steps), count),
        }
        columns |= {name: np.tile(getattr(self, name), count) for name in ("batch", "tiles", "bound_us")}
        columns |= {name: getattr(self, name).ravel() for name in BY_POLICY}
        return pd.DataFrame(columns)

    @classmethod
    def join(cls, parts: Iterable[Sweep]) -> Sweep:
        """The sweep of consecutive ranges of steps, put together.

        Raises
        ------
        InvalidArgument
            If there is no part, or their policies or sources differ.
        """
        given = list(parts)
        if not given or any((p.policies, p.source) != (given[0].policies, given[0].source) for p in given):
            raise InvalidArgument("sweeps to join must be one or more, of the same policies and cost model")
        arrays = (f.name for f in fields(cls) if f.name not in ("policies", "source"))
        joined = {name: np.concatenate([getattr(part, name) for part in given], axis=-1) for name in arrays}
        return cls(policies=given[0].policies, source=given[0].source, **joined)
