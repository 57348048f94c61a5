"""The services of the cluster, which containers learn of by environment variables.

In: the watch of all services. Out: the list as of now. Upstream: the serviceLister of pkg/kubelet/kubelet.go.

The runtime classes of the cluster: which way of running containers a pod means by a name.

Few pods name one, and only when their sandbox is made, so each is asked for then instead of being watched.
Upstream: pkg/kubelet/runtimeclass/runtimeclass_manager.go
"""

import asyncio

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import Service
from pykubelet.api.scheme import RUNTIME_CLASSES, SERVICES
from pykubelet.client.interface import Reader
from pykubelet.client.reflector import ListerWatcher, Reflector
from pykubelet.runtimes.protocol import RuntimeFailure


class RuntimeClasses:
    """Finds the handler of a runtime class. Without a client, on a node of its own, there are none."""

    def __init__(self, *, client: Reader | None) -> None:
        self._client = client

    async def handler(self, class_name: str) -> str:
        """What the container runtime calls this class; RuntimeFailure if there is none."""
        missing = RuntimeFailure(f'runtimeclass.node.k8s.io "{class_name}" not found')
        if self._client is None:
            raise missing
        try:
            return (await self._client.get(RUNTIME_CLASSES, class_name)).handler
        except NotFound as error:
            raise missing from error
        except ApiError as error:
            raise RuntimeFailure(f"failed to lookup RuntimeClass {class_name}: {error.message}") from error


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
