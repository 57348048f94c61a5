"""Keeps the service `kubernetes`, through which pods reach the API, and its endpoints.

Each of the three objects is restored as soon as it is edited or deleted. Upstream checks them every ten seconds, and the
service's ports only when it starts.

Upstream: pkg/controlplane/controller/kubernetesservice/controller.go, pkg/controlplane/reconcilers/instancecount.go,
pkg/controlplane/reconcilers/endpointsadapter.go
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError
from pykubelet.api.schema import ENDPOINT_SLICES, ENDPOINTS, SERVICES, Resource
from pykubelet.api.serializer import Document, encode
from pykubelet.apiserver.namespaces import APISERVER
from pykubelet.apiserver.registry import ServedKinds
from pykubelet.apiserver.request import ApiRequest, ApiResponse, Verb, WatchStream
from pykubelet.apiserver.storage.interfaces import Store, StoreChange, StoreKey
from pykubelet.kinds.service.validation import family_of

log = get_logger(__name__)

NAMESPACE, NAME = "default", "kubernetes"
ADDRESS_INDEX = 1
"""The place of its address in the range of cluster IPs, which no other service gets unless it asks for it."""
SERVICE_PORT = 443
# The server itself may refuse a write: its disk is full, or another service has the address.
_RETRY_SECONDS = 5.0


class ApiEndpoint(NamedTuple):
    """The address and port at which pods reach this API server."""

    address: str
    port: int


def corrected_service(found: Document | None, cluster_ip: str, port: int) -> Document:
    """The service that sends port 443 to this port of the API server; what users added to its metadata stays."""
    ports = [{"name": "https", "protocol": "TCP", "port": SERVICE_PORT, "targetPort": port}]
    if found is None:
        spec: Document = {"type": "ClusterIP", "clusterIP": cluster_ip, "sessionAffinity": "None", "ports": ports}
        return {"metadata": _metadata({}, {"component": "apiserver", "provider": "kubernetes"}), "spec": spec}
    spec = {name: value for name, value in found["spec"].items() if name not in ("selector", "externalName")}
    if spec["type"] != "ClusterIP" or spec.get("ports") != ports:
        # The fields of the other types are not valid with this one.
        kept = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
        spec = {name: spec[name] for name in kept if name in spec} | {"type": "ClusterIP", "ports": ports}
    return {**found, "spec": spec}


def corrected_endpoints(found: Document | None, endpoint: ApiEndpoint) -> Document:
    """The Endpoints object; the label keeps the mirroring controller from making a second slice of it."""
    ports = [{"name": "https", "port": endpoint.port, "protocol": "TCP"}]
    metadata = _metadata(found, {"endpointslice.kubernetes.io/skip-mirror": "true"})
    return {
        **(found or {}),
        "metadata": metadata,
        "subsets": [{"addresses": [{"ip": endpoint.address}], "ports": ports}],
    }


def corrected_slice(found: Document | None, endpoint: ApiEndpoint) -> Document:
    """The EndpointSlice; a found one must have the same address type, which cannot be changed."""
    return {
        **(found or {}),
        "metadata": _metadata(found, {"kubernetes.io/service-name": NAME}),
        "addressType": family_of(endpoint.address),
        "endpoints": [{"addresses": [endpoint.address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": endpoint.port, "protocol": "TCP"}],
    }


def _metadata(found: Document | None, labels: dict[str, str]) -> Document:
    metadata = (found or {}).get("metadata", {})
    return {**metadata, "name": NAME, "namespace": NAMESPACE, "labels": {**metadata.get("labels", {}), **labels}}


class KubernetesService:
    """Creates and restores the objects. Without an endpoint the service has none."""

    def __init__(
        self,
        *,
        store: Store,
        registry: ServedKinds,
        handle: Callable[[ApiRequest], Awaitable[ApiResponse | WatchStream]],
        cluster_ip: str,
        port: int,
    ) -> None:
        """`port` is the target port of the service while there is no endpoint."""
        self._store, self._registry, self._handle = store, registry, handle
        self._cluster_ip, self._port = cluster_ip, port
        self._endpoint: ApiEndpoint | None = None
        self._changed = asyncio.Event()
        self._changed.set()

    def set_endpoint(self, endpoint: ApiEndpoint | None) -> None:
        """Sets where pods reach the server; None if they cannot."""
        self._endpoint = endpoint
        self._changed.set()

    async def run(self, ready: asyncio.Event) -> None:
        """Keeps the objects until cancelled; ready once they are as they should be."""
        for resource in (SERVICES, ENDPOINTS, ENDPOINT_SLICES):
            self._store.listen(resource.group_resource, self._on_change)
        while True:
            self._changed.clear()
            try:
                await self.sync()
            except ApiError as error:
                log.warning("the service kubernetes is not as it should be", error=error)
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._changed.set)
            # Also after an error: the server answers all the same.
            ready.set()
            await self._changed.wait()

    def _on_change(self, change: StoreChange) -> None:
        if (change.key.namespace, change.key.name) == (NAMESPACE, NAME):
            self._changed.set()

    async def sync(self) -> None:
        """Makes each of the three objects as it should be; raises ApiError."""
        endpoint = self._endpoint
        port = self._port if endpoint is None else endpoint.port
        service = self._newest(SERVICES)
        if service is not None and service["spec"]["type"] == "ExternalName":
            # It has no address, and would be given another one than the first.
            await self._ask("delete", SERVICES)
            service = None
        await self._put(SERVICES, service, corrected_service(service, self._cluster_ip, port))
        endpoints, found = self._newest(ENDPOINTS), self._newest(ENDPOINT_SLICES)
        if found is not None and (endpoint is None or found["addressType"] != family_of(endpoint.address)):
            await self._ask("delete", ENDPOINT_SLICES)
            found = None
        if endpoint is None:
            if endpoints is not None:
                await self._ask("delete", ENDPOINTS)
            return
        await self._put(ENDPOINTS, endpoints, corrected_endpoints(endpoints, endpoint))
        await self._put(ENDPOINT_SLICES, found, corrected_slice(found, endpoint))

    async def _put(self, resource: Resource, found: Document | None, wanted: Document) -> None:
        body = {"kind": resource.kind, "apiVersion": resource.api_version, **wanted}
        if found is None:
            await self._ask("create", resource, body)
        elif body != found:
            await self._ask("update", resource, body)

    def _newest(self, resource: Resource) -> Document | None:
        entry = self._store.newest(StoreKey(resource.group_resource, NAMESPACE, NAME))
        return None if entry is None else entry.document

    async def _ask(self, verb: Verb, resource: Resource, body: Document | None = None) -> None:
        served = self._registry.find(resource.group, resource.version, resource.plural)
        assert served is not None
        request = ApiRequest(
            user=APISERVER,
            verb=verb,
            served=served,
            namespace=NAMESPACE,
            name="" if verb == "create" else NAME,
            body=b"" if body is None else encode(body),
            user_agent="kube-apiserver",
        )
        await self._handle(request)
