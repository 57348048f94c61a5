"""The EndpointSlice controller: maintains the slices of every service with a selector.

Slices are written only when they change; slices of other managers are ignored. The tracker prevents acting on slices
older than the controller's own last write, which would create duplicates.

Upstream: pkg/controller/endpointslice/endpointslice_controller.go,
staging/src/k8s.io/endpointslice/util/endpointslice_tracker.go
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from pykubelet.aio.backoff import Backoff
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import Node, Pod, Service
from pykubelet.api.generated.discovery import EndpointSlice
from pykubelet.api.generated.meta import DeleteOptions, Preconditions
from pykubelet.api.scheme import ENDPOINT_SLICES
from pykubelet.client.indexer import LabelIndex, ObjectIndex, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import PatchType, Writer
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.controllers.endpointslice.reconciler import (
    CONTROLLER,
    MANAGED_BY,
    MAX_ENDPOINTS,
    SERVICE_NAME,
    DesiredEndpoint,
    SlicePlan,
    endpoint_for,
    plan_slices,
    ports_for,
    slice_patch,
)
from pykubelet.controllers.endpointslice.service_pods import (
    ANNOTATION,
    ServicePods,
    TriggerTimeTracker,
    families_of,
    gets_endpoints,
    has_endpoint,
)
from pykubelet.controllers.framework.pod_control import NAMESPACE_TERMINATING
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue

_DELETED = -1
RETRY = Backoff(first_seconds=1.0, limit_seconds=1000)
SETTLE_SECONDS = 1.0
"""The delay after a change of a slice, since several often change together."""


class MissingNodeError(Exception):
    """A pod's node is not in the cache, so its zone is unknown; the pod is skipped for now."""


class EndpointSliceController(KeyedController):
    """Syncs services by key."""

    def __init__(
        self,
        *,
        client: Writer,
        recorder: EventRecorder,
        services: ObjectIndex[Service],
        service_pods: ServicePods,
        nodes: ObjectIndex[Node],
        max_endpoints: int = MAX_ENDPOINTS,
    ) -> None:
        self._client, self._recorder, self._max_endpoints = client, recorder, max_endpoints
        self._services, self._service_pods, self._nodes = services, service_pods, nodes
        self._slices: LabelIndex[EndpointSlice] = LabelIndex()
        self._tracker, self._trigger_times = EndpointSliceTracker(), TriggerTimeTracker()
        self.queue = WorkQueue(RETRY)

    def listen(self, informers: Informers) -> None:
        """Subscribes to changes of slices, and to the services reported by `service_pods`."""
        self._service_pods.add_listener(self.queue.add)
        informers.add_event_handler(
            ENDPOINT_SLICES, added=self.slice_added, updated=self.slice_updated, deleted=self.slice_deleted
        )

    def slice_added(self, new: EndpointSlice) -> None:
        """Enqueues the service of a slice this controller did not write."""
        self._slices.put(new)
        if _is_ours(new) and self._tracker.is_changed(_service_key(new), new):
            self._enqueue(new)

    def slice_updated(self, old: EndpointSlice, new: EndpointSlice) -> None:
        """Enqueues the service of a slice changed by another client, or both services if its labels moved it."""
        self._slices.put(new)
        if _service_key(old) != _service_key(new) or _is_ours(old) != _is_ours(new):
            self._enqueue(old)
            self._enqueue(new)
        elif _is_ours(new) and self._tracker.is_changed(_service_key(new), new):
            self._enqueue(new)

    def slice_deleted(self, old: EndpointSlice) -> None:
        """Enqueues the service of a slice deleted by another client."""
        self._slices.remove(old)
        if _is_ours(old) and not self._tracker.saw_deletion(_service_key(old), old):
            self._enqueue(old)

    async def sync(self, key: str) -> None:
        service = self._services.get(key)
        if service is None:
            # The garbage collector deletes its slices.
            self._tracker.forget(key)
            self._trigger_times.forget(key)
            return
        if not gets_endpoints(service):
            return
        labels = {SERVICE_NAME: service.metadata.name, MANAGED_BY: CONTROLLER}
        found = self._slices.labelled(service.metadata.namespace, labels)
        existing = [one for one in found if one.metadata.deletion_timestamp is None]
        if self._tracker.is_stale(key, existing):
            self.queue.add_after(key, SETTLE_SECONDS)
            return
        pods = self._service_pods.pods_of(service)
        trigger_time = self._trigger_times.of(service, pods)
        pods, missing = self._with_known_nodes(
            service, [pod for pod in pods if has_endpoint(pod, while_terminating=True)]
        )
        wanted = {family: [self._desired(pod, service, family) for pod in pods] for family in families_of(service)}
        plan = plan_slices(service, existing, wanted, max_endpoints=self._max_endpoints)
        try:
            await self._apply_plan(key, service, plan, trigger_time)
            _check(missing)
        except (ApiError, MissingNodeError) as error:
            text = f"Error updating Endpoint Slices for Service {key}: {error}"
            self._recorder.event(reference_to(service), WARNING, "FailedToUpdateEndpointSlices", text)
            raise

    def _with_known_nodes(self, service: Service, pods: Sequence[Pod]) -> tuple[list[Pod], list[str]]:
        """The pods whose node is known or not needed, and a message for each of the others."""
        placed: list[Pod] = []
        missing: list[str] = []
        for pod in pods:
            if service.spec.publish_not_ready_addresses or self._node_of(pod) is not None:
                placed.append(pod)
            else:
                what = f"skipping Pod {pod.metadata.name} for Service {key_of(service)}"
                missing.append(f"{what}: Node {pod.spec.node_name} Not Found")
        return placed, missing

    def _desired(self, pod: Pod, service: Service, family: str) -> DesiredEndpoint:
        return DesiredEndpoint(ports_for(pod, service), endpoint_for(pod, self._node_of(pod), service, family))

    def _node_of(self, pod: Pod) -> Node | None:
        return self._nodes.get(f"/{pod.spec.node_name}")

    async def _apply_plan(self, key: str, service: Service, plan: SlicePlan, trigger_time: str | None) -> None:
        namespace = service.metadata.namespace
        annotations = {ANNOTATION: trigger_time} if trigger_time else {}
        for new in plan.create:
            body = replace(new, metadata=replace(new.metadata, annotations=annotations))
            try:
                made = await self._client.create(ENDPOINT_SLICES, body, namespace=namespace)
            except ApiError as error:
                if error.has_cause(NAMESPACE_TERMINATING):
                    return
                raise
            self._tracker.written(key, made)
        for old, new in plan.update:
            patch = slice_patch(old, new, trigger_time)
            made = await self._client.patch(
                ENDPOINT_SLICES, old.metadata.name, patch, namespace=namespace, patch_type=PatchType.MERGE
            )
            self._tracker.written(key, made)
        for old in plan.delete:
            options = DeleteOptions(preconditions=Preconditions(uid=old.metadata.uid))
            with suppress(NotFound):
                await self._client.delete(ENDPOINT_SLICES, old.metadata.name, namespace=namespace, options=options)
            self._tracker.deletion_sent(key, old)

    def _enqueue(self, changed: EndpointSlice) -> None:
        if changed.metadata.labels.get(SERVICE_NAME):
            self.queue.add_after(_service_key(changed), SETTLE_SECONDS)


