"""The ResourceQuota controller: copies a quota's limits to its status, and counts what is used.

Admission charges what is created; this controller counts everything anew when something has gone, when a quota changes,
and every five minutes. It reads the quota, then the objects, then writes the status on condition that the quota has not
changed since: a charge in between makes it count again.

Upstream: pkg/controller/resourcequota/resource_quota_controller.go
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import Conflict, NotFound
from pykubelet.api.generated.core import PersistentVolumeClaim, Pod, Service
from pykubelet.api.pods import is_terminal
from pykubelet.api.quantity import Quantity
from pykubelet.api.schema import RESOURCE_QUOTAS, Resource
from pykubelet.api.scheme import PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES, TypedKind, as_documents, metadata_of
from pykubelet.api.serializer import Document
from pykubelet.client.informers import Informers
from pykubelet.client.interface import ControllerClient, PatchType
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue
from pykubelet.controllers.resourcequota.resource_quota_monitor import QuotaMonitors
from pykubelet.kinds.quota.amounts import ZERO, Amounts, added, masked, read_amounts, written_amounts
from pykubelet.kinds.quota.evaluators import QuotaEvaluator, evaluator_of, resource_of

PAGE_SIZE = 200
AGAIN_SECONDS = 0.05
"""The delay before a quota is counted again that was charged while it was counted."""
_QUOTAS = as_documents(RESOURCE_QUOTAS)
_PLAIN: Document = {"metadata": {}}
"""An object of a kind that is only counted."""


class ResourceQuotaController(KeyedController):
    """Syncs quotas by key."""

    def __init__(self, *, client: ControllerClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._monitors = QuotaMonitors(
            client=client, clock=clock, recalculate=self.recalculate, replenish=self.replenish
        )
        self._sizes: dict[str, int] = {}
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(PODS, updated=self.pod_updated, deleted=self.pod_deleted)
        informers.add_event_handler(SERVICES, updated=self.service_updated, deleted=self.service_deleted)
        informers.add_event_handler(PERSISTENT_VOLUME_CLAIMS, updated=self.claim_updated, deleted=self.claim_deleted)

    async def run(self, ready: asyncio.Event) -> None:
        """Follows the quotas and what they count until cancelled."""
        await self._monitors.run(ready)

    def recalculate(self, namespace: str, name: str) -> None:
        self.queue.add(f"{namespace}/{name}")

    def replenish(self, resource: str, namespace: str) -> None:
        """Recalculates the quotas that count a kind; those of large namespaces not for each object that goes."""
        for found in self._monitors.counting(resource, namespace):
            key = "/".join(found)
            self.queue.add_batched(key, self._sizes.get(key, 0))

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Replenishes when a pod ends, enters another scope or has been resized."""
        has_ended = is_terminal(new.status.phase) and not is_terminal(old.status.phase)
        has_moved = (old.spec.active_deadline_seconds is None) != (new.spec.active_deadline_seconds is None)
        if has_ended or has_moved or _actual_resources(old) != _actual_resources(new):
            self.replenish("pods", new.metadata.namespace)

    def pod_deleted(self, pod: Pod) -> None:
        self.replenish("pods", pod.metadata.namespace)

    def service_updated(self, old: Service, new: Service) -> None:
        if (old.spec.type, len(old.spec.ports)) != (new.spec.type, len(new.spec.ports)):
            self.replenish("services", new.metadata.namespace)

    def service_deleted(self, service: Service) -> None:
        self.replenish("services", service.metadata.namespace)

    def claim_updated(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
        if _counted_status(old) != _counted_status(new):
            self.replenish("persistentvolumeclaims", new.metadata.namespace)

    def claim_deleted(self, claim: PersistentVolumeClaim) -> None:
        self.replenish("persistentvolumeclaims", claim.metadata.namespace)

    async def sync(self, key: str) -> None:
        """Writes the limits and the usage of one quota to its status, if they differ."""
        try:
            await self._sync(key)
        except NotFound:
            self._sizes.pop(key, None)
        except Conflict:
            self.queue.add_after(key, AGAIN_SECONDS)

    async def _sync(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        quota = await self._client.get(_QUOTAS, name, namespace=namespace)
        hard, status = quota["spec"].get("hard") or {}, quota.get("status") or {}
        known = read_amounts(status.get("used"))
        used = {**masked(known, hard.keys()), **await self._usage(quota, key)}
        if status.get("hard", {}) == hard and known == used and status.get("used") is not None:
            return
        removed = {side: dict.fromkeys((status.get(side) or {}).keys() - hard.keys()) for side in ("hard", "used")}
        changed = {"hard": {**removed["hard"], **hard}, "used": {**removed["used"], **written_amounts(used)}}
        metadata = {field: quota["metadata"][field] for field in ("uid", "resourceVersion")}
        body = {"metadata": metadata, "status": changed}
        merge = PatchType.MERGE
        await self._client.patch(_QUOTAS, name, body, namespace=namespace, patch_type=merge, subresource="status")

    async def _usage(self, quota: Document, key: str) -> Amounts:
        """What the objects of the namespace use of a quota; nothing about kinds that are not served."""
        hard, usage = quota["spec"].get("hard") or {}, dict[str, Quantity]()
        self._sizes[key] = 0
        for resource in {resource_of(name) for name in hard} - {""}:
            evaluator, served = evaluator_of(resource), await self._monitors.served(resource)
            if evaluator is not None and served is not None:
                total = dict.fromkeys(evaluator.covered(hard), ZERO)
                # A definition may be gone since discovery.
                with suppress(NotFound):
                    async for page in self._pages(evaluator, served, quota["metadata"]["namespace"]):
                        self._sizes[key] += len(page)
                        total = added(total, masked(_sum(evaluator, page, quota, self._clock.now()), total.keys()))
                        # An API server in this process answers without a pause.
                        await asyncio.sleep(0)
                    usage |= total
        return usage

    async def _pages(
        self, evaluator: QuotaEvaluator, served: Resource, namespace: str
    ) -> AsyncIterator[Sequence[Document]]:
        """The objects of a kind in a namespace, consistently; of a kind that is only counted, just so many."""
        kind: TypedKind[Any] = (metadata_of if evaluator.is_counter else as_documents)(served)
        token = ""
        while True:
            page = await self._client.list(kind, namespace=namespace, limit=PAGE_SIZE, continue_token=token)
            yield [_PLAIN] * len(page.items) if evaluator.is_counter else page.items
            token = page.continue_token
            if not token:
                return


def _sum(evaluator: QuotaEvaluator, documents: Iterable[Document], quota: Document, now: datetime) -> Amounts:
    """What some objects use of a quota together."""
    usage: Amounts = {}
    for document in documents:
        if evaluator.is_in_scopes(quota, document):
            usage = added(usage, evaluator.usage(document, now))
    return usage


def _actual_resources(pod: Pod) -> Sequence[object]:
    """The resources that the containers of a pod have."""
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return [(status.resources, status.allocated_resources) for status in statuses]


def _counted_status(claim: PersistentVolumeClaim) -> Sequence[object]:
    """What a quota counts that the status of a claim says: its storage and its volume attributes classes."""
    status = claim.status
    target = status.modify_volume_status.target_volume_attributes_class_name if status.modify_volume_status else ""
    classes = (claim.spec.volume_attributes_class_name, status.current_volume_attributes_class_name, target)
    return (status.allocated_resources.get("storage"), *classes)
