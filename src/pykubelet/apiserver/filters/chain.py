"""The handler chain: the order in which a request is checked, handled, encoded, counted and audited.

    limits -> authenticate -> impersonate -> route -> authorize -> handler -> content negotiation -> metrics and audit

It does not depend on the HTTP library: `secure_serving.py` makes a `HttpRequest` and sends the `ChainResponse`.

Upstream: staging/src/k8s.io/apiserver/pkg/server/config.go
"""

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar, TypeVarTuple, cast

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, BadRequest, InternalError, NotFound
from pykubelet.apiserver.discovery import subresource_of
from pykubelet.apiserver.errors import no_such_method, no_such_path
from pykubelet.apiserver.filters import limits
from pykubelet.apiserver.filters.access import AccessFilter, attributes_of, session_attributes
from pykubelet.apiserver.filters.audit import AuditLog, AuditRecord
from pykubelet.apiserver.filters.metrics import ApiServerMetrics, RequestLabels, scope_of
from pykubelet.apiserver.filters.requestinfo import PROXY, RequestInfo, request_info, served_at
from pykubelet.apiserver.handlers import responsewriters
from pykubelet.apiserver.handlers.responsewriters import Lines
from pykubelet.apiserver.nonresource import NonResourceHandler, NonResourceRequest
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.apiserver.request import (
    ANONYMOUS_NAME,
    ApiRequest,
    ApiResponse,
    AuthorizationAttributes,
    SerializedEvent,
    UserInfo,
    Verb,
    WatchStream,
)
from pykubelet.apiserver.serializer.protobuf_encoder import FRAME_LENGTH_BYTES
from pykubelet.apiserver.serializer.protobuf_messages import has_message
from pykubelet.httpserver.request import (
    NO_QUERY,
    BodyTooLarge,
    BodyUnreadable,
    HttpRequest,
    RequestTarget,
    read_target,
)
from pykubelet.httpserver.response import JSON, NOT_FOUND, HttpResponse
from pykubelet.kinds.kind import Kind

log = get_logger(__name__)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# For large responses in another form than JSON. More threads only take turns with the event loop more often, and each
# keeps memory of its own.
_CONVERSIONS = ThreadPoolExecutor(2, "conversion")
_READS = frozenset({"get", "list", "watch"})
# Besides those that have a verb of their own.
_PROXIED_METHODS = ("HEAD", "OPTIONS")


class WatchResponse(NamedTuple):
    """A watch, to be sent event by event."""

    stream: WatchStream
    lines: Lines
    content_type: str
    converts: bool
    """Whether `lines` takes longer than copying the stored texts."""

    @property
    def is_binary(self) -> bool:
        return self.content_type != JSON

    def messages(self, events: Iterable[SerializedEvent]) -> list[bytes]:
        """Each event as a message of a WebSocket, which needs no length before it."""
        start = FRAME_LENGTH_BYTES if self.is_binary else 0
        return [self.lines((event,))[start:] for event in events]


class ProxiedRequest(NamedTuple):
    """A request that is proxied to a node or pod, which then answers it."""

    request: ApiRequest
    rest: str
    """The path after the subresource."""


ChainResponse = HttpResponse | WatchResponse | ProxiedRequest


@dataclass(slots=True)
class RequestContext:
    """What the chain learns about a request, for metrics and audit."""

    started: float
    labels: RequestLabels | None = None
    info: RequestInfo | None = None
    user: UserInfo | None = None
    impersonator: UserInfo | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    """What admission says about the request."""


