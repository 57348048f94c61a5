"""Keeps the Service `kube-dns` and the EndpointSlice that leads to this DNS server.

Pods ask under the Service's address. A Service `kube-dns` with a selector belongs to a DNS server that the user
deployed, and is left alone.
"""

import asyncio
from ipaddress import ip_address

from pykubelet.aio.backoff import Backoff, Retries
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import AlreadyExists, ApiError, Invalid, NotFound
from pykubelet.api.generated.core import Service, ServicePort, ServiceSpec
from pykubelet.api.generated.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import ENDPOINT_SLICES, SERVICES, ApiObject
from pykubelet.api.serializer import to_document
from pykubelet.client.informers import Informers
from pykubelet.client.interface import NOW, Client, PatchType
from pykubelet.dns.forwarder import DNS_PORT
from pykubelet.dns.records import SERVICE_NAME

log = get_logger(__name__)

NAME, NAMESPACE = "kube-dns", "kube-system"
ADDRESS_INDEX = 10
"""The place of its address in the range of services, where every Kubernetes distribution has it."""
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_LABELS = {"k8s-app": NAME, "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}
_PORTS = (("dns", "UDP"), ("dns-tcp", "TCP"))
_RETRY = Backoff(first_seconds=0.5, limit_seconds=30, jitter=0.5)


class KubeDnsService:
    """Creates the Service and its EndpointSlice, and restores them when they change."""

    def __init__(self, *, client: Client, cluster_ip: str) -> None:
        """`cluster_ip` is the Service's address if it is free."""
        self._client, self._cluster_ip = client, cluster_ip
        self._slice: EndpointSlice | None = None
        self._changed = asyncio.Event()

    def set_endpoint(self, address: str, port: int) -> None:
        """The server listens here from now on."""
        self._slice = _endpoint_slice(address, port)
        self._changed.set()

    def listen(self, informers: Informers) -> None:
        """Subscribes to changes of the two objects."""
        informers.add_event_handler(SERVICES, changed=self._notice, deleted=self._notice)
        informers.add_event_handler(ENDPOINT_SLICES, changed=self._notice, deleted=self._notice)

    async def run(self, ready: asyncio.Event) -> None:
        """Restore the objects after each change, until cancelled."""
        retries = Retries(_RETRY)
        ready.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.ensure()
                retries.reset()
            except ApiError as error:
                log.warning("service of the cluster DNS not restored", service=f"{NAMESPACE}/{NAME}", cause=str(error))
                self._changed.set()
                await asyncio.sleep(retries.next_delay_seconds())

    async def ensure(self) -> str:
        """Create or correct the objects; returns the Service's address, under which pods find the cluster DNS."""
        try:
            service = await self._client.get(SERVICES, NAME, namespace=NAMESPACE)
        except NotFound:
            service = await self._create()
        if self._slice is not None and not service.spec.selector:
            await self._ensure_slice(self._slice)
        return service.spec.cluster_ip

    async def _create(self) -> Service:
        try:
            return await self._client.create(SERVICES, _service(self._cluster_ip), namespace=NAMESPACE)
        except Invalid as error:
            # In a cluster of an earlier version another service may have the address.
            log.warning("the cluster DNS gets another address", address=self._cluster_ip, cause=str(error))
            return await self._client.create(SERVICES, _service(""), namespace=NAMESPACE)
        except AlreadyExists:
            return await self._client.get(SERVICES, NAME, namespace=NAMESPACE)

    async def _ensure_slice(self, new: EndpointSlice) -> None:
        try:
            old = await self._client.get(ENDPOINT_SLICES, NAME, namespace=NAMESPACE)
        except NotFound:
            await self._client.create(ENDPOINT_SLICES, new, namespace=NAMESPACE)
            return
        if old.address_type != new.address_type:
            # The type of a slice's addresses cannot change.
            await self._client.delete(ENDPOINT_SLICES, NAME, namespace=NAMESPACE, options=NOW)
            await self._client.create(ENDPOINT_SLICES, new, namespace=NAMESPACE)
        elif _content(old) != _content(new):
            wanted = to_document(new)
            patch = {
                "metadata": {"uid": old.metadata.uid, "labels": wanted["metadata"]["labels"]},
                "endpoints": wanted["endpoints"],
                "ports": wanted["ports"],
            }
            await self._client.patch(ENDPOINT_SLICES, NAME, patch, namespace=NAMESPACE, patch_type=PatchType.MERGE)

    def _notice(self, found: ApiObject) -> None:
        if (found.metadata.namespace, found.metadata.name) == (NAMESPACE, NAME):
            self._changed.set()


def _service(cluster_ip: str) -> Service:
    ports = tuple(ServicePort(name=name, port=DNS_PORT, protocol=protocol) for name, protocol in _PORTS)
    return Service(
        metadata=ObjectMeta(name=NAME, namespace=NAMESPACE, labels=_LABELS),
        spec=ServiceSpec(cluster_ip=cluster_ip, ports=ports),
    )


def _endpoint_slice(address: str, port: int) -> EndpointSlice:
    conditions = EndpointConditions(ready=True, serving=True, terminating=False)
    return EndpointSlice(
        metadata=ObjectMeta(
            name=NAME, namespace=NAMESPACE, labels={SERVICE_NAME: NAME, "k8s-app": NAME, _MANAGED_BY: "pykubelet"}
        ),
        address_type=f"IPv{ip_address(address).version}",
        endpoints=(Endpoint(addresses=(address,), conditions=conditions),),
        ports=tuple(EndpointPort(name=name, port=port, protocol=protocol) for name, protocol in _PORTS),
    )


def _content(one: EndpointSlice) -> tuple[object, ...]:
    labels = one.metadata.labels
    return one.endpoints, one.ports, labels.get(SERVICE_NAME), labels.get(_MANAGED_BY)
