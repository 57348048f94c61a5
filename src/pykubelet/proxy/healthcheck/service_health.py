"""Health check node ports: by them a load balancer finds the nodes with endpoints of a Service.

A Service of type LoadBalancer with `externalTrafficPolicy: Local` has one. It answers 200 while this node has a ready
endpoint of the Service, and 503 otherwise.

Upstream: pkg/proxy/healthcheck/service_health.go
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial

import msgspec

from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.generated.core import ObjectReference, Service
from pykubelet.client.recorder import WARNING, EventRecorder
from pykubelet.httpserver.request import HttpRequest
from pykubelet.httpserver.response import JSON, HandlerResult, HttpResponse
from pykubelet.proxy.healthcheck.proxy_health import NO_SNIFF, serving_plain
from pykubelet.proxy.serviceport import IPFamily
from pykubelet.proxy.topology import ProxyEndpoint

log = get_logger(__name__)

_RETRY_SECONDS = 10.0
ServiceKey = tuple[str, str]
"""The namespace and name of a Service."""


class LocalReadyEndpoints:
    """The number of addresses on this node with a ready endpoint, for each Service; O(1) for each change."""

    def __init__(self) -> None:
        self._ports: defaultdict[tuple[IPFamily, ServiceKey], Counter[str]] = defaultdict(Counter)

    def change(
        self, family: IPFamily, key: ServiceKey, address: str, old: ProxyEndpoint | None, new: ProxyEndpoint | None
    ) -> None:
        """Take over the change of an endpoint of one port of a Service."""
        if not (by := _counts(new) - _counts(old)):
            return
        ports = self._ports[family, key]
        ports[address] += by
        if not ports[address]:
            del ports[address]
        if not ports:
            del self._ports[family, key]

    def count(self, key: ServiceKey) -> int:
        """The number of one family: a pod with two addresses is one endpoint."""
        return max(len(self._ports.get((family, key), ())) for family in IPFamily)


def _counts(endpoint: ProxyEndpoint | None) -> bool:
    return endpoint is not None and endpoint.is_local and endpoint.is_ready


class ServiceHealthServer:
    """Listens on the health check node ports of this node's addresses."""

    def __init__(
        self, *, endpoints: LocalReadyEndpoints, is_proxy_healthy: Callable[[], bool], events: EventRecorder | None
    ) -> None:
        self._endpoints, self._is_proxy_healthy, self._events = endpoints, is_proxy_healthy, events
        self._ports: dict[ServiceKey, int] = {}
        self._addresses: tuple[str, ...] = ()
        self._changed: dict[ServiceKey, None] = {}
        self._wake = asyncio.Event()

    def put_service(self, service: Service) -> None:
        """Take over the new state of a Service."""
        self._put((service.metadata.namespace, service.metadata.name), service.spec.health_check_node_port)

    def remove_service(self, service: Service) -> None:
        """Forget a Service that was deleted."""
        self._put((service.metadata.namespace, service.metadata.name), 0)

    def put_addresses(self, addresses: tuple[str, ...]) -> None:
        """Listen on these addresses of the machine."""
        if addresses != self._addresses:
            self._addresses = addresses
            self._changed |= dict.fromkeys(self._ports)
            self._wake.set()

    def _put(self, key: ServiceKey, port: int) -> None:
        if self._ports.get(key, 0) == port:
            return
        self._ports.pop(key, None)
        if port:
            self._ports[key] = port
        self._changed[key] = None
        self._wake.set()

    async def run(self) -> None:
        """Serve the health checks until cancelled."""
        servers: dict[ServiceKey, list[asyncio.Task[None]]] = {}
        self._changed = dict.fromkeys(self._ports)
        async with asyncio.TaskGroup() as group:
            while True:
                changed, self._changed = self._changed, {}
                ending = [task for key in changed for task in servers.pop(key, ())]
                for task in ending:
                    task.cancel()
                # A Service may take over the port of another one.
                await asyncio.gather(*ending, return_exceptions=True)
                for key in changed:
                    if port := self._ports.get(key):
                        servers[key] = [
                            start_supervised(group, f"health check {one}:{port}", partial(self._serve, key, one, port))
                            for one in self._addresses
                        ]
                await self._wake.wait()
                self._wake.clear()

    async def _serve(self, key: ServiceKey, address: str, port: int) -> None:
        async def handle(_request: HttpRequest) -> HandlerResult:
            return self._answer(key)

        is_reported = False
        while True:
            try:
                async with serving_plain(address, port, handle):
                    await asyncio.Event().wait()
            except OSError as error:
                if not is_reported:
                    self._report(key, f"{address} port {port}: {error.strerror}")
                is_reported = True
            await asyncio.sleep(_RETRY_SECONDS)

    def _report(self, key: ServiceKey, problem: str) -> None:
        namespace, name = key
        log.warning("health check of a Service not served", service=f"{namespace}/{name}", reason=problem)
        if self._events is not None:
            service = ObjectReference(api_version="v1", kind="Service", namespace=namespace, name=name)
            message = f'failed to start healthcheck "{namespace}/{name}" on {problem}'
            self._events.event(service, WARNING, "FailedToStartServiceHealthcheck", message)

    def _answer(self, key: ServiceKey) -> HttpResponse:
        count, is_healthy = self._endpoints.count(key), self._is_proxy_healthy()
        body = {
            "service": {"namespace": key[0], "name": key[1]},
            "localEndpoints": count,
            "serviceProxyHealthy": is_healthy,
        }
        weight = ("X-Load-Balancing-Endpoint-Weight", str(count))
        code = 200 if count and is_healthy else 503
        return HttpResponse(code, msgspec.json.encode(body), JSON, (*NO_SNIFF, weight))