class HandlerChain:
    def __init__(
        self,
        *,
        access: AccessFilter,
        kinds: ServedKinds,
        handle: Callable[[ApiRequest], Awaitable[ApiResponse | WatchStream]],
        nonresource: NonResourceHandler,
        metrics: ApiServerMetrics,
        audit: AuditLog | None,
        proxied: Container[tuple[str, str]],
        clock: Clock,
    ) -> None:
        self._access, self._kinds, self._handle, self._nonresource = access, kinds, handle, nonresource
        self._metrics, self._audit, self._clock = metrics, audit, clock
        self._proxied = proxied
        """Resources and subresources, such as `pods` and `exec`, whose requests become a `ProxiedRequest`."""

    async def answer(self, request: HttpRequest) -> tuple[ChainResponse, RequestContext]:
        """The response to send. An `HttpResponse` is already counted; after any other the sender must call `long_ended`."""
        context = RequestContext(self._clock.monotonic())
        response: ChainResponse
        try:
            response = await self._respond(request, context)
        except Exception as error:  # noqa: BLE001  whatever it is, the client gets a Status and the server goes on
            response = error_response(error, request)
        if type(response) is HttpResponse:
            self.ended(request, context, response.code)
        elif context.labels is not None:
            self._metrics.long_started(context.labels)
        return response, context

    def sent(self, context: RequestContext, events: int) -> None:
        if context.labels is not None:
            self._metrics.events_sent(context.labels, events)

    def long_ended(self, request: HttpRequest, context: RequestContext, code: int) -> None:
        """Counts a watch or proxied connection that has ended."""
        if context.labels is not None:
            self._metrics.long_ended(context.labels)
        self.ended(request, context, code)

    def ended(self, request: HttpRequest, context: RequestContext, code: int) -> None:
        """Counts a request and audits it if it is a write."""
        seconds = self._clock.monotonic() - context.started
        if context.labels is not None:
            self._metrics.answered(context.labels, code, seconds)
        info = context.info
        if self._audit is None or info is None or info.verb in _READS:
            return
        user, real = context.user, context.impersonator
        assert user is not None
        resource = f"{info.plural}.{info.group}" if info.group else info.plural
        self._audit.write(
            AuditRecord(
                id=request.id,
                user=(real or user).name,
                acting_as=user.name if real else "",
                verb=info.verb,
                resource=f"{resource}/{info.subresource}" if info.subresource else resource,
                namespace=info.namespace,
                name=info.name,
                code=code,
                seconds=seconds,
                source=request.source,
                user_agent=request.headers.get("User-Agent", ""),
                annotations=context.annotations,
            )
        )

    async def _respond(self, request: HttpRequest, context: RequestContext) -> ChainResponse:
        target = read_target(request.target)
        user, context.impersonator = self._access.authenticate(request.headers, request.certificate)
        context.user = user
        if user.name != ANONYMOUS_NAME or context.impersonator is not None:
            request.authenticated()
        info = request_info(request.method, target.path, target.query)
        if info is None:
            self._access.check(AuthorizationAttributes(user=user, verb=request.method.lower(), path=target.path))
            return await self._answer_nonresource(request, target)
        context.info = info
        attributes = attributes_of(user, info)
        self._access.check(attributes)
        if info.subresource and (session := session_attributes(attributes, request.headers)) is not None:
            self._access.check(session)
        served = self._served(info, request.method)
        if served is None:
            return NOT_FOUND
        context.labels = _request_labels(info, target)
        return await self._resource(request, target, info, served, context)

    async def _answer_nonresource(self, request: HttpRequest, target: RequestTarget) -> HttpResponse:
        headers = request.headers
        nonresource_request = NonResourceRequest(
            request.method,
            target,
            headers.get("Accept", ""),
            headers.get("If-None-Match", ""),
            headers.get("User-Agent", ""),
        )
        page = await self._nonresource.answer(nonresource_request)
        if page is not None:
            return page
        if self._nonresource.is_of_known_group(target.path):
            raise no_such_path()
        return NOT_FOUND

    def _served(self, info: RequestInfo, method: str) -> Kind | None:
        """The kind that serves a request; None for an unknown group, whose paths get a plain 404."""
        if not info.path.startswith("/api"):
            return None
        try:
            served = served_at(info, self._kinds.find)
        except NotFound:
            if self._nonresource.is_of_known_group(info.path):
                raise
            return None
        is_proxied = info.subresource == PROXY and method in _PROXIED_METHODS
        if (method == "HEAD" or not info.verb) and not is_proxied:
            raise no_such_method()
        return served

    async def _resource(
        self, request: HttpRequest, target: RequestTarget, info: RequestInfo, served: Kind, context: RequestContext
    ) -> ChainResponse:
        headers, query, user = request.headers, target.query, context.user
        assert user is not None
        accept = headers.get("Accept", "")
        # The messages are read when a client first asks for protobuf.
        in_protobuf = responsewriters.PROTOBUF in accept and has_message(served.definition)
        verbs = subresource_of(served, info.subresource).verbs if info.subresource else served.verbs
        # What is only created, such as a review or a token, is never listed, and has no columns.
        has_table = tuple(verbs) != ("create",)
        form = responsewriters.object_form(
            accept, stream=info.verb == "watch", has_message=in_protobuf, has_table=has_table
        )
        view = responsewriters.view_of(
            form, served, query, pretty=responsewriters.wants_pretty(form, query, headers.get("User-Agent", ""))
        )
        if (served.resource.group_resource, info.subresource) in self._proxied:
            connection = _api_request(request, target, info, served, user, b"")
            context.annotations = connection.annotations
            return ProxiedRequest(connection, info.rest)
        writes = info.verb not in _READS
        flow, seconds = self._metrics.flow, limits.request_seconds(query)
        try:
            async with asyncio.timeout(seconds):
                seats = await flow.enter(user, info, seconds, writes=writes)
                try:
                    body = await request.read_body() if writes else b""
                    call = _api_request(request, target, info, served, user, body)
                    context.annotations = call.annotations
                    result = await self._handle(call)
                finally:
                    flow.leave(seats, writes=writes)
        except TimeoutError:
            raise limits.took_too_long() from None
        if isinstance(result, WatchStream):
            lines = responsewriters.watch_lines(view, self._clock.now)
            return WatchResponse(result, lines, responsewriters.stream_type(form), bool(form.kind or form.protobuf))
        if responsewriters.is_sent_in_parts(result):
            return responsewriters.encode_list(result, view, self._clock.now, _in_thread)
        if responsewriters.is_slow_to_encode(result, view):
            return await _in_thread(responsewriters.encode_response, result, view, self._clock.now)
        return responsewriters.encode_response(result, view, self._clock.now)


