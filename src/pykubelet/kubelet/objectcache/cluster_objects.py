"""Services for the environment of containers, and runtime classes of sandboxes.

Services are watched. A runtime class is read when a sandbox is created, because few pods name one.

Upstream: pkg/kubelet/kubelet.go, pkg/kubelet/runtimeclass/runtimeclass_manager.go
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
    """Finds the handler of a runtime class. Without a client, on a standalone node, there are none."""

    def __init__(self, *, client: Reader | None) -> None:
        self._client = client

    async def handler(self, class_name: str) -> str:
        """The container runtime's name for this class; raises RuntimeFailure if the class does not exist."""
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
    """All services of the cluster, kept current by a reflector. Without a client, there are none."""

    def __init__(self, *, client: ListerWatcher | None, clock: Clock) -> None:
        self._services: dict[str, Service] = {}
        self._listed: tuple[Service, ...] | None = () if client is None else None
        self._is_known = client is None
        self._reflector = (
            Reflector(client=client, kind=SERVICES, sink=self, clock=clock) if client is not None else None
        )

    def services(self) -> tuple[Service, ...] | None:
        """All services; None until the API server has sent them."""
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
        """Watch until cancelled; returns at once without a client."""
        if self._reflector is None:
            ready.set()
            return
        await self._reflector.run(ready)