class EndpointSliceTracker:
    """The generation of each slice this controller wrote, by service and UID."""

    def __init__(self) -> None:
        self._generations: dict[str, dict[str, int]] = {}

    def written(self, service_key: str, written: EndpointSlice) -> None:
        self._generations.setdefault(service_key, {})[written.metadata.uid] = written.metadata.generation

    def deletion_sent(self, service_key: str, deleted: EndpointSlice) -> None:
        self._generations.setdefault(service_key, {})[deleted.metadata.uid] = _DELETED

    def is_changed(self, service_key: str, seen: EndpointSlice) -> bool:
        """Whether a seen slice differs from what this controller wrote."""
        known = self._generations.get(service_key, {}).get(seen.metadata.uid)
        return known is None or seen.metadata.generation > known

    def saw_deletion(self, service_key: str, gone: EndpointSlice) -> bool:
        """Records a deletion; returns whether this controller caused it or did not track the slice."""
        generations = self._generations.get(service_key, {})
        known = generations.pop(gone.metadata.uid, _DELETED)
        if not generations:
            self._generations.pop(service_key, None)
        return known == _DELETED

    def is_stale(self, service_key: str, slices: Iterable[EndpointSlice]) -> bool:
        """Whether these slices are older than what was written."""
        known = self._generations.get(service_key, {})
        seen = {one.metadata.uid: one.metadata.generation for one in slices}
        return any(
            (uid in seen) if generation == _DELETED else generation > seen.get(uid, _DELETED)
            for uid, generation in known.items()
        )

    def forget(self, service_key: str) -> None:
        self._generations.pop(service_key, None)


def _check(missing: Sequence[str]) -> None:
    if missing:
        raise MissingNodeError(", ".join(missing))


def _is_ours(one: EndpointSlice) -> bool:
    return one.metadata.labels.get(MANAGED_BY) == CONTROLLER


def _service_key(one: EndpointSlice) -> str:
    return f"{one.metadata.namespace}/{one.metadata.labels.get(SERVICE_NAME, '')}"
