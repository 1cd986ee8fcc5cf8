"""From a study to the default of this GPU, and back."""

from __future__ import annotations

import datetime
from pathlib import Path

from workbench.errors import InvalidArgument
from workbench.tables.tuned import TunedEntry, TunedTable, read_tuned, save_tuned, tuned_lock
from workbench.tune.space import Space
from workbench.tune.study import Result, Study, source_digest
from workbench.tune.study_trials import Finalist


def applicable(space: Space, result: Result) -> Finalist | None:
    """The fastest finalist that could be the default: what callers decide is as in the default. None: there is none."""
    default = space.make(result.default.config)
    others = (each for each in result.finalists if each.config != result.default.config)
    return next((each for each in others if space.could_be_default(space.make(each.config), default)), None)


def apply(study: Study, result: Result, *, sms: int, force: bool = False) -> Path:
    """Keep the best of a study as one's own default for this GPU and shape; processes that start afterwards use it.

    Parameters
    ----------
    study, result
        The study and its finals.
    sms
        SMs of the GPU.
    force
        Also where it is not surely faster than the default.

    Returns
    -------
    Path
        The table's file.

    Raises
    ------
    InvalidArgument
        No finalist could be the default, or none is surely faster.
    TableError
        The table there cannot be read or written.
    """
    best = applicable(study.space, result)
    if len(result.finalists) == 1:
        raise InvalidArgument("everything else was clearly slower than the default, which stays.")
    if best is None:
        bound = ", ".join(study.space.bound)
        raise InvalidArgument(
            f"no finalist could be a default: each changes {bound}, which a default cannot. Pass it as config= where "
            "the task map is built and where it is used, or study the part that can be applied."
        )
    low, high = best.relative_interval()
    if high >= 1 and not force:
        raise InvalidArgument(
            f"the best applicable configuration takes {best.relative:.3f} of the default's time ({low:.3f} to "
            f"{high:.3f}), so it is not surely faster. The default stays; force it if you must."
        )
    entry = TunedEntry(
        key=study.space.tuned_key(),
        config={name: value for name, value in best.config.items() if name not in study.space.bound},
        cases=(study.space.workload.case,),
        median_us=round(best.median_us, 3),
        gain=round(1 - best.relative, 5),
        gain_low=round(1 - high, 5),
        gain_high=round(1 - low, 5),
        source_digest=source_digest(study.space),
        date=datetime.date.today(),
    )
    empty = TunedTable(gpu=study.gpu, sms=sms, operator=study.space.operator)
    with tuned_lock(study.gpu, study.space.operator):  # another notebook may apply a study of its own meanwhile
        return save_tuned((read_tuned(study.gpu, study.space.operator) or empty).with_entry(entry))


def withdraw(space: Space, gpu: str) -> bool:
    """Take one's own default of a shape back; whether there was one.

    Raises
    ------
    TableError
        The table there cannot be read or written.
    """
    with tuned_lock(gpu, space.operator):
        table = read_tuned(gpu, space.operator)
        if table is None or table.find(space.tuned_key()) is None:
            return False
        save_tuned(table.without(space.tuned_key()))
    return True
