"""From an HTTP request to what is answered: the one order in which everything is checked and done.

    limits -> authenticate -> impersonate -> route -> authorize -> verbs or pages -> form -> count and audit

Nothing here knows the HTTP library: `app.py` makes an `Asked` of its request and sends the `Outcome`.

Upstream: staging/src/k8s.io/apiserver/pkg/server/config.go (DefaultBuildHandlerChain).
"""

import asyncio
from collections.abc import Container
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, BadRequest, InternalError, NotFound
from pykubelet.apiserver.errors import no_such_method, no_such_path
from pykubelet.apiserver.filters import limits, metrics
from pykubelet.apiserver.filters.access import AccessFilter, attributes_of, session_attributes
from pykubelet.apiserver.filters.audit import AuditLog, AuditRecord
from pykubelet.apiserver.filters.requestinfo import RequestInfo, request_info, served_at
from pykubelet.apiserver.handlers.responsewriters import (
    Lines,
    answer_reply,
    error_reply,
    object_form,
    takes_long,
    view_of,
    wants_pretty,
    watch_lines,
)
from pykubelet.apiserver.nonresource import NonResourceHandler, NonResourceRequest
from pykubelet.apiserver.request import ApiRequest, ApiResponse, AuthorizationAttributes, UserInfo, Verb, WatchStream
from pykubelet.httpserver.request import (
    NO_QUERY,
    BodyTooLarge,
    BodyUnreadable,
    HttpRequest,
    RequestTarget,
    read_target,
)
from pykubelet.httpserver.response import NOT_FOUND, HttpResponse
from pykubelet.kinds.kind import Kind

log = get_logger(__name__)

_READS = frozenset({"get", "list", "watch"})


class ResourceHandler(Protocol):
    """What serves resources."""

    async def handle(self, call: ApiRequest) -> ApiResponse | WatchStream:
        """Do what is asked; raises ApiError."""


