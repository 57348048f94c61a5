"""REST client of an API server: implements the client interface over HTTP.

Every failure is an `ApiError`; failures of the transport are NotReached. Responses, watch lines
and waits are bounded; redirects are not followed. Requests are counted by method and status code for Prometheus.

Upstream: staging/src/k8s.io/client-go/rest/request.go, staging/src/k8s.io/client-go/rest/with_retry.go,
staging/src/k8s.io/component-base/metrics/prometheus/restclient/metrics.go
"""

import asyncio
import os
import platform
import socket
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet

import aiohttp
from yarl import URL

from pykubelet import __version__
from pykubelet.aio.backoff import system_random
from pykubelet.aio.clock import Clock
from pykubelet.aio.histogram import Histogram
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, InternalError, NotReached, Unauthorized
from pykubelet.api.generated.meta import DeleteOptions
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import TypedKind, as_documents
from pykubelet.api.serializer import Document
from pykubelet.client import discovery, request
from pykubelet.client.discovery import Discovery
from pykubelet.client.interface import EVERYTHING, Listing, PatchType, Selection, WatchEvent
from pykubelet.client.request import MAX_LINE_BYTES, LineSplitter, RestRequest, RestResponse, read_event
from pykubelet.client.transport import Credential, CredentialError, RestConfig, TlsContexts
from pykubelet.client.websocket import WebSocket, WebSocketTarget, open_web_socket

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

log = get_logger(__name__)

_BOUNDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
NO_ANSWER = "<error>"
"""The code label of a request without a response, as upstream has it."""
T = TypeVar("T")
USER_AGENT = f"pykubelet/{__version__} ({platform.system().lower()}/{platform.machine()})"
MAX_REPEATS = 10
MIN_WATCH_SECONDS = 300.0
KEEPALIVE_SECONDS = 30
"""How often the kernel probes a silent connection, so that a watch on a dead connection ends."""
_STEPS_TO_CLOSE = 20


