"""The ServiceCIDR controller: keeps a range while Services have its addresses.

It also says that a range is ready. A range is deleted once every address in it is also in another range, or unused, and after ten
seconds, so that API servers stop giving out its addresses.

Upstream: pkg/controller/servicecidrs/servicecidrs_controller.go
"""

from datetime import timedelta
from ipaddress import ip_address

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.networking import IPAddress, ServiceCIDR
from pykubelet.api.names import Address, Network, parse_network
from pykubelet.api.scheme import IP_ADDRESSES, SERVICE_CIDRS
from pykubelet.api.serializer import Document, to_document
from pykubelet.api.times import format_time, parse_time
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.informers import Informers
from pykubelet.client.interface import PatchType, Writer
from pykubelet.client.recorder import WARNING, EventRecorder, reference_to
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
_MANAGED_BY, _ALLOCATOR = "ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io"
_GRACE = timedelta(seconds=10)
_READY: Document = {"status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready"}
_IN_USE: Document = {
    "status": "False",
    "reason": "Terminating",
    "message": "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
}


class ServiceCidrController(KeyedController):
    """Syncs ServiceCIDRs by name."""

    def __init__(
        self,
        *,
        client: Writer,
        recorder: EventRecorder,
        ranges: ObjectIndex[ServiceCIDR],
        addresses: ObjectIndex[IPAddress],
        clock: Clock,
    ) -> None:
        self._client, self._recorder, self._clock = client, recorder, clock
        self._ranges, self._addresses = ranges, addresses
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(SERVICE_CIDRS, changed=self.range_changed, deleted=self.range_changed)
        informers.add_event_handler(IP_ADDRESSES, deleted=self.address_deleted)

    def range_changed(self, changed: ServiceCIDR) -> None:
        """Enqueues the range, and those being deleted that it overlaps: their addresses may be in it too."""
        self.queue.add(changed.metadata.name)
        networks = _networks(changed)
        for other in self._ranges.all():
            if other.metadata.deletion_timestamp is not None and any(
                mine.version == theirs.version and mine.overlaps(theirs)
                for mine in networks
                for theirs in _networks(other)
            ):
                self.queue.add(other.metadata.name)

    def address_deleted(self, gone: IPAddress) -> None:
        """Enqueues the ranges being deleted that the address was in."""
        address = ip_address(gone.metadata.name)
        for one in self._ranges.all():
            if one.metadata.deletion_timestamp is not None and _contains(one, address):
                self.queue.add(one.metadata.name)

    async def sync(self, name: str) -> None:
        found = self._ranges.get(f"/{name}")
        if found is None:
            return
        finalizers = found.metadata.finalizers
        ends = found.metadata.deletion_timestamp
        if ends is None:
            if FINALIZER not in finalizers:
                await self._set_finalizers(found, (*finalizers, FINALIZER))
            try:
                await self._set_condition(found, _READY)
            except ApiError:
                text = "The ServiceCIDR Status can not be set to Ready=True"
                self._recorder.event(reference_to(found), WARNING, "KubernetesServiceCIDRError", text)
                raise
            return
        if self._is_in_use(found):
            await self._set_condition(found, _IN_USE)
            return
        left = (parse_time(ends) + _GRACE - self._clock.now()).total_seconds()
        if left > 0:
            self.queue.add_after(name, left)
        elif FINALIZER in finalizers:
            await self._set_finalizers(found, tuple(one for one in finalizers if one != FINALIZER))

    def _is_in_use(self, found: ServiceCIDR) -> bool:
        """Whether an address of a Service is in this range and in no other."""
        others = [one for one in self._ranges.all() if one.metadata.name != found.metadata.name]
        known = [network for one in others for network in _networks(one)]
        if all(any(_is_inside(mine, other) for other in known) for mine in _networks(found)):
            return False
        for one in self._addresses.all():
            if one.metadata.labels.get(_MANAGED_BY) == _ALLOCATOR:
                address = ip_address(one.metadata.name)
                if _contains(found, address) and not any(_contains(other, address) for other in others):
                    return True
        return False

    async def _set_finalizers(self, found: ServiceCIDR, finalizers: tuple[str, ...]) -> None:
        meta = found.metadata
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": list(finalizers)}
        }
        await self._client.patch(SERVICE_CIDRS, meta.name, patch, patch_type=PatchType.MERGE)

    async def _set_condition(self, found: ServiceCIDR, wanted: Document) -> None:
        """Writes the condition Ready if it differs; the other conditions stay."""
        conditions = [to_document(one) for one in found.status.conditions]
        old: Document = next((one for one in conditions if one["type"] == "Ready"), {})
        if {name: old.get(name, "") for name in wanted} == wanted:
            return
        changed = old.get("status") != wanted["status"]
        since = format_time(self._clock.now()) if changed else old["lastTransitionTime"]
        new = {"type": "Ready", "lastTransitionTime": since, **wanted}
        status = {"conditions": [*(one for one in conditions if one["type"] != "Ready"), new]}
        patch = {"metadata": {"uid": found.metadata.uid}, "status": status}
        name = found.metadata.name
        await self._client.patch(SERVICE_CIDRS, name, patch, patch_type=PatchType.MERGE, subresource="status")


def _networks(one: ServiceCIDR) -> list[Network]:
    return [network for text in one.spec.cidrs if (network := parse_network(text)) is not None]


def _contains(one: ServiceCIDR, address: Address) -> bool:
    return any(address in network for network in _networks(one))


def _is_inside(inner: Network, outer: Network) -> bool:
    return inner.version == outer.version and inner.network_address in outer and inner.prefixlen >= outer.prefixlen
