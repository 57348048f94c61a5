"""Forwards local ports to a pod over one SPDY connection inside a WebSocket.

Each connection uses two streams, for data and for errors. Ports are written `8080:80`, `80`, `:80` or `8080:http`; a
local 0 takes any free port, and the ports of a service map to those of its pods.

Upstream: staging/src/k8s.io/client-go/tools/portforward/portforward.go,
staging/src/k8s.io/client-go/tools/portforward/tunneling_dialer.go,
staging/src/k8s.io/kubectl/pkg/cmd/portforward/portforward.go
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count

from pykubelet.aio.tasks import background_task
from pykubelet.api.serializer import Document
from pykubelet.cli.actions.resource_args import AmbiguousArguments
from pykubelet.cli.actions.session import ApiSession, forward_plan
from pykubelet.client.websocket import WebSocket
from pykubelet.httpserver.spdy.connection import SpdyConnection, SpdyStream

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
PATIENCE_SECONDS = 30.0
"""A local program that reads nothing for this long must not block the others."""
_CHUNK = 32 * 1024
Say = Callable[[str], None]


class InvalidPort(AmbiguousArguments):
    """A port is malformed or does not exist."""


@dataclass(frozen=True, slots=True)
class PortForwarding:
    """A local port and the pod's port it leads to."""

    local: int
    remote: int


def parse_port_forwarding(text: str, pod: Document, service: Document | None = None) -> PortForwarding:
    """Parse ports, with those of the service if one was named; InvalidPort if they are wrong."""
    left, colon, right = text.rpartition(":")
    local = left if colon else right
    wanted = _service_port(service, right) if service is not None else right
    remote = wanted if isinstance(wanted, int) else _pod_port(pod, wanted)
    if not colon and not right.isdecimal():
        return PortForwarding(remote, remote)
    return PortForwarding(_number(local or "0", text, lowest=0), remote)


def _service_port(service: Document, word: str) -> int | str:
    """The pods' port, or its name, behind a port of a service."""
    for port in service["spec"].get("ports") or ():
        if word in {str(port["port"]), port.get("name")}:
            if service["spec"].get("clusterIP") == "None":
                return int(port["port"])
            target: int | str = port.get("targetPort") or int(port["port"])
            return target
    raise InvalidPort(f"service {service['metadata']['name']} does not have a port {word}")


def _pod_port(pod: Document, word: str) -> int:
    if word.isdecimal():
        return _number(word, word, lowest=1)
    spec = pod["spec"]
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for port in container.get("ports") or ():
            if port.get("name") == word:
                return int(port["containerPort"])
    raise InvalidPort(f"pod {pod['metadata']['name']} does not have a port named {word!r}")


def _number(word: str, text: str, *, lowest: int) -> int:
    if not (word.isascii() and word.isdecimal()) or not lowest <= int(word) <= 65535:
        raise InvalidPort(f"{text!r} is not of the form LOCAL:REMOTE, with ports up to 65535")
    return int(word)


class _WebSocketBytes:
    """A byte stream over WebSocket messages, whose boundaries mean nothing; a ByteLink."""

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
    """Forwards connections to one pod; `lost` is set when the connection to the pod ends."""

    def __init__(self, connection: SpdyConnection, say: Say, print_error: Say) -> None:
        self._connection, self._say, self._print_error = connection, say, print_error
        self._numbers = count()
        self.lost = asyncio.Event()

    async def run(self) -> None:
        """Read from the pod until the connection ends."""
        await self._connection.run(lambda _: False, lambda _: None)
        self.lost.set()

    async def listen(self, forwarding: PortForwarding, host: str) -> asyncio.Server:
        """Accept connections on a local port; OSError if it is taken."""

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            local = writer.get_extra_info("sockname")[1]
            self._say(f"Handling connection for {local}")
            try:
                wrong = await self._forward(reader, writer, forwarding.remote)
            except ConnectionError as error:
                wrong = str(error) or "the connection to the pod is lost"
            finally:
                writer.close()
            if wrong:
                self._print_error(f"error: an error occurred forwarding {local} -> {forwarding.remote}: {wrong}")

        return await asyncio.start_server(accepted, host, forwarding.local)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> str:
        """Forward one connection until it ends; returns the error."""
        names = {"port": str(port), "requestid": str(next(self._numbers))}
        errors = await self._connection.open({"streamtype": "error", **names})
        await errors.finish()
        data = await self._connection.open({"streamtype": "data", **names})
        async with background_task(_send(reader, data), "to the pod"):
            try:
                while received := await data.read():
                    writer.write(received)
                    await writer.drain()
            except ConnectionError:
                # The local program closed its connection.
                await data.reset()
                return ""
        return (await errors.read()).decode(errors="replace")


async def _send(reader: asyncio.StreamReader, data: SpdyStream) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(_CHUNK):
            await data.write(chunk)
        await data.finish()


@asynccontextmanager
async def forwarder(
    session: ApiSession, namespace: str, pod: str, *, say: Say, print_error: Say
) -> AsyncIterator[Forwarder]:
    """A connection to a pod for the duration of the context."""
    async with session.client.connect(forward_plan(namespace, pod), (PROTOCOL,)) as socket:
        made = Forwarder(
            SpdyConnection(_WebSocketBytes(socket), patience_seconds=PATIENCE_SECONDS, is_client=True), say, print_error
        )
        async with background_task(made.run(), "port-forward: read"):
            yield made
