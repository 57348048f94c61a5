"""The health of the proxy: whether it writes rules in time, and whether its node stays in the cluster.

`/healthz` also fails for a node that is being deleted, so that load balancers stop using it; `/livez` does not, since a
restart would not help.

Upstream: pkg/proxy/healthcheck/proxy_health.go
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Node
from pykubelet.api.times import format_micro_time
from pykubelet.httpserver.connections import ConnectionLimits
from pykubelet.httpserver.listener import listen
from pykubelet.httpserver.request import HttpRequest, split_target
from pykubelet.httpserver.response import JSON, NOT_FOUND, HandlerResult, HttpResponse, text_response
from pykubelet.httpserver.server import HttpServer, ServerLimits

_TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
# kube-proxy's: twice its longest time between two syncs.
_LATE_SECONDS = 60.0
NO_SNIFF = (("X-Content-Type-Options", "nosniff"),)
_LIMITS = ServerLimits(
    line_bytes=8 * 1024,
    field_bytes=8 * 1024,
    headers=64,
    idle_seconds=30.0,
    stop_seconds=1.0,
    stalled_seconds=10.0,
    connections=ConnectionLimits(total=64, unauthenticated=64, waiting=64, head_bytes=16 * 1024),
)

Handler = Callable[[HttpRequest], Awaitable[HandlerResult]]


class ProxyHealth:
    """What is known of one proxier: its last success, and since when a change waits to be written."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._updated_at = clock.now()
        self._pending_since: float | None = None
        self._is_node_eligible = True

    def queued(self) -> None:
        """Report a change that is not yet written."""
        if self._pending_since is None:
            self._pending_since = self._clock.monotonic()

    def updated(self) -> None:
        """Report that all changes are written."""
        self._pending_since = None
        self._updated_at = self._clock.now()

    def put_node(self, node: Node | None) -> None:
        """Take over the state of the node; None if it was deleted."""
        self._is_node_eligible = (
            node is not None
            and node.metadata.deletion_timestamp is None
            and all(taint.key != _TO_BE_DELETED for taint in node.spec.taints)
        )

    @property
    def is_healthy(self) -> bool:
        """Whether no change has waited for too long."""
        return self._pending_since is None or self._clock.monotonic() - self._pending_since < _LATE_SECONDS

    async def handle(self, request: HttpRequest) -> HandlerResult:
        """Answer a request for `/healthz` or `/livez`."""
        path = split_target(request.target)[0]
        if path not in ("/healthz", "/livez"):
            return NOT_FOUND
        is_good, now = self.is_healthy, self._clock.now()
        facts: dict[str, object] = {}
        if path == "/healthz":
            is_good = is_good and self._is_node_eligible
            facts["nodeEligible"] = self._is_node_eligible
        # As upstream: the time of a healthy proxy is recent, whether or not there was something to write.
        last = now if is_good else self._updated_at
        times = {"lastUpdated": format_micro_time(last), "currentTime": format_micro_time(now)}
        return HttpResponse(200 if is_good else 503, msgspec.json.encode({**times, **facts}), JSON, NO_SNIFF)


@asynccontextmanager
async def serving_plain(address: str, port: int, handler: Handler) -> AsyncIterator[int]:
    """Serve HTTP without TLS for the duration of the context; yields the port. OSError if it cannot listen."""
    server = HttpServer(handler, limits=_LIMITS, malformed=text_response(400, "bad request\n"))
    listener = listen(address, port)
    try:
        async with server.serving(listener, None):
            yield listener.getsockname()[1]
    finally:
        listener.close()