class RestClientMetrics:
    """Counts and times the requests of one client; a Prometheus collector."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._total: Counter[tuple[str, str]] = Counter()
        self._took: dict[str, Histogram] = {}

    def note(self, method: str, code: str, seconds: float) -> None:
        """Record a request: its method, status code and duration."""
        self._total[code, method] += 1
        self._took.setdefault(method, Histogram(_BOUNDS)).observe(seconds)

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily

        total = CounterMetricFamily(
            "rest_client_requests_total", "Requests to the API server.", labels=("code", "method", "host")
        )
        for labels, count in self._total.items():
            total.add_metric((*labels, self._host), count)
        took = HistogramMetricFamily(
            "rest_client_request_duration_seconds", "Until the answer begins.", labels=("verb", "host")
        )
        for method, histogram in self._took.items():
            took.add_metric((method, self._host), buckets=histogram.buckets, sum_value=histogram.sum)
        yield from (total, took)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestClientLimits:
    connect_seconds: float = 30.0
    request_seconds: float = 60.0
    """The timeout of one attempt, and the longest Retry-After that is honoured."""
    watch_grace_seconds: float = 30.0
    """How long a watch may stay open beyond its requested timeout."""
    answer_bytes: int = 256 << 20
    line_bytes: int = MAX_LINE_BYTES
    at_once: int = 1 << 16
    """The maximum of concurrent requests, each on its own connection; watches do not count."""


class RestClient:
    """Implements the whole client interface for one API server; an async context manager."""

    def __init__(self, config: RestConfig, *, clock: Clock, limits: RestClientLimits | None = None) -> None:
        self._config, self._limits = config, limits or RestClientLimits()
        self._base = config.server.rstrip("/")
        place = URL(self._base)
        self.counts = RestClientMetrics(f"{place.host}:{place.port}")
        self._tls = TlsContexts(config.trust, clock=clock) if self._base.startswith("https:") else None
        self._session: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._turns = asyncio.Semaphore(self._limits.at_once)

    async def __aenter__(self) -> Self:
        # Watches hold connections open, so the pool must not bound their number.
        connector = aiohttp.TCPConnector(limit=0, socket_factory=lambda address: _socket(address, self._sockets))
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": USER_AGENT, "Accept": request.JSON, "Accept-Encoding": "gzip"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()
        await _abort_connections(self._sockets)

    async def get(self, kind: TypedKind[T], name: str, *, namespace: str = "", resource_version: str = "") -> T:
        plan = request.get_plan(kind.resource, name, namespace, resource_version)
        return request.read_object(kind, await self._answer(request.accepting_metadata(plan, kind)))

    async def list(
        self,
        kind: TypedKind[T],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> Listing[T]:
        plan = request.list_plan(kind.resource, namespace, selection, resource_version, limit, continue_token)
        return request.read_list(kind, await self._answer(request.accepting_metadata(plan, kind, is_list=True)))

    async def create(self, kind: TypedKind[T], body: T, *, namespace: str = "", name: str = "") -> T:
        plan = request.create_plan(kind.resource, body, namespace, name)
        return request.read_object(kind, await self._answer(plan))

    async def patch(
        self,
        kind: TypedKind[T],
        name: str,
        body: Any,
        *,
        namespace: str = "",
        patch_type: PatchType = PatchType.STRATEGIC,
        subresource: str = "",
    ) -> T:
        plan = request.patch_plan(kind.resource, name, body, namespace, patch_type, subresource)
        return request.read_object(kind, await self._answer(request.accepting_metadata(plan, kind)))

    async def delete(
        self, kind: TypedKind[T], name: str, *, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        await self._answer(request.delete_plan(kind.resource, name, namespace, options))

    async def node_page(self, node: str, *path: str) -> bytes:
        """Get a page of a node's own API through the API server's node proxy."""
        return await self._answer(request.node_page_plan(node, path))

    async def replace(
        self, resource: Resource, name: str, body: Document, *, namespace: str = "", subresource: str = ""
    ) -> Document:
        plan = request.replace_plan(resource, name, body, namespace, subresource)
        return request.read_object(as_documents(resource), await self._answer(plan))

    async def discover(self, verbs: frozenset[str]) -> Discovery:
        bodies = [await self._answer(request.discovery_plan(path)) for path in discovery.PATHS]
        legacy, groups = (discovery.read_discovery(body, verbs) for body in bodies)
        return Discovery(legacy.resources + groups.resources, legacy.unsure + groups.unsure)

    async def served(self) -> tuple[Resource, ...]:
        return (await self.discover(discovery.APPLIED_VERBS)).resources

    async def published_schemas(self, api_version: str) -> dict[str, Document]:
        return request.read_schemas(await self._answer(request.schemas_plan(api_version)))

    async def apply(self, resource: Resource, body: Document, *, namespace: str = "", field_manager: str) -> Document:
        plan = request.apply_plan(resource, body, namespace, field_manager)
        return request.read_object(as_documents(resource), await self._answer(plan))

    @asynccontextmanager
    async def watch(
        self,
        kind: TypedKind[T],
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        resource_version: str = "",
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        seconds = MIN_WATCH_SECONDS * (1 + system_random()) if timeout_seconds is None else timeout_seconds
        plan = request.watch_plan(kind.resource, namespace, selection, resource_version, seconds)
        end = asyncio.get_running_loop().time() + seconds + self._limits.watch_grace_seconds
        response = await self._opened(request.accepting_metadata(plan, kind))
        try:
            async with (
                aclosing(_chunks(plan, response, end)) as chunks,
                aclosing(_events(kind, plan, chunks, self._limits.line_bytes)) as events,
            ):
                yield events
        finally:
            # A connection with an open stream cannot be reused.
            response.close()

    async def ask(self, plan: RestRequest) -> RestResponse:
        """Send any request and read its whole successful response."""
        async with self._turns:
            response = await self._opened(plan)
            try:
                body = await self._body(plan, response)
            finally:
                response.release()
        warnings = request.read_warnings(response.headers.getall("Warning", ()))
        return RestResponse(response.status, body, warnings)

    @asynccontextmanager
    async def stream(self, plan: RestRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of a response as it arrives."""
        response = await self._opened(plan)
        try:
            async with aclosing(_chunks(plan, response, None)) as chunks:
                yield chunks
        finally:
            response.close()

    @asynccontextmanager
    async def connect(self, plan: RestRequest, protocols: Sequence[str]) -> AsyncIterator[WebSocket]:
        """Open a WebSocket that speaks one of these protocols. Raises ApiError if the server refuses."""
        assert self._session is not None, "the client is used outside its context"
        credential = await self._credential()
        headers = {"Authorization": credential.authorization} if credential.authorization else {}
        way = WebSocketTarget(
            URL(self._base + plan.target, encoded=True),
            await self._context(credential),
            self._config.trust.server_name,
            headers,
        )
        with _as_not_reached(plan):
            async with asyncio.timeout(self._limits.connect_seconds):
                socket = await open_web_socket(self._session, way, protocols)
        if not isinstance(socket, WebSocket):
            raise request.read_error(socket.code, {}, socket.body)
        try:
            yield socket
        finally:
            await socket.close()

    async def _answer(self, plan: RestRequest) -> bytes:
        """Send a request and read the body of its successful response."""
        return (await self.ask(plan)).body

    async def _body(self, plan: RestRequest, response: aiohttp.ClientResponse) -> bytes:
        body = bytearray()
        end = asyncio.get_running_loop().time() + self._limits.request_seconds
        while chunk := await _chunk(plan, response, end):
            body += chunk
            if len(body) > self._limits.answer_bytes:
                response.close()
                raise InternalError(f"{plan.method} {plan.path}: more than {self._limits.answer_bytes} bytes came")
        return bytes(body)

    async def _opened(self, plan: RestRequest) -> aiohttp.ClientResponse:
        """Open a response; retries as the server asks with Retry-After, and once after 401 with new credentials."""
        may_renew = True
        repeats = 0
        while True:
            credential = await self._credential()
            response = await self._sent(plan, credential)
            if 200 <= response.status < 300:
                return response
            error = await self._error(plan, response)
            if isinstance(error, Unauthorized) and may_renew:
                # The server did nothing on 401, so any request may be repeated, but only with new credentials.
                may_renew = False
                await self._config.credentials.rejected(credential)
                if await self._credential() != credential:
                    continue
            wait = error.retry_after_seconds
            if wait is None or not request.may_repeat(plan, response.status) or repeats == MAX_REPEATS:
                raise error
            if wait > self._limits.request_seconds:
                raise error
            repeats += 1
            log.debug("server asks to retry later", path=plan.path, seconds=wait, error=error)
            await asyncio.sleep(wait)

    async def _credential(self) -> Credential:
        try:
            return await self._config.credentials.current()
        except CredentialError as error:
            raise Unauthorized(f"no credentials: {error}") from error

    async def _sent(self, plan: RestRequest, credential: Credential) -> aiohttp.ClientResponse:
        assert self._session is not None, "the client is used outside its context"
        headers = {"Content-Type": plan.content_type} if plan.body is not None else {}
        if plan.accept:
            headers["Accept"] = plan.accept
        if credential.authorization:
            headers["Authorization"] = credential.authorization
        context, began, code = await self._context(credential), asyncio.get_running_loop().time(), NO_ANSWER
        try:
            with _as_not_reached(plan):
                async with asyncio.timeout(self._limits.request_seconds):
                    response = await self._session.request(
                        plan.method,
                        URL(self._base + plan.target, encoded=True),
                        data=plan.body,
                        headers=headers,
                        allow_redirects=False,
                        ssl=context or True,
                        server_hostname=self._config.trust.server_name or None,
                        timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._limits.connect_seconds),
                    )
            code = str(response.status)
            return response
        finally:
            self.counts.note(plan.method, code, asyncio.get_running_loop().time() - began)

    async def _context(self, credential: Credential) -> ssl.SSLContext | None:
        try:
            return await self._tls.current(credential.pair) if self._tls else None
        except CredentialError as error:
            raise Unauthorized(f"no TLS connection is possible: {error}") from error

    async def _error(self, plan: RestRequest, response: aiohttp.ClientResponse) -> ApiError:
        try:
            body = await self._body(plan, response)
        finally:
            response.release()
        return request.read_error(response.status, response.headers, body)


