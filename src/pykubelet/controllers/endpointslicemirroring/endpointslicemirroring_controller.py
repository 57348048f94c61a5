"""The EndpointSlice mirroring controller: slices for Endpoints of Services without a selector.

A slice is written only when it changes. The tracker prevents acting on slices older than the controller's own last
write, which would create duplicates.

Upstream: pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go,
pkg/controller/endpointslicemirroring/events.go
"""

from contextlib import suppress

from pykubelet.aio.backoff import Backoff
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import Endpoints, Service
from pykubelet.api.generated.discovery import EndpointSlice
from pykubelet.api.generated.meta import DeleteOptions, Preconditions
from pykubelet.api.scheme import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from pykubelet.client.indexer import LabelIndex, ObjectIndex, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import PatchType, Writer
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.controllers.endpoint.endpoints_controller import LEADER
from pykubelet.controllers.endpointslice.endpointslice_controller import SETTLE_SECONDS, EndpointSliceTracker
from pykubelet.controllers.endpointslice.reconciler import MANAGED_BY, SERVICE_NAME, SlicePlan
from pykubelet.controllers.endpointslicemirroring.mirrored_slices import (
    CONTROLLER,
    MAX_ENDPOINTS,
    MirroredSubsets,
    mirror_patch,
    mirrored_subsets,
    plan_mirrored,
)
from pykubelet.controllers.framework.pod_control import terminating_namespace_ignored
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue

_SKIP = "endpointslice.kubernetes.io/skip-mirror"


class EndpointSliceMirroringController(KeyedController):
    """Syncs Endpoints by key, which is also the key of their Service."""

    def __init__(
        self,
        *,
        client: Writer,
        recorder: EventRecorder,
        services: ObjectIndex[Service],
        endpoints: ObjectIndex[Endpoints],
    ) -> None:
        self._client, self._recorder = client, recorder
        self._services, self._endpoints = services, endpoints
        self._slices: LabelIndex[EndpointSlice] = LabelIndex()
        self._tracker = EndpointSliceTracker()
        self.queue = WorkQueue(Backoff(first_seconds=1.0, limit_seconds=100))

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(
            SERVICES, added=self.service_changed, updated=self.service_updated, deleted=self.service_changed
        )
        informers.add_event_handler(
            ENDPOINTS, added=self.endpoints_changed, updated=self.endpoints_updated, deleted=self.endpoints_changed
        )
        informers.add_event_handler(
            ENDPOINT_SLICES, added=self.slice_added, updated=self.slice_updated, deleted=self.slice_deleted
        )

    def service_changed(self, service: Service) -> None:
        if not service.spec.selector:
            self.queue.add(key_of(service))

    def service_updated(self, old: Service, new: Service) -> None:
        if bool(old.spec.selector) != bool(new.spec.selector):
            self.queue.add(key_of(new))

    def endpoints_changed(self, endpoints: Endpoints) -> None:
        if is_mirrored(endpoints):
            self.queue.add(key_of(endpoints))

    def endpoints_updated(self, old: Endpoints, new: Endpoints) -> None:
        if is_mirrored(old) or is_mirrored(new):
            self.queue.add(key_of(new))

    def slice_added(self, new: EndpointSlice) -> None:
        """Enqueues the Endpoints of a mirrored slice that another client wrote."""
        if _is_ours(new):
            self._slices.put(new)
            if self._tracker.is_changed(_key(new), new):
                self._enqueue(new)

    def slice_updated(self, old: EndpointSlice, new: EndpointSlice) -> None:
        """Enqueues the Endpoints of both labels if another client moved the slice."""
        if _is_ours(old) and (not _is_ours(new) or _key(old) != _key(new)):
            self._slices.remove(old)
            self._enqueue(old)
        self.slice_added(new)

    def slice_deleted(self, old: EndpointSlice) -> None:
        if _is_ours(old):
            self._slices.remove(old)
            if not self._tracker.saw_deletion(_key(old), old):
                self._enqueue(old)

    async def sync(self, key: str) -> None:
        """Writes the slices of one Endpoints object; none if it is not to be mirrored."""
        endpoints, service = self._endpoints.get(key), self._services.get(key)
        namespace, _, name = key.partition("/")
        existing = self._slices.labelled(namespace, {SERVICE_NAME: name, MANAGED_BY: CONTROLLER})
        if endpoints is None or service is None or service.spec.selector or not is_mirrored(endpoints):
            self._tracker.forget(key)
            await self._apply_plan(key, SlicePlan(delete=existing))
            return
        if self._tracker.is_stale(key, existing):
            self.queue.add_after(key, SETTLE_SECONDS)
            return
        wanted = mirrored_subsets(endpoints)
        self._report_skipped(endpoints, wanted)
        plan = plan_mirrored(wanted, existing)
        if endpoints.metadata.deletion_timestamp is not None:
            plan.create = []
        await self._apply_plan(key, plan)

    async def _apply_plan(self, key: str, plan: SlicePlan) -> None:
        namespace = key.partition("/")[0]
        with terminating_namespace_ignored():
            for new in plan.create:
                self._tracker.written(key, await self._client.create(ENDPOINT_SLICES, new, namespace=namespace))
        for old, new in plan.update:
            patch, name = mirror_patch(old, new), old.metadata.name
            changed = await self._client.patch(
                ENDPOINT_SLICES, name, patch, namespace=namespace, patch_type=PatchType.MERGE
            )
            self._tracker.written(key, changed)
        for old in plan.delete:
            options = DeleteOptions(preconditions=Preconditions(uid=old.metadata.uid))
            with suppress(NotFound):
                await self._client.delete(ENDPOINT_SLICES, old.metadata.name, namespace=namespace, options=options)
            self._tracker.deletion_sent(key, old)

    def _report_skipped(self, endpoints: Endpoints, wanted: MirroredSubsets) -> None:
        """Records events about addresses that are not mirrored."""
        if wanted.invalid:
            text = f"Skipped {wanted.invalid} invalid IP addresses when mirroring to EndpointSlices"
            self._recorder.event(reference_to(endpoints), WARNING, "InvalidIPAddress", text)
        if wanted.skipped > wanted.invalid:
            text = f"A max of {MAX_ENDPOINTS} addresses can be mirrored to EndpointSlices per Endpoints subset."
            text += f" {wanted.skipped} addresses were skipped"
            self._recorder.event(reference_to(endpoints), WARNING, "TooManyAddressesToMirror", text)

    def _enqueue(self, changed: EndpointSlice) -> None:
        self.queue.add_after(_key(changed), SETTLE_SECONDS)


def is_mirrored(endpoints: Endpoints) -> bool:
    """Whether slices may be made of these Endpoints: they do not refuse it and are no leader election lock."""
    meta = endpoints.metadata
    return meta.labels.get(_SKIP) != "true" and LEADER not in meta.annotations


def _is_ours(one: EndpointSlice) -> bool:
    labels = one.metadata.labels
    return labels.get(MANAGED_BY) == CONTROLLER and bool(labels.get(SERVICE_NAME))


def _key(one: EndpointSlice) -> str:
    return f"{one.metadata.namespace}/{one.metadata.labels[SERVICE_NAME]}"
