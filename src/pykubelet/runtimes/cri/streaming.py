"""Exec, attach and port-forward through the streaming server of a CRI runtime.

CRI returns a URL for each, where the runtime speaks SPDY. It has no call to end a command: leaving the context closes the
connection, as upstream does, and a command that reads its input finds the end of it.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/kubelet/kuberuntime/kuberuntime_sandbox.go,
staging/src/k8s.io/client-go/tools/remotecommand/v4.go, staging/src/k8s.io/apimachinery/pkg/util/httpstream/spdy/roundtripper.go
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
from pykubelet.runtimes.protocol import ByteReader, ByteWriter, PortForwardConnection, RuntimeFailure

COMMAND_PROTOCOL = "v4.channel.k8s.io"
PORT_PROTOCOL = "portforward.k8s.io"
HEAD_END = b"\r\n\r\n"
_READ_BYTES = 64 * 1024
# The server is local; without an answer in this time it hangs.
_ANSWER_SECONDS = 30.0
_PORTS = {"http": 80, "https": 443}


class CriStreams:
    """Streams of a CRI runtime."""

    def __init__(self, *, channel: CriChannel, inspector: CriPodInspector) -> None:
        self._channel, self._inspector = channel, inspector

    @asynccontextmanager
    async def execute(
        self, container_id: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AsyncIterator["CriSession"]:
        request = cri.ExecRequest(
            container_id=container_id, cmd=command, tty=tty, stdin=stdin, stdout=True, stderr=not tty
        )
        url = (await self._channel.call(request, cri.ExecResponse)).url
        async with _session(url, stdin=stdin, tty=tty) as session:
            yield session

    @asynccontextmanager
    async def attach(self, container_id: str, *, stdin: bool) -> AsyncIterator["CriSession"]:
        status = await self._inspector.container_status(container_id)
        if status is None:
            raise RuntimeFailure(f'container "{container_id}" not found')
        tty = status.annotations.get(TTY) == "true"
        request = cri.AttachRequest(container_id=container_id, stdin=stdin, tty=tty, stdout=True, stderr=not tty)
        url = (await self._channel.call(request, cri.AttachResponse)).url

        async def code() -> int:
            # A container that only closed its output still runs and has no exit code.
            with suppress(TimeoutError):
                ended = await self._inspector.ended_container(container_id)
                return ended.exit_code if ended is not None else 0
            return 0

        async with _session(url, stdin=stdin, tty=tty, code=code) as session:
            yield session

    @asynccontextmanager
    async def connect(self, sandbox_id: str, port: int) -> AsyncIterator[PortForwardConnection]:
        request = cri.PortForwardRequest(pod_sandbox_id=sandbox_id, port=[port])
        url = (await self._channel.call(request, cri.PortForwardResponse)).url
        async with spdy_connection(url, PORT_PROTOCOL) as connection:
            headers = {"port": str(port), "requestid": "0"}
            errors = await connection.open({"streamtype": "error", **headers})
            await errors.finish()
            data = await connection.open({"streamtype": "data", **headers})
            yield PortForwardConnection(_PortReader(data, errors), _StreamWriter(data))


@asynccontextmanager
async def _session(
    url: str, *, stdin: bool, tty: bool, code: Callable[[], Awaitable[int]] | None = None
) -> AsyncIterator["CriSession"]:
    needed = {"error": True, "stdin": stdin, "stdout": True, "stderr": not tty, "resize": tty}
    async with spdy_connection(url, COMMAND_PROTOCOL) as connection:
        streams = {kind: await connection.open({"streamtype": kind}) for kind, is_needed in needed.items() if is_needed}
        session = CriSession(streams, code)
        async with (
            background_task(session.read_status(), "cri: end"),
            background_task(session.send_sizes(), "cri: sizes"),
        ):
            yield session


class CriSession:
    """An ExecSession over SPDY streams."""

    def __init__(self, streams: dict[str, SpdyStream], code: Callable[[], Awaitable[int]] | None) -> None:
        self._error, self._sizes, self._code = streams["error"], streams.get("resize"), code
        self.stdin: ByteWriter | None = _StreamWriter(streams["stdin"]) if "stdin" in streams else None
        self.stdout: ByteReader = streams["stdout"]
        self.stderr: ByteReader | None = streams.get("stderr")
        self._status = b""
        self._is_over = asyncio.Event()
        self._size = (0, 0)
        self._is_resized = asyncio.Event()

    def resize(self, columns: int, rows: int) -> None:
        self._size = columns, rows
        self._is_resized.set()

    async def exit_code(self) -> int:
        await self._is_over.wait()
        code = exit_code_of(self._status)
        # The server of an attach session reports only its end, not the container's exit code.
        return code if self._code is None else await self._code()

    async def read_status(self) -> None:
        """Read the status of the command from the error stream."""
        self._status = await _whole(self._error)
        self._is_over.set()

    async def send_sizes(self) -> None:
        """Send sizes of the terminal; of several changes only the last one."""
        while self._sizes is not None:
            await self._is_resized.wait()
            self._is_resized.clear()
            columns, rows = self._size
            with suppress(ConnectionError):
                await self._sizes.write(json.dumps({"Width": columns, "Height": rows}).encode() + b"\n")


class _PortReader:
    """Reads from a port; at the end of the data, raises the error of a failed connection."""

    def __init__(self, data: SpdyStream, errors: SpdyStream) -> None:
        self._data, self._errors = data, errors

    async def read(self) -> bytes:
        data = await self._data.read()
        if not data and (problem := await _whole(self._errors)):
            raise RuntimeFailure(problem.decode(errors="replace"))
        return data


class _StreamWriter:
    """Writes to a SPDY stream; drops data after the peer has closed it."""

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


def upgrade_request(url: str, protocol: str) -> bytes:
    """The HTTP request that upgrades to SPDY; it has no body."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
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
    """Why the server refuses the upgrade or the protocol; empty if it accepts."""
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if first.split(" ")[1:2] != ["101"]:
        return f"unable to upgrade connection: {first}"
    if fields.get("upgrade", "").upper() != "SPDY/3.1":
        return "unable to upgrade: missing upgrade headers in response"
    # Old servers omit the header if there is only one protocol.
    agreed = fields.get("x-stream-protocol-version", protocol)
    return "" if agreed == protocol else f"unable to negotiate protocol: server answers with {agreed!r}"


def exit_code_of(data: bytes) -> int:
    """The exit code in the status from the error stream; RuntimeFailure if the command did not run."""
    try:
        status = decode_document(data)
        if status["status"] == "Success":
            return 0
        if status.get("reason") == "NonZeroExitCode":
            return next(int(cause["message"]) for cause in status["details"]["causes"] if cause["reason"] == "ExitCode")
        message = str(status["message"])
    except (DecodeError, KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        lost = "the connection to the container runtime was lost"
        raise RuntimeFailure(data.decode(errors="replace") or lost) from error
    raise RuntimeFailure(message)


class StreamLink:
    """A socket as the ByteLink of a SPDY connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(_READ_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


@asynccontextmanager
async def spdy_connection(url: str, protocol: str) -> AsyncIterator[SpdyConnection]:
    """A SPDY connection for the duration of a context; RuntimeFailure if the server cannot be reached."""
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
        port = parts.port or _PORTS.get(parts.scheme, 80)
        reader, writer = await asyncio.open_connection(
            parts.hostname or "127.0.0.1", port, ssl=parts.scheme == "https" or None
        )
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
