"""Keeps an IPAddress for each cluster IP of a Service, and the default ServiceCIDR.

Services are the truth: an address is taken once a Service has it. Upstream writes the IPAddress first and repairs the rest
every few minutes; here each object is restored as soon as it is missing, wrong or left over, so creating a Service waits for
nothing.

Upstream: pkg/registry/core/service/ipallocator/ipallocator.go,
pkg/registry/core/service/ipallocator/controller/repairip.go,
pkg/controlplane/controller/defaultservicecidr/default_servicecidr_controller.go
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from ipaddress import IPv4Network

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.queues import KeyedQueue
from pykubelet.api.errors import AlreadyExists, ApiError, NotFound
from pykubelet.api.schema import IP_ADDRESSES, SERVICE_CIDRS, SERVICES, Resource
from pykubelet.api.serializer import Document, encode
from pykubelet.api.times import format_time
from pykubelet.apiserver.namespaces import APISERVER
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.apiserver.request import ApiRequest, ApiResponse, Verb, WatchStream
from pykubelet.apiserver.storage.interfaces import Store, StoreChange, StoreKey
from pykubelet.kinds.service.validation import NO_ADDRESS, family_of

log = get_logger(__name__)

MANAGED_BY, CONTROLLER = "ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io"
FAMILY = "ipaddress.kubernetes.io/ip-family"
DEFAULT = "kubernetes"
"""The name of the ServiceCIDR with the cluster's own range."""
_RETRY_SECONDS = 5.0


class IpAddressRepair:
    """Writes the objects. Its queue has addresses, and the empty text for the default ServiceCIDR."""

    def __init__(
        self,
        *,
        store: Store,
        registry: ServedKinds,
        handle: Callable[[ApiRequest], Awaitable[ApiResponse | WatchStream]],
        cluster_ips: IPv4Network,
        clock: Clock,
    ) -> None:
        self._store, self._registry, self._handle = store, registry, handle
        self._cluster_ips, self._clock = cluster_ips, clock
        self._owners: dict[str, StoreKey] = {}
        self._queue: KeyedQueue[str, None] = KeyedQueue()

    async def run(self, ready: asyncio.Event) -> None:
        """Keeps the objects until cancelled."""
        for resource in (SERVICES, IP_ADDRESSES, SERVICE_CIDRS):
            self._store.listen(resource.group_resource, self._on_change)
        for entry in self._store.list(SERVICES.group_resource).entries:
            self._set_addresses(entry.key, set(), _addresses(entry.document))
        for entry in self._store.list(IP_ADDRESSES.group_resource).entries:
            self._queue.put(entry.key.name, None)
        self._queue.put("", None)
        ready.set()
        while True:
            name, _ = await self._queue.get()
            try:
                await (self._sync_address(name) if name else self._sync_default())
            except ApiError as error:
                log.warning("the address of a service is not recorded", address=name, cause=error.message)
                self._queue.put_later(name, None, _RETRY_SECONDS)
            finally:
                self._queue.done(name)

    def _on_change(self, change: StoreChange) -> None:
        collection, name = change.key.collection, change.key.name
        if collection == IP_ADDRESSES.group_resource:
            self._queue.put(name, None)
        elif collection == SERVICE_CIDRS.group_resource:
            if name == DEFAULT:
                self._queue.put("", None)
        else:
            before = _addresses(change.before_document)
            self._set_addresses(change.key, before, _addresses(change.document if change.after is not None else None))

    def _set_addresses(self, service: StoreKey, before: set[str], after: set[str]) -> None:
        for address in before - after:
            if self._owners.get(address) == service:
                del self._owners[address]
                self._queue.put(address, None)
        for address in after - before:
            self._owners[address] = service
            self._queue.put(address, None)

    async def _sync_address(self, address: str) -> None:
        """Creates, replaces or deletes the IPAddress of one address; those of other owners stay."""
        service, found = self._owners.get(address), self._newest(IP_ADDRESSES, address)
        wanted = None if service is None else _parent(service)
        if found is not None:
            is_ours = found["metadata"].get("labels", {}).get(MANAGED_BY) == CONTROLLER
            if not is_ours or found["spec"].get("parentRef") == wanted:
                return
            with suppress(NotFound):
                await self._ask("delete", IP_ADDRESSES, address)
        if wanted is not None:
            labels = {FAMILY: family_of(address), MANAGED_BY: CONTROLLER}
            body = {"metadata": {"name": address, "labels": labels}, "spec": {"parentRef": wanted}}
            try:
                await self._ask("create", IP_ADDRESSES, address, body)
            except AlreadyExists:
                self._queue.put(address, None)

    async def _sync_default(self) -> None:
        """Creates the default ServiceCIDR, and reports it as ready until the controller does."""
        found = self._newest(SERVICE_CIDRS, DEFAULT)
        if found is None:
            body: Document = {"metadata": {"name": DEFAULT}, "spec": {"cidrs": [str(self._cluster_ips)]}}
            await self._ask("create", SERVICE_CIDRS, DEFAULT, body)
        elif "deletionTimestamp" not in found["metadata"] and not found.get("status", {}).get("conditions"):
            condition = {
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": format_time(self._clock.now()),
                "reason": "",
                "message": "Kubernetes default Service CIDR is ready",
            }
            body = {**found, "status": {"conditions": [condition]}}
            await self._ask("update", SERVICE_CIDRS, DEFAULT, body, subresource="status")

    def _newest(self, resource: Resource, name: str) -> Document | None:
        entry = self._store.newest(StoreKey(resource.group_resource, "", name))
        return None if entry is None else entry.document

    async def _ask(
        self, verb: Verb, resource: Resource, name: str, body: Document | None = None, *, subresource: str = ""
    ) -> None:
        served = self._registry.find(resource.group, resource.version, resource.plural)
        assert served is not None
        kind = {"kind": resource.kind, "apiVersion": resource.api_version}
        request = ApiRequest(
            user=APISERVER,
            verb=verb,
            served=served,
            name="" if verb == "create" else name,
            subresource=subresource,
            body=b"" if body is None else encode({**kind, **body}),
            user_agent="kube-apiserver",
        )
        await self._handle(request)


def _addresses(service: Document | None) -> set[str]:
    return {address for address in (service or {}).get("spec", {}).get("clusterIPs", ()) if address != NO_ADDRESS}


def _parent(service: StoreKey) -> Document:
    return {"resource": SERVICES.plural, "namespace": service.namespace, "name": service.name}
