"""Follows the quotas of all namespaces, and the kinds that they count, for deletions that free quota.

A kind is followed only while a quota counts it. Pods, services and claims are not followed here: their informers exist
anyway. Discovery runs while a quota counts other kinds, as custom resources come and go.

Upstream: pkg/controller/resourcequota/resource_quota_monitor.go, pkg/quota/v1/install/update_filter.go
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import start_supervised
from pykubelet.api.errors import ApiError
from pykubelet.api.schema import RESOURCE_QUOTAS, Resource
from pykubelet.api.scheme import PartialObjectMetadata, as_documents, metadata_of
from pykubelet.api.serializer import Document
from pykubelet.client.interface import ControllerClient
from pykubelet.client.reflector import Reflector
from pykubelet.kinds.quota.evaluators import resource_of

log = get_logger(__name__)
DISCOVERY_SECONDS = 30.0
RESYNC_SECONDS = 300.0
"""How often all quotas are recalculated."""
INFORMED = frozenset({"pods", "services", "persistentvolumeclaims"})
"""The kinds that the controller gets from the shared informers."""
_QUOTABLE = frozenset({"create", "list", "watch", "delete"})
Replenish = Callable[[str, str], None]
"""Gets a group resource of which objects are gone, and their namespace; empty for any."""


class _KindMonitor:
    """The reflector's sink for the objects of one counted kind."""

    def __init__(self, resource: str, replenish: Replenish) -> None:
        self._resource, self._replenish = resource, replenish

    def added(self, _obj: PartialObjectMetadata) -> None:
        """Does nothing: admission has charged it."""

    modified = added

    def deleted(self, obj: PartialObjectMetadata) -> None:
        self._replenish(self._resource, obj.metadata.namespace)

    def synced(self) -> None:
        """What was deleted before the list is not reported one by one."""
        self._replenish(self._resource, "")


class QuotaMonitors:
    """The quotas by namespace, each with the group resources that it counts, and a reflector for each of these."""

    def __init__(
        self, *, client: ControllerClient, clock: Clock, recalculate: Callable[[str, str], None], replenish: Replenish
    ) -> None:
        """`recalculate` gets namespace and name of a quota that is new, or whose status does not say what its spec does."""
        self._client, self._clock = client, clock
        self._recalculate, self._replenish = recalculate, replenish
        self._quotas: dict[str, dict[str, frozenset[str]]] = {}
        self._served: dict[str, Resource] = {}
        self._running: dict[Resource, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    async def run(self, ready: asyncio.Event) -> None:
        """Follows quotas and what they count until cancelled; sets `ready` once all quotas are known."""
        kind = as_documents(RESOURCE_QUOTAS)
        quotas = Reflector(client=self._client, kind=kind, sink=self, clock=self._clock)
        async with asyncio.TaskGroup() as group:
            start_supervised(group, "resource quotas", lambda: quotas.run(ready))
            start_supervised(group, "resync of resource quotas", self._resync)
            while True:
                await self._sync_monitors(group)
                with suppress(TimeoutError):
                    async with asyncio.timeout(DISCOVERY_SECONDS if self._counted() else None):
                        await self._changed.wait()

    def added(self, quota: Document) -> None:
        metadata, hard = quota["metadata"], quota["spec"].get("hard") or {}
        counted = frozenset(map(resource_of, hard)) - {""}
        quotas = self._quotas.setdefault(metadata["namespace"], {})
        if quotas.get(metadata["name"]) != counted:
            quotas[metadata["name"]] = counted
            self._changed.set()
        self._recalculate(metadata["namespace"], metadata["name"])

    def modified(self, quota: Document) -> None:
        """Takes over a changed quota. What admission charges is no reason to recalculate it."""
        status, hard = quota.get("status") or {}, quota["spec"].get("hard") or {}
        missing = {resource_of(name) for name in hard.keys() - (status.get("used") or {}).keys()}
        if status.get("hard", {}) != hard or missing & (self._served.keys() | INFORMED):
            self.added(quota)

    def deleted(self, quota: Document) -> None:
        namespace = quota["metadata"]["namespace"]
        self._quotas[namespace].pop(quota["metadata"]["name"])
        if not self._quotas[namespace]:
            del self._quotas[namespace]
        self._changed.set()
        # Finds that it is gone, and forgets it.
        self._recalculate(namespace, quota["metadata"]["name"])

    def synced(self) -> None:
        """Does nothing: each quota was reported."""

    def counting(self, resource: str, namespace: str) -> Iterable[tuple[str, str]]:
        """The quotas, as namespace and name, that count a group resource, in one namespace or (if empty) in any."""
        spaces = (namespace,) if namespace else tuple(self._quotas)
        for space in spaces:
            for name, counted in self._quotas.get(space, {}).items():
                if resource in counted:
                    yield space, name

    async def served(self, resource: str) -> Resource | None:
        """The resource as the server serves it; None if it does not."""
        if resource not in self._served:
            await self._discover()
        return self._served.get(resource)

    def _counted(self) -> frozenset[str]:
        """The group resources to follow."""
        counted = (each for quotas in self._quotas.values() for each in quotas.values())
        return frozenset[str]().union(*counted) - INFORMED

    async def _discover(self) -> None:
        found = await self._client.discover(_QUOTABLE)
        served: dict[str, Resource] = {}
        for resource in found.resources:
            if resource.namespaced:
                served.setdefault(resource.group_resource, resource)
        self._served = served

    async def _sync_monitors(self, group: asyncio.TaskGroup) -> None:
        """Starts and stops reflectors, so that each served kind that a quota counts has one."""
        self._changed.clear()
        counted = self._counted()
        if counted:
            try:
                await self._discover()
            except ApiError as error:
                log.warning("discovery failed, using the previously known kinds", cause=str(error))
        wanted = {self._served[each] for each in counted if each in self._served}
        for resource in self._running.keys() - wanted:
            self._running.pop(resource).cancel()
        for resource in wanted - self._running.keys():
            sink = _KindMonitor(resource.group_resource, self._replenish)
            reflector = Reflector(client=self._client, kind=metadata_of(resource), sink=sink, clock=self._clock)
            name = f"quota monitor of {resource.group_resource}"
            self._running[resource] = start_supervised(group, name, partial(reflector.run, asyncio.Event()))

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            for namespace, quotas in self._quotas.items():
                for name in quotas:
                    self._recalculate(namespace, name)
