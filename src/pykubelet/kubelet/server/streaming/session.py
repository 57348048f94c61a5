"""Carries bytes between a caller and what runs in a pod, both ways at once, until it is over.

Upstream: the copying that a container runtime's streaming server does.

What a request for exec, attach or port-forward has become, once it is allowed and possible.

What a request for exec, attach or port-forward asks for in its query.

Upstream: NewOptions and NewV4Options in staging/src/k8s.io/kubelet/pkg/cri/streaming/{remotecommand,portforward}

How a command ended, as it is told to whoever ran it.

From protocol version 4 on as a Status with the exit code; before, a sentence for people, and nothing if all is well.

Upstream: staging/src/k8s.io/kubelet/pkg/cri/streaming/remotecommand/{exec,attach,httpstream}.go

The caller's end of a command or a connection, whatever protocol it came by.
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


class ByteSource(Protocol):
    """What the caller sends."""

    async def read(self) -> bytes:
        """Some bytes as they come; none at the end, and ever after."""


class ByteSink(Protocol):
    """What the caller gets."""

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the caller is slow. ConnectionError if the caller is gone."""


class TerminalSize(NamedTuple):
    """How large the caller's terminal is."""

    columns: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStreams:
    """A caller's streams; what was not asked for is None."""

    stdin: ByteSource | None = None
    stdout: ByteSink | None = None
    stderr: ByteSink | None = None
    sizes: AsyncIterator[TerminalSize] | None = None
    """The sizes of the caller's terminal: the first, and every new one."""


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


async def carry_command(session: ExecSession, console: RemoteStreams, *, closes_stdin: bool = True) -> int:
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


async def carry_connection(connection: PortForwardConnection, source: ByteSource, sink: ByteSink) -> None:
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


async def _feed(session: ExecSession, console: RemoteStreams, *, closes_stdin: bool) -> None:
    if session.stdin is None or console.stdin is None:
        return
    while data := await console.stdin.read():
        await session.stdin.write(data)
    if closes_stdin:
        await session.stdin.close()


async def _resize(session: ExecSession, console: RemoteStreams) -> None:
    if console.sizes is not None:
        async for size in console.sizes:
            # A terminal that is just closing is no reason to end anything.
            with suppress(OSError):
                session.resize(size.columns, size.rows)


SUCCESS: Document = {"metadata": {}, "status": "Success"}


def exit_status(command: Sequence[str], code: int) -> Document:
    """The Status of a command that ended by itself."""
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
    """The Status of something that did not work."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {what}",
        "reason": "InternalError",
        "details": {"causes": [{"message": what}]},
        "code": 500,
    }


def ending(status: Document, *, as_status: bool) -> bytes:
    """What to write to the error stream."""
    if as_status:
        return encode(status)
    return b"" if status["status"] == "Success" else str(status["message"]).encode()


# Each port takes two channels, and the last of 256 means something else.
MAX_PORTS = 127

Query = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """Which streams the caller wants; a terminal has no errors of its own."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


def first_value(query: Query, name: str) -> str:
    """The first value of a parameter; empty if there is none."""
    return next((value for key, value in query if key == name), "")


def command_options(query: Query) -> CommandOptions:
    """The streams asked for; Refused if there are none."""
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
    """The ports that a WebSocket with channels is to carry; Refused if there are none."""
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
    """The port that a stream's header names; None if it names none."""
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
    """A command, or the streams of a container, to be connected with a caller."""

    options: CommandOptions
    tty: bool
    """Whether there is a terminal; for attach the container decides that."""
    run: Callable[[RemoteStreams], Awaitable[Document]]
    """Does it, and gives the Status that says how it ended. ConnectionError if the caller is gone."""


@dataclass(frozen=True, slots=True)
class ForwardSession:
    """Ports of a pod to be connected with a caller."""

    ports: tuple[int, ...]
    """For a WebSocket with channels; otherwise each stream names its own."""
    forward: Callable[[int, ByteSource, ByteSink], Awaitable[str]]
    """Connects one port until the end, and gives what went wrong, if anything. ConnectionError if either side broke off."""
