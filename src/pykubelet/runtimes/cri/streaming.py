"""Exec, attach and port-forward, by way of the server that the runtime streams with.

CRI gives an address for each; there the runtime speaks SPDY, as kubectl does with a node. It has no way to end a command:
leaving its context hangs up, as with the Go kubelet, and a command that reads its input then finds the end of it.

Upstream: GetExec, GetAttach and GetPortForward in pkg/kubelet/kuberuntime, client-go/tools/{remotecommand,portforward}

A SPDY connection to the server that a runtime streams with, for the length of a context.

Asking a runtime's streaming server to speak SPDY, and reading how a command ended there.

Pure. Upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/spdy/roundtripper.go,
staging/src/k8s.io/client-go/tools/remotecommand/v4.go
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from cri_api.v1 import api_pb2 as cri

from pykubelet.aio.tasks import background_task
from pykubelet.api.serializer import DecodeError, decode_document
from pykubelet.httpserver.spdy.connection import SpdyConnection, SpdyStream
from pykubelet.runtimes.cri.channel import CriChannel
from pykubelet.runtimes.cri.configs import TTY
from pykubelet.runtimes.cri.pods import CriPodInspector
from pykubelet.runtimes.protocol import ByteReader, ByteWriter, RuntimeFailure

COMMAND_PROTOCOL = "v4.channel.k8s.io"
PORT_PROTOCOL = "portforward.k8s.io"
HEAD_END = b"\r\n\r\n"
_SWITCHED = "101"


def upgrade_request(url: str, protocol: str) -> bytes:
    """The head of the request; there is no body."""
    parts = urlsplit(url)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    lines = (
        f"POST {target} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Connection: Upgrade",
        "Upgrade: SPDY/3.1",
        f"X-Stream-Protocol-Version: {protocol}",
        "Content-Length: 0",
    )
    return "\r\n".join(lines).encode() + HEAD_END


def upgrade_refusal(head: bytes, protocol: str) -> str:
    """Why the server does not speak SPDY with us in this protocol; empty if it does."""
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if first.split(" ")[1:2] != [_SWITCHED]:
        return f"unable to upgrade connection: {first}"
    if fields.get("upgrade", "").upper() != "SPDY/3.1":
        return "unable to upgrade: missing upgrade headers in response"
    # Old servers name none when there is only one.
    agreed = fields.get("x-stream-protocol-version", protocol)
    return "" if agreed == protocol else f"unable to negotiate protocol: server answers with {agreed!r}"


def exit_code_of(told: bytes) -> int:
    """The exit code in what came on the error stream; RuntimeFailure if the command did not come that far."""
    try:
        status = decode_document(told)
        if status["status"] == "Success":
            return 0
        if status.get("reason") == "NonZeroExitCode":
            return next(int(cause["message"]) for cause in status["details"]["causes"] if cause["reason"] == "ExitCode")
        message = str(status["message"])
    except (DecodeError, KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        lost = "the connection to the container runtime was lost"
        raise RuntimeFailure(told.decode(errors="replace") or lost) from error
    raise RuntimeFailure(message)


_READ_BYTES = 64 * 1024
# The server is on this machine; who does not answer in this time hangs.
_ANSWER_SECONDS = 30.0
_PORTS = {"http": 80, "https": 443}


class StreamLink:
    """Bytes over a socket. ByteLink."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(_READ_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


@asynccontextmanager
async def spdy_connection(url: str, protocol: str) -> AsyncIterator[SpdyConnection]:
    """Connected as long as the context lasts; RuntimeFailure if that cannot be."""
    try:
        reader, writer = await _upgraded(url, protocol)
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise RuntimeFailure(f"the runtime's streaming server cannot be reached: {error}") from error
    connection = SpdyConnection(StreamLink(reader, writer), is_client=True)
    try:
        async with background_task(connection.run(lambda _: False, lambda _: None), "cri: stream"):
            yield connection
            with suppress(ConnectionError):
                await connection.close()
    finally:
        writer.close()