async def _chunk(plan: RestRequest, response: aiohttp.ClientResponse, end: float | None) -> bytes:
    """The next chunk of a stream; empty at its end."""
    with _as_not_reached(plan):
        async with asyncio.timeout_at(end):
            return await response.content.readany()


async def _chunks(
    plan: RestRequest, response: aiohttp.ClientResponse, end: float | None
) -> AsyncGenerator[bytes, None]:
    while chunk := await _chunk(plan, response, end):
        yield chunk


async def _events(
    kind: TypedKind[T], plan: RestRequest, chunks: AsyncIterator[bytes], line_bytes: int
) -> AsyncGenerator[WatchEvent[T], None]:
    splitter = LineSplitter(line_bytes)
    async for chunk in chunks:
        for line in splitter.lines(chunk):
            event = read_event(kind, line)
            if event is None:
                log.warning("watch event of unknown type ignored", path=plan.path)
            else:
                yield event
    if splitter.is_within_line:
        raise NotReached(f"watch {plan.path}: the stream was cut in the middle of an event")


@contextmanager
def _as_not_reached(plan: RestRequest) -> Iterator[None]:
    """Translate exceptions of the transport into NotReached."""
    try:
        yield
    except aiohttp.ClientResponseError as error:
        # Not chained: the exception carries the request's headers and with them the credentials.
        raise NotReached(f"{plan.method} {plan.path}: {error.message}") from None
    except TimeoutError as error:
        raise NotReached(f"{plan.method} {plan.path}: no response in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise NotReached(f"{plan.method} {plan.path}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """The cause of a connection failure, without aiohttp's objects in the text."""
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        number = error.os_error.errno or 0
        # The errno of a name resolution failure is not one of the operating system's.
        why = os.strerror(number) if number > 0 else error.os_error.strerror
        return f"cannot connect to {error.host}:{error.port}: {why}"
    return str(error)


async def _abort_connections(sockets: Collection[socket.socket]) -> None:
    """Abort open connections: an orderly TLS shutdown would wait longer than the loop may run."""
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
    # The loop needs a few iterations to notice; none of them waits.
    for _ in range(_STEPS_TO_CLOSE):
        if all(one.fileno() < 0 for one in sockets):
            return
        await asyncio.sleep(0)


def _socket(address: aiohttp.AddrInfoType, sockets: WeakSet[socket.socket]) -> socket.socket:
    """Create a socket with keepalive and add it to the set."""
    family, type_, protocol, _, _ = address
    made = socket.socket(family, type_, protocol)
    sockets.add(made)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), KEEPALIVE_SECONDS)
    return made
