"""Sessions of exec, attach and port-forward: options, streams, copying, and the final status.

From protocol v4 on, a command ends with a Status that has the exit code; before, with a message, or nothing on success.

Upstream: staging/src/k8s.io/kubelet/pkg/cri/streaming/remotecommand/exec.go,
staging/src/k8s.io/kubelet/pkg/cri/streaming/remotecommand/attach.go,
staging/src/k8s.io/kubelet/pkg/cri/streaming/remotecommand/httpstream.go,
staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward/websocket.go
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pykubelet.api.field_errors import go_quote
from pykubelet.api.serializer import Document, encode
from pykubelet.httpserver.response import HttpError
from pykubelet.runtimes.protocol import ByteReader, ExecSession, PortForwardConnection, RuntimeFailure

# Output written before the exit is still in a small pipe; a child process may keep that open forever.
DRAIN_SECONDS = 10.0
SUCCESS: Document = {"metadata": {}, "status": "Success"}
# Each port takes two channels, and 255 closes a channel.
MAX_PORTS = 127
Query = Sequence[tuple[str, str]]


class ByteSource(Protocol):
    """A stream of bytes from the client."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end, and on every call after it."""


class ByteSink(Protocol):
    """A stream of bytes to the client."""

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the client is slow. Raises ConnectionError if it has disconnected."""


class TerminalSize(NamedTuple):
    columns: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStreams:
    """The client side of an exec or attach session; streams that were not requested are None."""

    stdin: ByteSource | None = None
    stdout: ByteSink | None = None
    stderr: ByteSink | None = None
    sizes: AsyncIterator[TerminalSize] | None = None
    """The initial size of the client's terminal, and every change."""


class _Guard:
    """Runs coroutines in tasks that do not fail; keeps the first exception."""

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
        """Raise the first exception, if there was one."""
        if self._failure is not None:
            raise self._failure


async def carry_command(session: ExecSession, client: RemoteStreams, *, closes_stdin: bool = True) -> int:
    """Connect a client with a process until it exits; return the exit code. Raises ConnectionError if the client leaves."""
    guard, codes = _Guard(), list[int]()

    async def end() -> None:
        codes.append(await session.exit_code())

    outputs = [(session.stdout, client.stdout)]
    if session.stderr is not None:
        outputs.append((session.stderr, client.stderr))
    async with asyncio.TaskGroup() as group:
        inputs = (_feed(session, client, closes_stdin=closes_stdin), _resize(session, client))
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


async def carry_connection(connection: PortForwardConnection, source: ByteSource, sink: ByteSink) -> None:
    """Connect a client with a port until the pod closes the connection; the client may close its half first."""
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
    """Copy to the end; output that was not requested is read and dropped, so that the process does not block."""
    while data := await reader.read():
        if sink is not None:
            await sink.write(data)


async def _feed(session: ExecSession, client: RemoteStreams, *, closes_stdin: bool) -> None:
    if session.stdin is None or client.stdin is None:
        return
    while data := await client.stdin.read():
        await session.stdin.write(data)
    if closes_stdin:
        await session.stdin.close()


async def _resize(session: ExecSession, client: RemoteStreams) -> None:
    if client.sizes is not None:
        async for size in client.sizes:
            # A terminal that is closing cannot be resized, which is fine.
            with suppress(OSError):
                session.resize(size.columns, size.rows)


def exit_status(command: Sequence[str], code: int) -> Document:
    """The Status of a command that exited."""
    if code == 0:
        return SUCCESS
    words = " ".join(command)
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: error executing command [{words}], exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failure_status(what: str) -> Document:
    """The Status of a session that failed."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {what}",
        "reason": "InternalError",
        "details": {"causes": [{"message": what}]},
        "code": 500,
    }


def ending(status: Document, *, as_status: bool) -> bytes:
    """The content of the error stream."""
    if as_status:
        return encode(status)
    return b"" if status["status"] == "Success" else str(status["message"]).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """The requested streams; with a terminal there is no stderr."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


def first_value(query: Query, name: str) -> str:
    """The first value of a parameter; empty if there is none."""
    return next((value for key, value in query if key == name), "")


def command_options(query: Query) -> CommandOptions:
    """The requested streams; raises HttpError if there are none."""
    tty = first_value(query, "tty") == "1"
    options = CommandOptions(
        stdin=first_value(query, "input") == "1",
        stdout=first_value(query, "output") == "1",
        stderr=first_value(query, "error") == "1" and not tty,
        tty=tty,
    )
    if not (options.stdin or options.stdout or options.stderr):
        raise HttpError(400, "you must specify at least 1 of stdin, stdout, stderr")
    return options


def forward_ports(query: Query) -> tuple[int, ...]:
    """The ports of a WebSocket with channels; raises HttpError if there are none."""
    values = [value for key, value in query if key == "port"]
    if not values:
        raise HttpError(400, 'query parameter "port" is required')
    if "" in values:
        raise HttpError(400, 'query parameter "port" cannot be empty')
    ports = tuple(_port(part, value) for value in values for part in value.split(","))
    if len(ports) > MAX_PORTS:
        raise HttpError(400, f"at most {MAX_PORTS} ports can be forwarded over one WebSocket")
    return ports


def stream_port(text: str) -> int | None:
    """The port in a stream's header; None if it is invalid."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 else 0
    return number if 0 < number < 2**16 else None


def _port(text: str, whole: str) -> int:
    port = stream_port(text)
    if port is None:
        what = "must be > 0" if text.strip("0") == "" and text else "cannot be parsed as a port"
        raise HttpError(400, f"port {go_quote(whole)} {what}")
    return port


@dataclass(frozen=True, slots=True)
class CommandSession:
    """A command, or the streams of a container, for a client."""

    options: CommandOptions
    tty: bool
    """Whether there is a terminal; for attach the container decides."""
    run: Callable[[RemoteStreams], Awaitable[Document]]
    """Runs the session and returns its final Status; raises ConnectionError if the client has disconnected."""


@dataclass(frozen=True, slots=True)
class ForwardSession:
    """Ports of a pod for a client."""

    ports: tuple[int, ...]
    """The ports for WebSocket channels; otherwise each stream names its port."""
    forward: Callable[[int, ByteSource, ByteSink], Awaitable[str]]
    """Forwards one port until its end and returns an error message; raises ConnectionError if either side broke off."""
