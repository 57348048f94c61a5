"""HTTP: the bytes on the wire.

There is no router and no chain of middleware: one handler makes an `Asked` of a request, has it answered by `Front`
and sends what comes back.

Upstream: ListenAndServeKubeletServer in pkg/kubelet/server/server.go

Connections that are taken away from HTTP: WebSockets, and raw ones for SPDY.

In: a request that was answered with an `Upgrade`. Out: nothing more over HTTP; the connection ends with the session.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/{spdy/upgrade,wsstream/conn}.go

Counts what the node's API is asked for.

Upstream: pkg/kubelet/server/metrics/metrics.go
"""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp import WSMsgType, hdrs, web
from multidict import CIMultiDict

from pykubelet.aio.log import get_logger
from pykubelet.httpserver import server
from pykubelet.httpserver.reply import TEXT, HttpError, Reply, text_reply
from pykubelet.httpserver.server import BodyTooLarge, BodyUnreadable, HijackedResponse, hijack
from pykubelet.httpserver.spdy.connection import ByteLink
from pykubelet.kubelet.server.container_logs import ContainerLogOutput
from pykubelet.kubelet.server.handlers import KubeletHandlers, KubeletRequest, StreamUpgrade
from pykubelet.kubelet.server.routes import KubeletEndpoint
from pykubelet.kubelet.server.streaming import portforward, remotecommand
from pykubelet.kubelet.server.streaming.negotiation import SPDY, Carrier, UpgradeOffer, listed
from pykubelet.kubelet.server.streaming.session import CommandSession
from pykubelet.kubelet.server.streaming.wsstream import ChannelProtocol, MessageBytes

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_METHODS = frozenset({"OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"})
_LONG = frozenset({"exec", "attach", "portForward"})
_PATHS = frozenset({page.value.removeprefix("/") for page in KubeletEndpoint} | {"stats"})
_LABELS = ("long_running", "method", "path", "server_type")


class _Kind(NamedTuple):
    """What requests are told apart by; only known names may stand here."""

    method: str
    path: str

    def labels(self) -> tuple[str, ...]:
        return "true" if self.path in _LONG else "false", self.method, self.path, "readwrite"


class ServerRequestMetrics:
    """The counters. Collector."""

    def __init__(self) -> None:
        self._total: Counter[_Kind] = Counter()
        self._now: Counter[_Kind] = Counter()

    @contextmanager
    def counting(self, method: str, path: str) -> Iterator[None]:
        """Counts a request as under way while the context lasts."""
        kind = _Kind(method if method in _METHODS else "other", _known_path(path))
        self._total[kind] += 1
        self._now[kind] += 1
        try:
            yield
        finally:
            self._now[kind] -= 1

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        total = CounterMetricFamily("kubelet_http_requests_total", "Requests received.", labels=_LABELS)
        now = GaugeMetricFamily("kubelet_http_inflight_requests", "Requests under way.", labels=_LABELS)
        for kind, count in self._total.items():
            total.add_metric(kind.labels(), count)
            now.add_metric(kind.labels(), self._now[kind])
        yield total
        yield now


def _known_path(path: str) -> str:
    first, *rest = path.removeprefix("/").split("/")
    root = f"{first}/{rest[0]}" if first == "metrics" and rest else first
    return root if root in _PATHS else "other"


log = get_logger(__name__)

# A kubelet's streamingConnectionIdleTimeout.
IDLE_SECONDS = 4 * 3600.0
# After our last word the client has time to close: what it still sends must not cut off what it has not read yet.
_LINGER_SECONDS = 5.0
_CHUNK_BYTES = 64 * 1024

Touch = Callable[[], None]


async def serve_upgrade(upgrade: StreamUpgrade, request: web.BaseRequest) -> web.StreamResponse:
    """Speak with the client until the session is over, or nothing has been said for too long."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(IDLE_SECONDS) as idle:

            def touch() -> None:
                idle.reschedule(loop.time() + IDLE_SECONDS)

            if upgrade.agreement.carrier is Carrier.SPDY:
                return await _serve_raw(upgrade, request, touch)
            return await _serve_web_socket(upgrade, request, touch)
    except TimeoutError:
        log.info("nothing was said for too long, connection ended", target=request.raw_path[:200])
        return HijackedResponse(request)


class _WebSocketLink:
    """MessageLink."""

    def __init__(self, web_socket: web.WebSocketResponse, touch: Touch) -> None:
        self._web_socket, self._touch = web_socket, touch

    async def receive(self) -> bytes | None:
        message = await self._web_socket.receive()
        self._touch()
        if message.type is WSMsgType.BINARY:
            binary: bytes = message.data
            return binary
        if message.type is WSMsgType.TEXT:
            return str(message.data).encode()
        return None

    async def send(self, message: bytes, *, is_text: bool = False) -> None:
        self._touch()
        if is_text:
            await self._web_socket.send_str(message.decode())
        else:
            await self._web_socket.send_bytes(message)


async def _serve_web_socket(upgrade: StreamUpgrade, request: web.BaseRequest, touch: Touch) -> web.StreamResponse:
    session, agreement = upgrade
    protocols = (agreement.protocol,) if agreement.protocol else ()
    web_socket = web.WebSocketResponse(protocols=protocols, compress=False, timeout=_LINGER_SECONDS)
    try:
        await web_socket.prepare(request)
    except web.HTTPException as error:
        # The headers of the handshake are wrong.
        return web.Response(status=error.status, text=error.text)
    link = _WebSocketLink(web_socket, touch)
    try:
        if isinstance(session, CommandSession):
            await remotecommand.serve_channels(session, link, agreement)
        elif agreement.carrier is Carrier.TUNNEL:
            await portforward.SpdyForward(session, MessageBytes(link)).serve()
        else:
            await portforward.serve_channels(session, link, ChannelProtocol(agreement.protocol))
    except ConnectionError as error:
        log.debug("caller is gone", why=str(error))
    await web_socket.close()
    return web_socket


class _RawLink:
    """ByteLink."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, touch: Touch) -> None:
        self._reader, self._writer, self._touch = reader, writer, touch

    async def read(self) -> bytes:
        data = await self._reader.read(_CHUNK_BYTES)
        self._touch()
        return data

    async def write(self, data: bytes) -> None:
        self._touch()
        self._writer.write(data)
        await self._writer.drain()


