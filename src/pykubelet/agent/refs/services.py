"""The services of the cluster, which containers learn of by environment variables.

In: the watch of all services. Out: the list as of now. Upstream: the serviceLister of pkg/kubelet/kubelet.go.
"""

import asyncio

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import Service
from pykubelet.api.typed import SERVICES
from pykubelet.kube.reflector import ListerWatcher, Reflector


class ServiceList:
    """All services; a Sink of its own reflector. Without a client, on a node of its own, there are none."""

    def __init__(self, *, client: ListerWatcher | None, clock: Clock) -> None:
        self._services: dict[str, Service] = {}
        self._listed: tuple[Service, ...] | None = () if client is None else None
        self._is_known = client is None
        self._reflector = (
            Reflector(client=client, kind=SERVICES, sink=self, clock=clock) if client is not None else None
        )

    def services(self) -> tuple[Service, ...] | None:
        """All of them; None as long as the API server has not told."""
        if self._listed is None and self._is_known:
            self._listed = tuple(self._services.values())
        return self._listed

    def added(self, service: Service, /) -> None:
        self._services[service.metadata.uid] = service
        self._listed = None

    def modified(self, service: Service, /) -> None:
        self.added(service)

    def deleted(self, service: Service, /) -> None:
        self._services.pop(service.metadata.uid, None)
        self._listed = None

    def synced(self) -> None:
        self._is_known = True

    async def run(self, ready: asyncio.Event) -> None:
        """Follow until cancelled; returns at once without a client."""
        if self._reflector is None:
            ready.set()
            return
        await self._reflector.run(ready)
