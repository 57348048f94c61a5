"""Exec, attach and port-forward, by way of the server that the runtime streams with.

CRI gives an address for each; there the runtime speaks SPDY, as kubectl does with a node. It has no way to end a command:
leaving its context hangs up, as with the Go kubelet, and a command that reads its input then finds the end of it.

Upstream: GetExec, GetAttach and GetPortForward in pkg/kubelet/kuberuntime, client-go/tools/{remotecommand,portforward}
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from cri_api.v1 import api_pb2 as cri

from pykubelet.aio.beside import beside
from pykubelet.runtime.cri.channel import Channel
from pykubelet.runtime.cri.labels import TTY
from pykubelet.runtime.cri.looks import Looks
from pykubelet.runtime.cri.spdy_link import spdy_connection
from pykubelet.runtime.cri.upgrade import COMMAND_PROTOCOL, PORT_PROTOCOL, exit_code_of
from pykubelet.runtime.protocol import RuntimeFailure
from pykubelet.runtime.spdy_connection import SpdyConnection, SpdyStream
from pykubelet.runtime.streams import ByteReader, ByteWriter


class CriStreams:
    """Opens streams."""

    def __init__(self, *, channel: Channel, looks: Looks) -> None:
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
        async with beside(session.hear_end(), "cri: end"), beside(session.tell_sizes(), "cri: sizes"):
            yield session


async def _opened(connection: SpdyConnection, kinds: Sequence[str]) -> dict[str, SpdyStream]:
    return {kind: await connection.open({"streamtype": kind}) for kind in kinds}


class CriSession:
    """A program of a container and its streams. Session."""

    def __init__(self, streams: dict[str, SpdyStream], code: Callable[[], Awaitable[int]] | None) -> None:
        self._error, self._sizes, self._code = streams["error"], streams.get("resize"), code
        self.stdin: ByteWriter | None = _Writer(streams["stdin"]) if "stdin" in streams else None
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
        self.writer: ByteWriter = _Writer(data)


class _PortReader:
    """What comes from a port; at the end it is known whether there ever was a connection."""

    def __init__(self, data: SpdyStream, errors: SpdyStream) -> None:
        self._data, self._errors = data, errors

    async def read(self) -> bytes:
        data = await self._data.read()
        if not data and (problem := await _whole(self._errors)):
            raise RuntimeFailure(problem.decode(errors="replace"))
        return data


class _Writer:
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
