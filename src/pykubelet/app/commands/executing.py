"""Runs a command in a container and connects it with whoever wants to talk to it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from pykubelet.aio.beside import beside
from pykubelet.app.commands.session import Session
from pykubelet.kube.command_channels import (
    ERROR,
    PROTOCOLS,
    STDERR,
    STDIN,
    STDOUT,
    Ending,
    end_of_input,
    message,
    read_ending,
    size_message,
)
from pykubelet.kube.command_plans import exec_plan
from pykubelet.kube.web_socket import WebSocket


class Console(Protocol):
    """Whoever talks to a command."""

    async def read(self) -> bytes:
        """Some input; none at its end."""

    def write(self, data: bytes, *, is_error: bool) -> None:
        """Output of either kind."""

    def sizes(self) -> AsyncIterator[tuple[int, int]]:
        """Columns and rows of the terminal: now, and whenever they change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What is run, and where."""

    namespace: str
    pod: str
    container: str
    words: Sequence[str]
    stdin: bool = False
    tty: bool = False


async def execute(session: Session, command: Command, console: Console) -> Ending:
    """Run it to its end. ApiError if it cannot even begin."""
    plan = exec_plan(
        command.namespace, command.pod, command.container, command.words, stdin=command.stdin, tty=command.tty
    )
    async with session.client.connect(plan, PROTOCOLS) as socket:
        feeding = _feed(socket, console) if command.stdin else _nothing()
        resizing = _resize(socket, console) if command.tty else _nothing()
        async with beside(feeding, "input"), beside(resizing, "size"):
            return await _output(socket, console)


async def _nothing() -> None:
    return


async def _output(socket: WebSocket, console: Console) -> Ending:
    told = b""
    while (received := await socket.receive()) is not None:
        channel, data = received[:1], received[1:]
        if channel == bytes([ERROR]):
            told += data
        elif data and channel in {bytes([STDOUT]), bytes([STDERR])}:
            console.write(data, is_error=channel == bytes([STDERR]))
    return read_ending(told)


async def _feed(socket: WebSocket, console: Console) -> None:
    # A command that has ended takes no more input, and needs none.
    with suppress(ConnectionError):
        while data := await console.read():
            await socket.send(message(STDIN, data))
        if ending := end_of_input(socket.protocol):
            await socket.send(ending)


async def _resize(socket: WebSocket, console: Console) -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        async for columns, rows in console.sizes():
            await socket.send(size_message(columns, rows))
