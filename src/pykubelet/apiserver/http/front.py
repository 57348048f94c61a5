"""From an HTTP request to what is answered: the one order in which everything is checked and done.

    limits -> authenticate -> impersonate -> route -> authorize -> verbs or pages -> form -> count and audit

Nothing here knows the HTTP library: `app.py` makes an `Asked` of its request and sends the `Outcome`.

Upstream: staging/src/k8s.io/apiserver/pkg/server/config.go (DefaultBuildHandlerChain).
"""

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, BadRequest, InternalError, NotFound
from pykubelet.apiserver.call import Answer, Call, Review, Stream, User, Verb
from pykubelet.apiserver.failures import no_such_method, no_such_path
from pykubelet.apiserver.http import limits, metrics
from pykubelet.apiserver.http.audit import AuditLog, Record
from pykubelet.apiserver.http.gate import Gate, review_of, review_of_session
from pykubelet.apiserver.http.negotiate import object_form, wants_pretty
from pykubelet.apiserver.http.pages import Pages, Visit
from pykubelet.apiserver.http.reply import NO_SUCH_PAGE, Reply, error_reply
from pykubelet.apiserver.http.targets import NO_QUERY, Target, read_target
from pykubelet.apiserver.http.views import answer_reply, takes_long, view_of, watch_lines
from pykubelet.apiserver.http.watch_lines import Lines
from pykubelet.apiserver.requests.routes import Route, route, served_at
from pykubelet.apiserver.served import Served

log = get_logger(__name__)

_READS = frozenset({"get", "list", "watch"})


class Verbs(Protocol):
    """What serves resources."""

    async def handle(self, call: Call) -> Answer | Stream:
        """Do what is asked; raises ApiError."""


class Kinds(Protocol):
    """What is served now."""

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """The row of a resource, or None if it is not served."""


class Asked(NamedTuple):
    """An HTTP request: the body is read only once it is known that somebody may send it."""

    method: str
    target: str
    headers: Mapping[str, str]
    certificate: bytes | None
    source: str
    read_body: Callable[[], Awaitable[bytes]]
    id: str


class Watch(NamedTuple):
    """A stream to be sent line by line."""

    stream: Stream
    lines: Lines


class Connection(NamedTuple):
    """A request that is passed on as it came, to a node say: whoever handles it answers it."""

    call: Call
    rest: str
    """What follows the subresource in the path of a proxied request."""


Outcome = Reply | Watch | Connection


@dataclass(slots=True)
class Exchange:
    """What became known of a request while it was handled."""

    started: float
    kind: metrics.Kind | None = None
    route: Route | None = None
    user: User | None = None
    impersonator: User | None = None


class Front:
    """Answers requests."""

    def __init__(
        self,
        *,
        gate: Gate,
        kinds: Kinds,
        verbs: Verbs,
        pages: Pages,
        counters: metrics.Metrics,
        audit: AuditLog | None,
        connected: Container[tuple[str, str]],
        clock: Clock,
    ) -> None:
        self._gate, self._kinds, self._verbs, self._pages = gate, kinds, verbs, pages
        self._counters, self._audit, self._clock = counters, audit, clock
        self._connected = connected
        """Resources with subresources (`pods`, `exec`) that become a `Connection`."""

    async def answer(self, asked: Asked) -> tuple[Outcome, Exchange]:
        """What to send. A Reply is counted already; whoever sends anything else calls `ended` when it is over."""
        exchange = Exchange(self._clock.monotonic())
        outcome: Outcome
        try:
            outcome = await self._outcome(asked, exchange)
        except Exception as error:  # noqa: BLE001  whatever it is, the client gets a Status and the server goes on
            outcome = refusal(error, asked)
        if type(outcome) is Reply:
            self.ended(asked, exchange, outcome.code)
        elif exchange.kind is not None:
            self._counters.long_started(exchange.kind)
        return outcome, exchange

    def sent(self, exchange: Exchange, events: int) -> None:
        """Events of a watch were written."""
        if exchange.kind is not None:
            self._counters.events_sent(exchange.kind, events)

    def long_ended(self, asked: Asked, exchange: Exchange, code: int) -> None:
        """A watch or a connection is over."""
        if exchange.kind is not None:
            self._counters.long_ended(exchange.kind)
        self.ended(asked, exchange, code)

    def ended(self, asked: Asked, exchange: Exchange, code: int) -> None:
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
            Record(
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

    async def _outcome(self, asked: Asked, exchange: Exchange) -> Outcome:
        target = read_target(asked.target)
        user, exchange.impersonator = self._gate.caller(asked.headers, asked.certificate)
        exchange.user = user
        found = route(asked.method, target.path, target.query)
        if found is None:
            self._gate.check(Review(user=user, verb=asked.method.lower(), path=target.path))
            return await self._page(asked, target)
        exchange.route = found
        review = review_of(user, found)
        self._gate.check(review)
        if found.subresource and (session := review_of_session(review, asked.headers)) is not None:
            self._gate.check(session)
        served = self._served(found, asked.method)
        if served is None:
            return NO_SUCH_PAGE
        exchange.kind = _kind(found, target)
        return await self._resource(asked, target, found, served, user)

    async def _page(self, asked: Asked, target: Target) -> Reply:
        headers = asked.headers
        visit = Visit(
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
        return NO_SUCH_PAGE

    def _served(self, found: Route, method: str) -> Served | None:
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

    async def _resource(self, asked: Asked, target: Target, found: Route, served: Served, user: User) -> Outcome:
        headers, query = asked.headers, target.query
        form = object_form(headers.get("Accept", ""), stream=found.verb == "watch")
        view = view_of(form, served, query, pretty=wants_pretty(form, query, headers.get("User-Agent", "")))
        if (served.resource.group_resource, found.subresource) in self._connected:
            return Connection(_call(asked, target, found, served, user, b""), found.rest)
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
        if isinstance(answer, Stream):
            return Watch(answer, watch_lines(view, self._clock.now))
        if takes_long(answer, view):
            return await asyncio.to_thread(answer_reply, answer, view, self._clock.now)
        return answer_reply(answer, view, self._clock.now)


def _call(asked: Asked, target: Target, found: Route, served: Served, user: User, body: bytes) -> Call:
    return Call(
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


def _kind(found: Route, target: Target) -> metrics.Kind:
    return metrics.Kind(
        found.verb,
        "All" if target.query.get("dryRun") == "All" else "",
        found.group,
        found.version,
        found.plural,
        found.subresource,
        metrics.scope_of(verb=found.verb, namespace=found.namespace, name=found.name),
    )


def refusal(error: Exception, asked: Asked) -> Reply:
    """An error as the client wants to see it; what is no answer of ours is told in the log and not to the client."""
    headers = asked.headers
    if isinstance(error, RecursionError):
        error = BadRequest("the request is nested too deep")
    elif not isinstance(error, ApiError):
        log.error("request failed", error=error, method=asked.method, target=asked.target[:200], id=asked.id)
        error = InternalError(f"Internal error occurred: see the server's log, {asked.id}")
    try:
        query = read_target(asked.target).query
    except BadRequest:
        query = NO_QUERY
    return error_reply(error, headers.get("Accept", ""), query, headers.get("User-Agent", ""))
