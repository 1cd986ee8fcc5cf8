"""Kernels compiled beside a notebook that goes on working: the one on screen first, then others that were asked for.

The compiler runs in one thread of its own and leaves the interpreter alone while it works, so a slider is answered
meanwhile. A wish that was overtaken before it began is dropped; a kernel that is being compiled is finished, for it is
kept in the cache, and ending it would take a process that costs more to start anew than most kernels to compile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from workbench.errors import WorkbenchError
from workbench.gpu.compile import CompiledKernel
from workbench.tune.resources import Resources
from workbench.tune.resources_sass import MachineCode, machine_code
from workbench.widgets.tiles.known import Known

SCANNED = 8
"""Configurations that are looked for in the cache between two looks at what is wanted."""


@dataclass(frozen=True)
class Code:
    """Machine code of a kernel, counted; or why it was not."""

    counts: MachineCode | None
    problem: str = ""


def code_of(kernel: CompiledKernel) -> Code:
    """Count a kernel's instructions; a disassembler that is missing or fails is told in words."""
    try:
        return Code(machine_code(kernel))
    except WorkbenchError as error:
        return Code(None, str(error))


class Compiler:
    """What is compiled, counted and looked up.

    Attributes
    ----------
    codes : dict of str to Code
        By the key of the kernel.
    now : object or None
        The configuration that is being compiled.
    done, total : int
        Of the batch that was asked for; both 0 where there is none.
    dropped : int
        Wishes that were overtaken before they began.
    problem : str
        Why the last piece of work failed.
    """

    def __init__(self) -> None:
        self.codes: dict[str, Code] = {}
        self.now: Any = None
        self.done = self.total = self.dropped = 0
        self.problem = ""
        self.on_found: Callable[[Known, list[Resources]], None] = lambda known, found: None
        self.on_change: Callable[[], None] = lambda: None
        self._wanted: tuple[Known, Any] | None = None
        self._also: deque[tuple[Known, Any]] = deque()
        self._kernel: CompiledKernel | None = None
        self._batch: deque[tuple[Known, Any]] = deque()
        self._scan: deque[tuple[Known, Any]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tiles")

    @property
    def running(self) -> bool:
        """Whether anything is being worked on."""
        return self._task is not None and not self._task.done()

    @property
    def left(self) -> bool:
        """Whether anything is yet to be begun."""
        return bool(self._wanted or self._kernel or self._also or self._batch or self._scan)

    def want(self, known: Known, config: Any) -> None:
        """Compile the configuration on screen next; whatever was wanted before is not any more."""
        if self._wanted is not None:
            self.dropped += 1
        self._wanted = known, config
        self._go()

    def want_also(self, known: Known, configs: Iterable[Any]) -> None:
        """Compile those that stand beside it, after it; replaces what stood there before."""
        self._also = deque((known, config) for config in configs)
        if self._also:
            self._go()

    def want_nothing(self) -> None:
        """Drop what was wanted: the screen shows something that is known, or cannot run."""
        if self._wanted is not None:
            self.dropped += 1
        self._wanted = self._kernel = None

    def count(self, kernel: CompiledKernel) -> None:
        """Count the instructions of the kernel on screen."""
        if kernel.key not in self.codes:
            self._kernel = kernel
            self._go()

    def scan(self, known: Known, configs: Iterable[Any]) -> None:
        """Find those that are in the cache, and compile none; replaces what was looked for before."""
        self._scan = deque((known, config) for config in configs)
        if self._scan:
            self._go()

    def batch(self, known: Known, configs: Iterable[Any]) -> None:
        """Compile all of these, after what is on screen."""
        self._batch = deque((known, config) for config in configs)
        self.done, self.total, self.problem = 0, len(self._batch), ""
        self._go()

    def cancel(self) -> None:
        """Forget the rest of the batch; what was compiled stays."""
        self._batch.clear()
        self.done = self.total = 0
        self.on_change()

    async def finished(self) -> None:
        """Wait until nothing is left to do."""
        while self.running:
            assert self._task is not None
            await asyncio.shield(self._task)

    def _go(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a plain script: nothing runs beside it, and whoever asks for resources compiles then
            return
        if not self.running:
            self._task = loop.create_task(self._run())

    async def _run(self) -> None:
        while self.left:
            try:
                await self._step()
                self.problem = ""
            except WorkbenchError as error:  # a cache or a compiler that cannot work; told on screen
                self.problem = str(error)
                self._batch.clear()
                self._scan.clear()
                self.done = self.total = 0
            finally:
                self.now = None
        self.on_change()

    async def _step(self) -> None:
        loop = asyncio.get_running_loop()
        if self._wanted is not None:
            (known, config), self._wanted = self._wanted, None
            self.now = config
            found = [await loop.run_in_executor(self._thread, known.find, config)]
        elif self._kernel is not None:
            kernel, self._kernel = self._kernel, None
            self.codes[kernel.key] = await loop.run_in_executor(self._thread, code_of, kernel)
            return self.on_change()
        elif self._also:
            known, config = self._also.popleft()
            found = [await loop.run_in_executor(self._thread, known.find, config)]
        elif self._scan:
            known = self._scan[0][0]
            some = [self._scan.popleft()[1] for _ in range(min(SCANNED, len(self._scan)))]
            found = await loop.run_in_executor(self._thread, _there, known, some)
        else:
            known, config = self._batch.popleft()
            found = [await loop.run_in_executor(self._thread, known.find, config)]
            if self.total:  # not cancelled meanwhile
                self.done += 1
                if self.done == self.total:
                    self.done = self.total = 0
        return self.on_found(known, found)


def _there(known: Known, configs: list[Any]) -> list[Resources]:
    return [known.find(config) for config in configs if known.is_compiled(config)]
