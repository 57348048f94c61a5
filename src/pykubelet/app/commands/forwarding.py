"""Carries connections to ports of this machine on to ports of a pod.

All of them go over one SPDY connection inside a WebSocket: two streams each, for data and for what goes wrong. kube-apiserver
speaks this, and ours does.

Upstream: client-go/tools/portforward/{portforward,tunneling_dialer}.go.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count

from pykubelet.aio.beside import beside
from pykubelet.app.commands.session import Session
from pykubelet.kube.command_plans import forward_plan
from pykubelet.kube.port_words import Forwarding
from pykubelet.kube.web_socket import WebSocket
from pykubelet.runtime.spdy_connection import SpdyConnection, SpdyStream

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
PATIENCE_SECONDS = 30.0
"""A local program that takes nothing for so long must not hold up the others."""
_CHUNK = 32 * 1024
Say = Callable[[str], None]


class _WebSocketBytes:
    """Bytes in messages: where one ends means nothing. ByteLink."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message is None:
                return b""
            if message:
                return message

    async def write(self, data: bytes) -> None:
        await self._socket.send(data)


class Forwarder:
    """Carries connections over one way to a pod; `lost` is set when that ends."""

    def __init__(self, connection: SpdyConnection, say: Say, complain: Say) -> None:
        self._connection, self._say, self._complain = connection, say, complain
        self._numbers = count()
        self.lost = asyncio.Event()

    async def run(self) -> None:
        """Read what comes from the pod, until there is no more."""
        await self._connection.run(lambda _: False, lambda _: None)
        self.lost.set()

    async def listen(self, forwarding: Forwarding, host: str) -> asyncio.Server:
        """Take connections to a port here; OSError if it is taken."""

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            local = writer.get_extra_info("sockname")[1]
            self._say(f"Handling connection for {local}")
            try:
                wrong = await self._carry(reader, writer, forwarding.remote)
            except ConnectionError as error:
                wrong = str(error) or "the connection to the pod is lost"
            finally:
                writer.close()
            if wrong:
                self._complain(f"error: an error occurred forwarding {local} -> {forwarding.remote}: {wrong}")

        return await asyncio.start_server(accepted, host, forwarding.local)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> str:
        """One connection, to its end; what went wrong."""
        names = {"port": str(port), "requestid": str(next(self._numbers))}
        errors = await self._connection.open({"streamtype": "error", **names})
        await errors.finish()
        data = await self._connection.open({"streamtype": "data", **names})
        async with beside(_send(reader, data), "to the pod"):
            try:
                while received := await data.read():
                    writer.write(received)
                    await writer.drain()
            except ConnectionError:
                # The local program is gone and wants nothing any more.
                await data.reset()
                return ""
        return (await errors.read()).decode(errors="replace")


async def _send(reader: asyncio.StreamReader, data: SpdyStream) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(_CHUNK):
            await data.write(chunk)
        await data.finish()


@asynccontextmanager
async def forwarder(session: Session, namespace: str, pod: str, *, say: Say, complain: Say) -> AsyncIterator[Forwarder]:
    """A way to a pod, as long as the context lasts."""
    async with session.client.connect(forward_plan(namespace, pod), (PROTOCOL,)) as socket:
        made = Forwarder(
            SpdyConnection(_WebSocketBytes(socket), patience_seconds=PATIENCE_SECONDS, is_client=True), say, complain
        )
        async with beside(made.run(), "port-forward: read"):
            yield made