async def _upgraded(url: str, protocol: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(url)
    async with asyncio.timeout(_ANSWER_SECONDS):
        is_secret = parts.scheme == "https"
        port = parts.port or _PORTS.get(parts.scheme, 80)
        reader, writer = await asyncio.open_connection(parts.hostname or "127.0.0.1", port, ssl=is_secret or None)
        try:
            writer.write(upgrade_request(url, protocol))
            head = await reader.readuntil(HEAD_END)
        except BaseException:
            writer.close()
            raise
    if problem := upgrade_refusal(head, protocol):
        writer.close()
        raise RuntimeFailure(problem)
    return reader, writer


class CriStreams:
    """Opens streams."""

    def __init__(self, *, channel: CriChannel, looks: CriPodInspector) -> None:
        self._channel, self._looks = channel, looks

    @asynccontextmanager
    async def execute(
        self, container_id: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AsyncIterator["CriSession"]:
        request = cri.ExecRequest(
            container_id=container_id, cmd=command, tty=tty, stdin=stdin, stdout=True, stderr=not tty
        )
        url = (await self._channel.ask(request, cri.ExecResponse)).url
        async with _session(url, stdin=stdin, tty=tty) as session:
            yield session

    @asynccontextmanager
    async def attach(self, container_id: str, *, stdin: bool) -> AsyncIterator["CriSession"]:
        status = await self._looks.container_status(container_id)
        if status is None:
            raise RuntimeFailure(f'container "{container_id}" not found')
        tty = status.annotations.get(TTY) == "true"
        request = cri.AttachRequest(container_id=container_id, stdin=stdin, tty=tty, stdout=True, stderr=not tty)
        url = (await self._channel.ask(request, cri.AttachResponse)).url

        async def code() -> int:
            # A container that only closed its output has no exit code.
            with suppress(TimeoutError):
                ended = await self._looks.ended_container(container_id)
                return ended.exit_code if ended is not None else 0
            return 0

        async with _session(url, stdin=stdin, tty=tty, code=code) as session:
            yield session

    @asynccontextmanager
    async def connect(self, sandbox_id: str, port: int) -> AsyncIterator["CriConnection"]:
        request = cri.PortForwardRequest(pod_sandbox_id=sandbox_id, port=[port])
        url = (await self._channel.ask(request, cri.PortForwardResponse)).url
        async with spdy_connection(url, PORT_PROTOCOL) as connection:
            headers = {"port": str(port), "requestid": "0"}
            errors = await connection.open({"streamtype": "error", **headers})
            await errors.finish()
            yield CriConnection(await connection.open({"streamtype": "data", **headers}), errors)


@asynccontextmanager
async def _session(
    url: str, *, stdin: bool, tty: bool, code: Callable[[], Awaitable[int]] | None = None
) -> AsyncIterator["CriSession"]:
    wanted = {"error": True, "stdin": stdin, "stdout": True, "stderr": not tty, "resize": tty}
    async with spdy_connection(url, COMMAND_PROTOCOL) as connection:
        streams = await _opened(connection, [kind for kind, is_wanted in wanted.items() if is_wanted])
        session = CriSession(streams, code)
        async with background_task(session.hear_end(), "cri: end"), background_task(session.tell_sizes(), "cri: sizes"):
            yield session


async def _opened(connection: SpdyConnection, kinds: Sequence[str]) -> dict[str, SpdyStream]:
    return {kind: await connection.open({"streamtype": kind}) for kind in kinds}


class CriSession:
    """A program of a container and its streams. Session."""

    def __init__(self, streams: dict[str, SpdyStream], code: Callable[[], Awaitable[int]] | None) -> None:
        self._error, self._sizes, self._code = streams["error"], streams.get("resize"), code
        self.stdin: ByteWriter | None = _StreamWriter(streams["stdin"]) if "stdin" in streams else None
        self.stdout: ByteReader = streams["stdout"]
        self.stderr: ByteReader | None = streams.get("stderr")
        self._told = b""
        self._is_over = asyncio.Event()
        self._size = (0, 0)
        self._is_resized = asyncio.Event()

    def resize(self, columns: int, rows: int) -> None:
        self._size = columns, rows
        self._is_resized.set()

    async def exit_code(self) -> int:
        await self._is_over.wait()
        code = exit_code_of(self._told)
        # Whoever watched a program hears only that there is nothing more to see.
        return code if self._code is None else await self._code()

    async def hear_end(self) -> None:
        """Read how it ended."""
        self._told = await _whole(self._error)
        self._is_over.set()

    async def tell_sizes(self) -> None:
        """Tell the sizes of the terminal; of several at once the last counts."""
        while self._sizes is not None:
            await self._is_resized.wait()
            self._is_resized.clear()
            columns, rows = self._size
            with suppress(ConnectionError):
                await self._sizes.write(json.dumps({"Width": columns, "Height": rows}).encode() + b"\n")


class CriConnection:
    """A connection to a port of a pod. Connection."""

    def __init__(self, data: SpdyStream, errors: SpdyStream) -> None:
        self.reader: ByteReader = _PortReader(data, errors)
        self.writer: ByteWriter = _StreamWriter(data)


class _PortReader:
    """What comes from a port; at the end it is known whether there ever was a connection."""

    def __init__(self, data: SpdyStream, errors: SpdyStream) -> None:
        self._data, self._errors = data, errors

    async def read(self) -> bytes:
        data = await self._data.read()
        if not data and (problem := await _whole(self._errors)):
            raise RuntimeFailure(problem.decode(errors="replace"))
        return data


class _StreamWriter:
    """What nobody takes any more is dropped."""

    def __init__(self, stream: SpdyStream) -> None:
        self._stream = stream

    async def write(self, data: bytes) -> None:
        with suppress(ConnectionError):
            await self._stream.write(data)

    async def close(self) -> None:
        with suppress(ConnectionError):
            await self._stream.finish()


async def _whole(stream: SpdyStream) -> bytes:
    pieces = []
    while data := await stream.read():
        pieces.append(data)
    return b"".join(pieces)