async def _in_thread(convert: Callable[[*Ts], T], *args: *Ts) -> T:
    return await asyncio.get_running_loop().run_in_executor(_CONVERSIONS, convert, *args)


def _api_request(
    request: HttpRequest, target: RequestTarget, info: RequestInfo, served: Kind, user: UserInfo, body: bytes
) -> ApiRequest:
    return ApiRequest(
        user=user,
        verb=cast("Verb", info.verb),
        served=served,
        namespace=info.namespace if served.resource.namespaced else "",
        name=info.name if info.named_in_path else "",
        subresource=info.subresource,
        query=target.query,
        body=body,
        content_type=request.headers.get("Content-Type", ""),
        user_agent=request.headers.get("User-Agent", ""),
    )


def _request_labels(info: RequestInfo, target: RequestTarget) -> RequestLabels:
    return RequestLabels(
        info.verb,
        "All" if target.query.get("dryRun") == "All" else "",
        info.group,
        info.version,
        info.plural,
        info.subresource,
        scope_of(verb=info.verb, namespace=info.namespace, name=info.name),
    )


def error_response(error: Exception, request: HttpRequest) -> HttpResponse:
    """An error in the form that the client accepts. Unexpected errors are logged, and the client gets only the audit ID."""
    headers = request.headers
    if isinstance(error, RecursionError):
        error = BadRequest("the request is nested too deep")
    elif isinstance(error, BodyTooLarge):
        error = limits.too_large()
    elif isinstance(error, BodyUnreadable):
        error = BadRequest("the body of the request could not be read")
    elif not isinstance(error, ApiError):
        log.error("request failed", error=error, method=request.method, target=request.target[:200], id=request.id)
        error = InternalError(f"Internal error occurred: see the server's log, {request.id}")
    try:
        query = read_target(request.target).query
    except BadRequest:
        query = NO_QUERY
    return responsewriters.status_response(error, headers.get("Accept", ""), query, headers.get("User-Agent", ""))
