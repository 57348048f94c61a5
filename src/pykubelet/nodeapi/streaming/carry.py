"""Carries bytes between a caller and what runs in a pod, both ways at once, until it is over.

Upstream: the copying that a container runtime's streaming server does.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

from pykubelet.nodeapi.streaming.console import ByteSink, ByteSource, Console
from pykubelet.runtime.protocol import RuntimeFailure
from pykubelet.runtime.streams import ByteReader, Connection, Session

# What a command wrote before its end is in a pipe, which is small. A child it left behind may keep that open for ever.
DRAIN_SECONDS = 10.0


class _Guard:
    """Awaits what may fail, in tasks that do not; the first failure is kept."""

    def __init__(self) -> None:
        self.failed = asyncio.Event()
        self._failure: OSError | RuntimeFailure | None = None

    async def run(self, doing: Awaitable[object]) -> None:
        try:
            await doing
        except (OSError, RuntimeFailure) as error:
            self._failure = self._failure or error
            self.failed.set()

    def check(self) -> None:
        """Raises the failure, if there was one."""
        if self._failure is not None:
            raise self._failure


async def carry_command(session: Session, console: Console, *, closes_stdin: bool = True) -> int:
    """Connect a caller with a program until it ends; its exit code. ConnectionError if the caller is gone first."""
    guard, codes = _Guard(), list[int]()

    async def end() -> None:
        codes.append(await session.exit_code())

    outputs = [(session.stdout, console.stdout)]
    if session.stderr is not None:
        outputs.append((session.stderr, console.stderr))
    async with asyncio.TaskGroup() as group:
        inputs = (_feed(session, console, closes_stdin=closes_stdin), _resize(session, console))
        feeding = [group.create_task(guard.run(one), name="input") for one in inputs]
        copying = [group.create_task(guard.run(_copy(*output)), name="output") for output in outputs]
        ending = group.create_task(guard.run(end()), name="exit code")
        failing = group.create_task(guard.failed.wait(), name="failure")
        await asyncio.wait([ending, failing], return_when=asyncio.FIRST_COMPLETED)
        if not guard.failed.is_set():
            await asyncio.wait(copying, timeout=DRAIN_SECONDS)
        for task in (*feeding, *copying, ending, failing):
            task.cancel()
    guard.check()
    return codes[0]


async def carry_connection(connection: Connection, source: ByteSource, sink: ByteSink) -> None:
    """Connect a caller with a port until the pod closes the connection; the caller's end closes only its half."""
    guard = _Guard()

    async def send() -> None:
        while data := await source.read():
            await connection.writer.write(data)
        await connection.writer.close()

    async with asyncio.TaskGroup() as group:
        sending = group.create_task(guard.run(send()), name="to the pod")
        await guard.run(_copy(connection.reader, sink))
        sending.cancel()
    guard.check()


async def _copy(reader: ByteReader, sink: ByteSink | None) -> None:
    """To the end; what nobody asked for is read all the same, or the program would stop."""
    while data := await reader.read():
        if sink is not None:
            await sink.write(data)


async def _feed(session: Session, console: Console, *, closes_stdin: bool) -> None:
    if session.stdin is None or console.stdin is None:
        return
    while data := await console.stdin.read():
        await session.stdin.write(data)
    if closes_stdin:
        await session.stdin.close()


async def _resize(session: Session, console: Console) -> None:
    if console.sizes is not None:
        async for size in console.sizes:
            # A terminal that is just closing is no reason to end anything.
            with suppress(OSError):
                session.resize(size.columns, size.rows)
