"""The kubelet's HTTPS server: limits, request metrics, and upgraded connections.

Upstream: pkg/kubelet/server/server.go, pkg/kubelet/server/metrics/metrics.go
"""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from pykubelet.aio.log import get_logger
from pykubelet.httpserver.connections import ConnectionLimits
from pykubelet.httpserver.request import HttpRequest
from pykubelet.httpserver.response import Ended, HandlerResult, Handover, HttpResponse, text_response
from pykubelet.httpserver.server import HttpServer, ServerLimits
from pykubelet.httpserver.upgrade import HijackedLink, HijackedResponse, Touch, WebSocketLink
from pykubelet.kubelet.server.handlers import KubeletHandlers, StreamUpgrade
from pykubelet.kubelet.server.routes import KubeletEndpoint
from pykubelet.kubelet.server.streaming import portforward, remotecommand
from pykubelet.kubelet.server.streaming.negotiation import SPDY, Carrier
from pykubelet.kubelet.server.streaming.session import CommandSession
from pykubelet.kubelet.server.streaming.wsstream import ChannelProtocol, MessageBytes

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

log = get_logger(__name__)

_LIMITS = ServerLimits(
    # A command line, which is part of the query, may be long; a service account token has about a kilobyte.
    line_bytes=1024 * 1024,
    field_bytes=64 * 1024,
    headers=128,
    # Go's IdleTimeout in a kubelet.
    idle_seconds=90.0,
    stop_seconds=2.0,
    stalled_seconds=30.0,
    body_bytes=64 * 1024,
    # Its clients are API servers, for sessions and logs, and scrapers.
    connections=ConnectionLimits(total=4096, unauthenticated=512, waiting=2048, head_bytes=1024 * 1024 + 64 * 1024),
)
# The kubelet's streamingConnectionIdleTimeout.
IDLE_SECONDS = 4 * 3600.0
# How long the client may take to close a connection after the last message.
_LINGER_SECONDS = 5.0

_METHODS = frozenset({"OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"})
_LONG_RUNNING = frozenset({"exec", "attach", "portForward"})
_PATHS = frozenset({page.value.removeprefix("/") for page in KubeletEndpoint} | {"stats"})
_LABELS = ("long_running", "method", "path", "server_type")


class KubeletServer:
    """Serves the kubelet's API on a socket."""

    def __init__(self, handlers: KubeletHandlers, metrics: "ServerRequestMetrics") -> None:
        self._handlers, self._metrics = handlers, metrics
        self._server = HttpServer(self._answer, limits=_LIMITS, malformed=text_response(400, "400 Bad Request"))

    def serving(self, listener: socket.socket, tls: ssl.SSLContext) -> AbstractAsyncContextManager[None]:
        """Serve for the duration of the context; at its end, open sessions and logs are cancelled."""
        return self._server.serving(listener, tls)

    async def _answer(self, request: HttpRequest) -> HandlerResult:
        ended = self._metrics.started(request.method, request.target.partition("?")[0])
        try:
            result = await self._handlers.answer(request)
        except BaseException:
            ended(500)
            raise
        if isinstance(result, HttpResponse):
            ended(result.code)
            return result
        if isinstance(result, StreamUpgrade):
            return Handover(partial(serve_upgrade, result), ended)
        return result._replace(ended=ended)


async def serve_upgrade(upgrade: StreamUpgrade, request: web.BaseRequest) -> web.StreamResponse:
    """Serve an upgraded connection until its session ends, or nothing is sent for the idle timeout."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(IDLE_SECONDS) as idle:

            def touch() -> None:
                idle.reschedule(loop.time() + IDLE_SECONDS)

            if upgrade.agreement.carrier is Carrier.SPDY:
                return await _serve_spdy(upgrade, request, touch)
            return await _serve_web_socket(upgrade, request, touch)
    except TimeoutError:
        log.info("idle streaming connection closed", target=request.raw_path[:200])
        return HijackedResponse(request)


async def _serve_spdy(upgrade: StreamUpgrade, request: web.BaseRequest, touch: Touch) -> web.StreamResponse:
    session, agreement = upgrade
    link = HijackedLink(request, touch)
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
        await link.linger(_LINGER_SECONDS)
    except ConnectionError as error:
        log.debug("client disconnected", cause=str(error))
    return HijackedResponse(request)


async def _serve_web_socket(upgrade: StreamUpgrade, request: web.BaseRequest, touch: Touch) -> web.StreamResponse:
    session, agreement = upgrade
    protocols = (agreement.protocol,) if agreement.protocol else ()
    web_socket = web.WebSocketResponse(protocols=protocols, compress=False, timeout=_LINGER_SECONDS)
    try:
        await web_socket.prepare(request)
    except web.HTTPException as error:
        # The headers of the handshake are invalid.
        return web.Response(status=error.status, text=error.text)
    link = WebSocketLink(web_socket, touch)
    try:
        if isinstance(session, CommandSession):
            await remotecommand.serve_channels(session, link, agreement)
        elif agreement.carrier is Carrier.TUNNEL:
            await portforward.SpdyForward(session, MessageBytes(link)).serve()
        else:
            await portforward.serve_channels(session, link, ChannelProtocol(agreement.protocol))
    except ConnectionError as error:
        log.debug("client disconnected", cause=str(error))
    await web_socket.close()
    return web_socket


class ServerRequestMetrics:
    """Counts requests in total and in flight. Implements MetricsCollector."""

    def __init__(self) -> None:
        self._total: Counter[tuple[str, ...]] = Counter()
        self._in_flight: Counter[tuple[str, ...]] = Counter()

    def started(self, method: str, path: str) -> Ended:
        """Count a request as in flight until the returned function is called."""
        labels = _request_labels(method, path)
        self._total[labels] += 1
        self._in_flight[labels] += 1

        def ended(_code: int) -> None:
            self._in_flight[labels] -= 1

        return ended

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        total = CounterMetricFamily("kubelet_http_requests_total", "Requests received.", labels=_LABELS)
        in_flight = GaugeMetricFamily("kubelet_http_inflight_requests", "Requests under way.", labels=_LABELS)
        for labels, count in self._total.items():
            total.add_metric(labels, count)
            in_flight.add_metric(labels, self._in_flight[labels])
        yield total
        yield in_flight


def _request_labels(method: str, path: str) -> tuple[str, ...]:
    """The labels of a request; only known methods and paths, so that clients cannot create time series."""
    first, *rest = path.removeprefix("/").split("/")
    root = f"{first}/{rest[0]}" if first == "metrics" and rest else first
    known_method, known_path = method if method in _METHODS else "other", root if root in _PATHS else "other"
    return "true" if root in _LONG_RUNNING else "false", known_method, known_path, "readwrite"
