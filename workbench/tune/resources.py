"""What configurations need of an SM, and what that means for a workload: compiled, not run.

Needs the compiler but no GPU. Kernels come from the cache where they are there; the others are compiled on all cores.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from workbench import devices
from workbench.errors import CompileError, InvalidArgument
from workbench.gpu.ahead import Job, compile_ahead
from workbench.gpu.compile import CompiledKernel, is_compiled
from workbench.gpu.occupancy import Occupancy, occupancy
from workbench.records import Environment, ResourcesRecord
from workbench.tune.space import Launch, Space

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True)
class Resources:
    """One configuration, compiled, on one GPU, for one workload.

    Attributes
    ----------
    config : object
        The configuration.
    kernel : CompiledKernel or None
        None where it does not compile.
    launch : Launch
    occupancy : Occupancy or None
        None where it does not compile.
    sms : int
        SMs of the GPU.
    modelled_us : float
        Time of a call by the operator's cost model, microseconds.
    problem : str
        Why there is no kernel, or why it cannot be launched; "" where all is well.
    """

    config: Any
    kernel: CompiledKernel | None
    launch: Launch
    occupancy: Occupancy | None
    sms: int
    modelled_us: float
    problem: str = ""

    @property
    def waves(self) -> float:
        """CTAs of the grid over those that the GPU holds at the same time; not rounded. NaN where none can be held."""
        resident = self.occupancy.ctas_per_sm if self.occupancy else 0
        return self.launch.ctas / (resident * self.sms) if resident else float("nan")

    def to_row(self) -> dict[str, Any]:
        """Values by column, the configuration's own first; sizes in bytes."""
        row = dict(self.config.to_dict())
        facts = self.kernel.facts if self.kernel else None
        for name in ("registers", "spill_store_bytes", "spill_load_bytes", "stack_bytes", "code_bytes"):
            row[name] = getattr(facts, name, None)
        resident = self.occupancy
        row["shared_bytes"] = resident.shared_bytes if resident else self.launch.shared_bytes
        row["threads"] = self.launch.threads
        row["resident_ctas"] = resident.ctas_per_sm if resident else None
        row["limited_by"] = ", ".join(resident.limited_by) if resident else None
        row["occupancy"] = resident.fraction if resident else None
        row |= {"ctas": self.launch.ctas, "waves": self.waves, "modelled_us": self.modelled_us}
        return row | {"problem": self.problem}


def resources(
    space: Space,
    configs: Iterable[Any] | None = None,
    *,
    gpu: str | devices.Gpu = "H200",
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Resources]:
    """Compile configurations and say what they need.

    Parameters
    ----------
    space
        What the configurations are of.
    configs
        Default: the whole space.
    gpu
        GPU to fit them on, by its name in the catalogue; of the architecture that the kernels are written for.
    workers
        Processes that compile; default: one a core.
    progress
        Called with the number of kernels that are there and that there will be.

    Returns
    -------
    list of Resources
        One for each of the configurations, in their order, also for one that is given twice. One that does not compile
        says so in `Resources.problem`.

    Raises
    ------
    InvalidArgument
        The GPU is not known or of another architecture.
    """
    device = devices.gpu(gpu)
    wanted = list(space if configs is None else configs)
    jobs = {config: space.job(config) for config in wanted}
    for job in list(jobs.values())[:1]:
        if job.arch != device.arch:
            raise InvalidArgument(
                f"{device.name} is {device.arch}, and the kernel is written for {job.arch}. "
                f"Give one of {', '.join(g.name for g in devices.CATALOGUE.values() if g.arch == job.arch)}."
            )
    _compile(list(jobs.values()), workers, progress)
    return [_of(space, config, jobs[config], device) for config in wanted]


def table(found: Sequence[Resources]) -> pd.DataFrame:
    """Resources as a table, a row a configuration; see :meth:`Resources.to_row`."""
    import pandas as pd

    return pd.DataFrame([each.to_row() for each in found])


def record_of(found: Resources, space: Space, gpu: str | devices.Gpu = "H200") -> ResourcesRecord | None:
    """Resources as a record of the workload's case; None for a configuration that has no kernel."""
    if found.kernel is None or found.occupancy is None:
        return None
    facts = found.kernel.facts
    device = devices.gpu(gpu)
    return ResourcesRecord(
        operator=space.operator,
        provider="cuda",
        environment=Environment(gpu=device.name, date=datetime.date.today(), sms=device.sms),
        workload=space.workload,
        configuration=found.config.to_dict(),
        arch=found.kernel.arch,
        registers=facts.registers,
        shared_bytes=found.occupancy.shared_bytes,
        threads=found.launch.threads,
        ctas_per_sm=found.occupancy.ctas_per_sm,
        stack_bytes=facts.stack_bytes,
        spill_store_bytes=facts.spill_store_bytes,
        spill_load_bytes=facts.spill_load_bytes,
        code_bytes=facts.code_bytes,
        method="Compiled with NVRTC; residency by NVIDIA's occupancy rules",
    )


def _compile(jobs: Sequence[Job], workers: int | None, progress: Callable[[int, int], None] | None) -> None:
    """Have every job in the cache; several configurations may share a kernel."""
    different = {(job.entry, str(job.source), tuple(sorted(job.defines.items()))): job for job in jobs}
    lacking = [
        job for job in different.values() if not is_compiled(job.source, job.entry, defines=job.defines, arch=job.arch)
    ]
    there = len(different) - len(lacking)
    if progress:
        progress(there, len(different))

    def one_more(_job: Job) -> None:
        nonlocal there
        there += 1
        if progress:
            progress(there, len(different))

    if lacking:
        compile_ahead(lacking, workers=workers, progress=one_more)


def _of(space: Space, config: Any, job: Job, device: devices.Gpu) -> Resources:
    launch, modelled = space.launch(config, device), space.modelled_us(config, device)
    try:
        kernel = job.compile()
    except CompileError as error:
        return Resources(config, None, launch, None, device.sms, modelled, str(error))
    facts = kernel.facts
    resident = occupancy(
        device,
        threads=launch.threads,
        registers=facts.registers,
        shared_bytes=facts.shared_bytes + launch.shared_bytes,
    )
    problem = "" if resident.ctas_per_sm else f"no CTA fits an SM: {', '.join(resident.limited_by)}"
    return Resources(config, kernel, launch, resident, device.sms, modelled, problem)
