"""The endpoints controller: the pods of every service, in one Endpoints object of its name.

In: changes of services, pods and Endpoints. Out: Endpoints, written only where they change, and deleted with their
service. Slices have taken their place; programs that still read Endpoints get what they had.
Upstream: pkg/controller/endpoint/endpoints_controller.go.
"""

from contextlib import suppress
from typing import Any, Protocol, TypeVar

from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import Endpoints, Service
from pykubelet.api.typed import ENDPOINTS, Kind
from pykubelet.controllers.endpoints.pod_facts import gets_endpoints
from pykubelet.controllers.endpoints.service_pods import ServicePods
from pykubelet.controllers.endpoints.subsets import endpoints_for, endpoints_patch
from pykubelet.controllers.endpoints.trigger_times import TriggerTimes
from pykubelet.controllers.informers import Informers
from pykubelet.controllers.object_index import ObjectIndex, key_of
from pykubelet.controllers.pod_control import NAMESPACE_TERMINATING
from pykubelet.controllers.work_queue import WorkQueue
from pykubelet.kube.client import PatchType
from pykubelet.kube.recorder import WARNING, EventRecorder, reference_to

T = TypeVar("T")

_LEADER = "control-plane.alpha.kubernetes.io/leader"
"""Endpoints with this annotation are somebody's lock, and need no service."""


class EndpointsClient(Protocol):
    """What is needed of an API server."""

    async def create(self, kind: Kind[T], body: T, *, namespace: str = "") -> T:
        """Create an object."""

    async def patch(
        self, kind: Kind[T], name: str, body: Any, *, namespace: str = "", patch_type: PatchType = PatchType.STRATEGIC
    ) -> T:
        """Change an object."""

    async def delete(self, kind: Kind[T], name: str, *, namespace: str = "") -> None:
        """Delete an object; NotFound if there is none."""


class EndpointsController:
    """Syncs services by key."""

    def __init__(
        self,
        *,
        client: EndpointsClient,
        recorder: EventRecorder,
        services: ObjectIndex[Service],
        service_pods: ServicePods,
        endpoints: ObjectIndex[Endpoints],
    ) -> None:
        self._client, self._recorder = client, recorder
        self._services, self._service_pods, self._endpoints = services, service_pods, endpoints
        self._trigger_times = TriggerTimes()
        self._found_at_start: set[str] | None = set()
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        """Hear of every change of Endpoints, and of what `service_pods` hears of services and pods."""
        self._service_pods.tell(self.queue.add)
        informers.tell(
            ENDPOINTS,
            added=self.endpoints_added,
            updated=lambda _old, _new: None,
            deleted=lambda gone: self.queue.add(key_of(gone)),
        )

    def endpoints_added(self, found: Endpoints) -> None:
        """Endpoints are there. Those from before we began may be left over from a service that is gone."""
        if self._found_at_start is not None and _LEADER not in found.metadata.annotations:
            self._found_at_start.add(key_of(found))

    async def process_next(self) -> None:
        """Sync the next service of the queue; a failure puts it back, later."""
        if self._found_at_start is not None:
            for key in sorted(self._found_at_start):
                self.queue.add(key)
            self._found_at_start = None
        await self.queue.process_next(self.sync)

    async def sync(self, key: str) -> None:
        """Bring the Endpoints of one service up to date."""
        service = self._services.get(key)
        if service is None:
            self._trigger_times.forget(key)
            namespace, _, name = key.partition("/")
            with suppress(NotFound):
                await self._client.delete(ENDPOINTS, name, namespace=namespace)
            return
        if not gets_endpoints(service):
            return
        pods = self._service_pods.pods_of(service)
        new = endpoints_for(service, pods, self._trigger_times.of(service, pods))
        old = self._endpoints.get(key)
        if old is None:
            await self._create(new)
        elif patch := endpoints_patch(old, new):
            await self._change(old, patch)

    async def _create(self, new: Endpoints) -> None:
        try:
            await self._client.create(ENDPOINTS, new, namespace=new.metadata.namespace)
        except ApiError as error:
            if error.has_cause(NAMESPACE_TERMINATING):
                return
            text = f"Failed to create endpoint for service {key_of(new)}: {error}"
            self._recorder.event(reference_to(new), WARNING, "FailedToCreateEndpoint", text)
            raise

    async def _change(self, old: Endpoints, patch: dict[str, Any]) -> None:
        meta = old.metadata
        try:
            await self._client.patch(ENDPOINTS, meta.name, patch, namespace=meta.namespace, patch_type=PatchType.MERGE)
        except ApiError as error:
            text = f"Failed to update endpoint {key_of(old)}: {error}"
            self._recorder.event(reference_to(old), WARNING, "FailedToUpdateEndpoint", text)
            raise
