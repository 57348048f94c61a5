"""An event loop for simulations: virtual time, no threads, the same order in every run, and programs that can crash.

A program is everything that descends from one task: its context says so. A crashed program's callbacks never run again,
so nothing of it is cleaned up, as after SIGKILL; its tasks stay referenced, so that the garbage collector does not run
their `finally` blocks. Work for threads runs on the loop a little later.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context, ContextVar
from typing import Any, TypeVar, TypeVarTuple

from pykubelet.testing.virtual_time import VirtualTimeLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Program:
    """One run of a program, from its start to its crash."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.steps = 0
        self.crash_at_step: int | None = None
        """Crashes after this many callbacks: between two awaits of any of its tasks."""
        self.on_crash: Callable[[Program], None] = lambda _: None
        self.readers: set[int] = set()
        self.keep: list[Any] = []
        """What must not be garbage collected after the crash."""

    def run(self, callback: Callable[..., object], *args: Any) -> None:
        """Runs one callback, unless the program is dead; then crashes if it is due."""
        if self.is_dead:
            return
        self.steps += 1
        callback(*args)
        if self.crash_at_step is not None and self.steps >= self.crash_at_step and not self.is_dead:
            self.crash()

    def crash(self) -> None:
        """Stops the program between two of its steps."""
        self.is_dead = True
        self.on_crash(self)

    def context(self) -> Context:
        """A context for tasks of this program."""
        context = Context()
        context.run(PROGRAM.set, self)
        return context


PROGRAM: ContextVar[Program | None] = ContextVar("program", default=None)


class NumberedTask(asyncio.Task[T]):
    """A task whose place in sets is the same in every run."""

    numbers = itertools.count(1)

    def __init__(self, *args: Any, **named: Any) -> None:
        self._number = next(self.numbers)
        self.program = _program_in(named.get("context"))
        super().__init__(*args, **named)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class NumberedFuture(asyncio.Future[T]):
    """A future whose place in sets is the same in every run."""

    def __init__(self, **named: Any) -> None:
        self._number = next(NumberedTask.numbers)
        super().__init__(**named)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


Disk = Callable[[Program | None, Callable[[], Any]], Any]
"""Runs a blocking function for a program, or fails as a disk does."""


class SimulationLoop(VirtualTimeLoop):
    """An event loop on virtual time that runs programs."""

    def __init__(self) -> None:
        super().__init__()
        self.disk: Disk = lambda _, function: function()
        self.disk_delay: Callable[[Program | None], float] = lambda _: 0.0
        numbered: Any = _numbered_task
        self.set_task_factory(numbered)

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(loop=self)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        program = _program_in(context)
        if program is None:
            return super().call_soon(callback, *args, context=context)
        run: Any = program.run
        return super().call_soon(run, callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        program = _program_in(context)
        if program is None:
            return super().call_at(when, callback, *args, context=context)
        run: Any = program.run
        return super().call_at(when, run, callback, *args, context=context)

    def add_reader(self, fd: Any, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        program = PROGRAM.get()
        if program is None:
            super().add_reader(fd, callback, *args)
        else:
            program.readers.add(fd if isinstance(fd, int) else fd.fileno())
            run: Any = program.run
            super().add_reader(fd, run, callback, *args)

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Runs a blocking function on the loop a little later; a crash may fall before it or before its result."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        program = PROGRAM.get()

        def work() -> None:
            try:
                result = self.disk(program, lambda: func(*args))
            except Exception as error:  # noqa: BLE001  the waiting caller gets it
                self.call_soon(_settle, future, None, error)
            else:
                self.call_soon(_settle, future, result, None)

        self.call_later(self.disk_delay(program), work)
        return future

    def bury(self, program: Program) -> None:
        """Keeps what a crashed program held open, unused."""
        for fd in program.readers:
            self.remove_reader(fd)
        program.keep += [
            task for task in asyncio.all_tasks(self) if isinstance(task, NumberedTask) and task.program is program
        ]


def _program_in(context: Context | None) -> Program | None:
    return PROGRAM.get() if context is None else context.get(PROGRAM)


def _numbered_task(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T], **named: Any) -> asyncio.Task[T]:
    return NumberedTask(coroutine, loop=loop, **named)


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def number_instances(*kinds: type[Any]) -> None:
    """Makes the order of these objects in sets the same in every run: by their first use instead of their address."""

    def number(made: Any) -> int:
        try:
            known: int = made.number_in_simulation
        except AttributeError:
            known = made.number_in_simulation = next(NumberedTask.numbers)
        return known

    for kind in kinds:
        kind.__hash__ = number  # type: ignore[assignment]