class KindFinder(Protocol):
    """What is served now."""

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The row of a resource, or None if it is not served."""


class WatchResponse(NamedTuple):
    """A stream to be sent line by line."""

    stream: WatchStream
    lines: Lines


class ProxiedRequest(NamedTuple):
    """A request that is passed on as it came, to a node say: whoever handles it answers it."""

    call: ApiRequest
    rest: str
    """What follows the subresource in the path of a proxied request."""


ChainResponse = HttpResponse | WatchResponse | ProxiedRequest


@dataclass(slots=True)
class RequestContext:
    """What became known of a request while it was handled."""

    started: float
    kind: metrics.RequestLabels | None = None
    route: RequestInfo | None = None
    user: UserInfo | None = None
    impersonator: UserInfo | None = None


class HandlerChain:
    """Answers requests."""

    def __init__(
        self,
        *,
        gate: AccessFilter,
        kinds: KindFinder,
        verbs: ResourceHandler,
        pages: NonResourceHandler,
        counters: metrics.ApiServerMetrics,
        audit: AuditLog | None,
        connected: Container[tuple[str, str]],
        clock: Clock,
    ) -> None:
        self._gate, self._kinds, self._verbs, self._pages = gate, kinds, verbs, pages
        self._counters, self._audit, self._clock = counters, audit, clock
        self._connected = connected
        """Resources with subresources (`pods`, `exec`) that become a `Connection`."""

    async def answer(self, asked: HttpRequest) -> tuple[ChainResponse, RequestContext]:
        """What to send. A Reply is counted already; whoever sends anything else calls `ended` when it is over."""
        exchange = RequestContext(self._clock.monotonic())
        outcome: ChainResponse
        try:
            outcome = await self._outcome(asked, exchange)
        except Exception as error:  # noqa: BLE001  whatever it is, the client gets a Status and the server goes on
            outcome = error_response(error, asked)
        if type(outcome) is HttpResponse:
            self.ended(asked, exchange, outcome.code)
        elif exchange.kind is not None:
            self._counters.long_started(exchange.kind)
        return outcome, exchange

    def sent(self, exchange: RequestContext, events: int) -> None:
        """Events of a watch were written."""
        if exchange.kind is not None:
            self._counters.events_sent(exchange.kind, events)

    def long_ended(self, asked: HttpRequest, exchange: RequestContext, code: int) -> None:
        """A watch or a connection is over."""
        if exchange.kind is not None:
            self._counters.long_ended(exchange.kind)
        self.ended(asked, exchange, code)

    def ended(self, asked: HttpRequest, exchange: RequestContext, code: int) -> None:
        """Counts a request, and writes it down if it was a write."""
        seconds = self._clock.monotonic() - exchange.started
        if exchange.kind is not None:
            self._counters.answered(exchange.kind, code, seconds)
        found = exchange.route
        if self._audit is None or found is None or found.verb in _READS:
            return
        user, real = exchange.user, exchange.impersonator
        assert user is not None
        resource = f"{found.plural}.{found.group}" if found.group else found.plural
        self._audit.write(
            AuditRecord(
                id=asked.id,
                user=(real or user).name,
                acting_as=user.name if real else "",
                verb=found.verb,
                resource=f"{resource}/{found.subresource}" if found.subresource else resource,
                namespace=found.namespace,
                name=found.name,
                code=code,
                seconds=seconds,
                source=asked.source,
                user_agent=asked.headers.get("User-Agent", ""),
            )
        )

    async def _outcome(self, asked: HttpRequest, exchange: RequestContext) -> ChainResponse:
        target = read_target(asked.target)
        user, exchange.impersonator = self._gate.caller(asked.headers, asked.certificate)
        exchange.user = user
        found = request_info(asked.method, target.path, target.query)
        if found is None:
            self._gate.check(AuthorizationAttributes(user=user, verb=asked.method.lower(), path=target.path))
            return await self._page(asked, target)
        exchange.route = found
        review = attributes_of(user, found)
        self._gate.check(review)
        if found.subresource and (session := session_attributes(review, asked.headers)) is not None:
            self._gate.check(session)
        served = self._served(found, asked.method)
        if served is None:
            return NOT_FOUND
        exchange.kind = _kind(found, target)
        return await self._resource(asked, target, found, served, user)

    async def _page(self, asked: HttpRequest, target: RequestTarget) -> HttpResponse:
        headers = asked.headers
        visit = NonResourceRequest(
            asked.method,
            target,
            headers.get("Accept", ""),
            headers.get("If-None-Match", ""),
            headers.get("User-Agent", ""),
        )
        page = await self._pages.answer(visit)
        if page is not None:
            return page
        if self._pages.is_of_known_group(target.path):
            raise no_such_path()
        return NOT_FOUND

    def _served(self, found: RequestInfo, method: str) -> Kind | None:
        """The row that serves a request; None for what nobody below this path ever served."""
        if not found.path.startswith("/api"):
            return None
        try:
            served = served_at(found, self._kinds.find)
        except NotFound:
            if self._pages.is_of_known_group(found.path):
                raise
            return None
        if method == "HEAD":
            raise no_such_method()
        return served

    async def _resource(
        self, asked: HttpRequest, target: RequestTarget, found: RequestInfo, served: Kind, user: UserInfo
    ) -> ChainResponse:
        headers, query = asked.headers, target.query
        form = object_form(headers.get("Accept", ""), stream=found.verb == "watch")
        view = view_of(form, served, query, pretty=wants_pretty(form, query, headers.get("User-Agent", "")))
        if (served.resource.group_resource, found.subresource) in self._connected:
            return ProxiedRequest(_call(asked, target, found, served, user, b""), found.rest)
        writes = found.verb not in _READS
        in_flight, seconds = self._counters.in_flight, limits.request_seconds(query)
        seats = in_flight.writing if writes else in_flight.reading
        try:
            async with asyncio.timeout(seconds):
                await seats.enter(user, seconds)
                try:
                    body = await asked.read_body() if writes else b""
                    answer = await self._verbs.handle(_call(asked, target, found, served, user, body))
                finally:
                    seats.leave()
        except TimeoutError:
            raise limits.took_too_long() from None
        if isinstance(answer, WatchStream):
            return WatchResponse(answer, watch_lines(view, self._clock.now))
        if takes_long(answer, view):
            return await asyncio.to_thread(answer_reply, answer, view, self._clock.now)
        return answer_reply(answer, view, self._clock.now)


def _call(
    asked: HttpRequest, target: RequestTarget, found: RequestInfo, served: Kind, user: UserInfo, body: bytes
) -> ApiRequest:
    return ApiRequest(
        user=user,
        verb=cast("Verb", found.verb),
        served=served,
        namespace=found.namespace if served.resource.namespaced else "",
        name=found.name if found.named_in_path else "",
        subresource=found.subresource,
        query=target.query,
        body=body,
        content_type=asked.headers.get("Content-Type", ""),
        user_agent=asked.headers.get("User-Agent", ""),
    )


def _kind(found: RequestInfo, target: RequestTarget) -> metrics.RequestLabels:
    return metrics.RequestLabels(
        found.verb,
        "All" if target.query.get("dryRun") == "All" else "",
        found.group,
        found.version,
        found.plural,
        found.subresource,
        metrics.scope_of(verb=found.verb, namespace=found.namespace, name=found.name),
    )


def error_response(error: Exception, asked: HttpRequest) -> HttpResponse:
    """An error as the client wants to see it; what is no answer of ours is told in the log and not to the client."""
    headers = asked.headers
    if isinstance(error, RecursionError):
        error = BadRequest("the request is nested too deep")
    elif isinstance(error, BodyTooLarge):
        error = limits.too_large()
    elif isinstance(error, BodyUnreadable):
        error = BadRequest("the body of the request could not be read")
    elif not isinstance(error, ApiError):
        log.error("request failed", error=error, method=asked.method, target=asked.target[:200], id=asked.id)
        error = InternalError(f"Internal error occurred: see the server's log, {asked.id}")
    try:
        query = read_target(asked.target).query
    except BadRequest:
        query = NO_QUERY
    return error_reply(error, headers.get("Accept", ""), query, headers.get("User-Agent", ""))
