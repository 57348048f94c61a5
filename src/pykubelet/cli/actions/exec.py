"""Runs a command in a container and connects it to the local terminal or pipes.

Upstream: staging/src/k8s.io/kubectl/pkg/cmd/exec/exec.go, staging/src/k8s.io/kubectl/pkg/util/term/term.go
"""

import asyncio
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pykubelet.aio.tasks import background_task
from pykubelet.cli.actions.session import ApiSession, exec_plan
from pykubelet.client.websocket import (
    ERROR,
    PROTOCOLS,
    STDERR,
    STDIN,
    STDOUT,
    ExecOutcome,
    WebSocket,
    end_of_input,
    message,
    read_exec_outcome,
    size_message,
)

_CHUNK = 32 * 1024
# The number of chunks that may wait to be sent before reading stops.
_PIECES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCommand:
    """The command, its container, and whether it has input and a terminal."""

    namespace: str
    pod: str
    container: str
    words: Sequence[str]
    stdin: bool = False
    tty: bool = False


async def execute(session: ApiSession, command: RemoteCommand, console: "StandardStreams") -> ExecOutcome:
    """Run a command until it ends. Raises ApiError if it cannot be started."""
    plan = exec_plan(
        command.namespace, command.pod, command.container, command.words, stdin=command.stdin, tty=command.tty
    )
    async with session.client.connect(plan, PROTOCOLS) as socket:
        feeding = _feed(socket, console) if command.stdin else _nothing()
        resizing = _resize(socket, console) if command.tty else _nothing()
        async with background_task(feeding, "input"), background_task(resizing, "size"):
            return await _output(socket, console)


async def _nothing() -> None:
    return


async def _output(socket: WebSocket, console: "StandardStreams") -> ExecOutcome:
    status = b""
    while (received := await socket.receive()) is not None:
        channel, data = received[:1], received[1:]
        if channel == bytes([ERROR]):
            status += data
        elif data and channel in {bytes([STDOUT]), bytes([STDERR])}:
            console.write(data, is_error=channel == bytes([STDERR]))
    return read_exec_outcome(status)


async def _feed(socket: WebSocket, console: "StandardStreams") -> None:
    # A command that has ended needs no more input.
    with suppress(ConnectionError):
        while data := await console.read():
            await socket.send(message(STDIN, data))
        if ending := end_of_input(socket.protocol):
            await socket.send(ending)


async def _resize(socket: WebSocket, console: "StandardStreams") -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        async for columns, rows in console.sizes():
            await socket.send(size_message(columns, rows))


class StandardStreams:
    """The local side of an exec session: standard input, output and error."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(_PIECES)
        self._reader: threading.Thread | None = None

    async def read(self) -> bytes:
        """The next input; empty at its end. Read in a thread: a file cannot be polled, a terminal is shared."""
        if self._reader is None:
            loop = asyncio.get_running_loop()
            self._reader = threading.Thread(target=self._read, args=(loop,), name="standard input", daemon=True)
            self._reader.start()
        data = await self._pieces.get()
        self._room.release()
        return data

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        data = b"-"
        while data:
            self._room.acquire()
            try:
                data = os.read(sys.stdin.fileno(), _CHUNK)
            except OSError:
                data = b""
            try:
                loop.call_soon_threadsafe(self._pieces.put_nowait, data)
            except RuntimeError:
                return  # the session has ended

    def write(self, data: bytes, *, is_error: bool) -> None:
        stream = (sys.stderr if is_error else sys.stdout).buffer
        stream.write(data)
        stream.flush()

    async def sizes(self) -> AsyncIterator[tuple[int, int]]:
        changed = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, changed.set)
        try:
            while True:
                size = os.get_terminal_size(sys.stdin.fileno())
                yield size.columns, size.lines
                await changed.wait()
                changed.clear()
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Put the terminal into raw mode: every key, Ctrl-C too, goes to the remote command."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