async def _serve_raw(upgrade: StreamUpgrade, request: web.BaseRequest, touch: Touch) -> web.StreamResponse:
    session, agreement = upgrade
    reader, writer = hijack(request)
    link = _RawLink(reader, writer, touch)
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Connection: Upgrade",
        f"Upgrade: {SPDY}",
        f"X-Stream-Protocol-Version: {agreement.protocol}",
    ]
    try:
        await link.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        if isinstance(session, CommandSession):
            await remotecommand.serve_spdy(session, link, agreement)
        else:
            await portforward.SpdyForward(session, link).serve()
        await _linger(link)
    except ConnectionError as error:
        log.debug("caller is gone", why=str(error))
    return HijackedResponse(request)


async def _linger(link: ByteLink) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while await link.read():
                pass


# How long requests under way may take when the node stops.
_STOP_SECONDS = 2.0
_LIMITS = server.ConnectionLimits(
    # A command line, which comes in the query, may be long; a service account's token has about a kilobyte.
    line_bytes=1024 * 1024,
    field_bytes=64 * 1024,
    headers=128,
    # Go's IdleTimeout in a kubelet.
    idle_seconds=90.0,
    stop_seconds=_STOP_SECONDS,
)
_MAX_BODY_BYTES = 64 * 1024
# A reader that takes nothing for so long is cut off, so that what it holds is given back.
_STALLED_SECONDS = 30.0


class KubeletServer:
    """The HTTP side of the node's API; `serving` runs it."""

    def __init__(self, front: KubeletHandlers, counts: ServerRequestMetrics) -> None:
        self._front, self._counts = front, counts
        self._long: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def serving(self, listener: socket.socket, tls: ssl.SSLContext) -> AsyncIterator[None]:
        """Serves a socket as long as the context lasts; at its end, whatever is connected is cut off."""
        async with server.serving(listener, tls, self.respond, limits=_LIMITS, refuse=_not_http):
            try:
                yield
            finally:
                await self._cut_off()

    async def _cut_off(self) -> None:
        """Ends what would go on, and gives it time to let go of what it opened."""
        long = tuple(self._long)
        for task in long:
            task.cancel()
        if long:
            await asyncio.wait(long, timeout=_STOP_SECONDS)

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request."""
        with self._counts.counting(request.method, request.raw_path.partition("?")[0]):
            outcome = await self._front.answer(_asked(request))
            if isinstance(outcome, Reply):
                return _response(outcome)
            task = asyncio.current_task()
            assert task is not None
            self._long.add(task)
            try:
                if isinstance(outcome, StreamUpgrade):
                    return await serve_upgrade(outcome, request)
                return await _send_log(outcome, request)
            finally:
                self._long.discard(task)


def _not_http() -> web.StreamResponse:
    return _response(text_reply(400, "400 Bad Request"))


def _asked(request: web.BaseRequest) -> KubeletRequest:
    headers = request.headers
    offer = UpgradeOffer(
        headers.get(hdrs.CONNECTION, ""),
        headers.get(hdrs.UPGRADE, ""),
        listed(headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, ())),
        listed(headers.getall("X-Stream-Protocol-Version", ())),
    )
    return KubeletRequest(
        request.method,
        request.raw_path,
        headers.get(hdrs.AUTHORIZATION, ""),
        server.client_certificate(request),
        offer,
        request.content_type == "application/x-www-form-urlencoded",
        lambda: _read_body(request),
    )


async def _read_body(request: web.BaseRequest) -> bytes:
    try:
        return await server.read_body(request, _MAX_BODY_BYTES)
    except BodyTooLarge:
        raise HttpError(413, "the body of the request is too large") from None
    except BodyUnreadable as error:
        raise HttpError(400, "the body of the request could not be read") from error


def _headers(reply: Reply) -> CIMultiDict[str]:
    return CIMultiDict([("Content-Type", reply.content_type), ("Server", server.SERVER), *reply.headers])


def _response(reply: Reply) -> web.Response:
    return web.Response(status=reply.code, body=reply.body, headers=_headers(reply))


async def _send_log(output: ContainerLogOutput, request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers=_headers(Reply(200, b"", TEXT)))

    async def write(data: bytes) -> None:
        await server.write(response, data, stalled_seconds=_STALLED_SECONDS)

    try:
        # The client hears at once that there is a log, though it may be long until something is written to it.
        await response.prepare(request)
        await output.copy(write)
    except FileNotFoundError:
        log.info("log is gone", target=request.raw_path[:200])
        response.force_close()
    except ConnectionError:
        response.force_close()
    except TimeoutError:
        server.cut_off(request)
    return response
