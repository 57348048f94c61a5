"""Reads logs of containers, one after the other, or all at once while they grow."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from pykubelet.api.errors import ApiError
from pykubelet.app.commands.session import Session
from pykubelet.kube.command_plans import LogOptions, log_plan


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one container."""

    namespace: str
    pod: str
    container: str


Write = Callable[[Log, bytes], None]
"""Takes whole lines, but for the last one of a log."""


async def read_logs(session: Session, logs: Sequence[Log], options: LogOptions, write: Write) -> list[ApiError]:
    """Read them all; what could not be read. Those that are followed are read at once, others in their order."""
    if not options.follow:
        return [error for log in logs if (error := await _read(session, log, options, write)) is not None]
    errors: list[ApiError] = []
    unwritten: list[OSError] = []

    async def follow(log: Log) -> None:
        try:
            error = await _read(session, log, options, write)
        except OSError as broken:
            # Nobody reads what is written: it is the end for all of them.
            unwritten.append(broken)
            for task in tasks:
                task.cancel()
        else:
            errors.extend([error] if error is not None else [])

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(follow(log), name=f"log of {log.pod}/{log.container}") for log in logs]
    if unwritten:
        raise unwritten[0]
    return errors


async def _read(session: Session, log: Log, options: LogOptions, write: Write) -> ApiError | None:
    try:
        async with session.client.stream(log_plan(log.namespace, log.pod, log.container, options)) as chunks:
            async for lines in _whole_lines(chunks):
                write(log, lines)
    except ApiError as error:
        return error
    return None


async def _whole_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes, cut at ends of lines, so that those of several logs do not mix."""
    rest = b""
    async for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if end:
            yield rest + chunk[:end]
            rest = chunk[end:]
        else:
            rest += chunk
    if rest:
        yield rest
