"""The service `kubernetes` of the API itself, and its endpoints."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api.errors import NotFound
from pykubelet.api.serializer import Document
from pykubelet.apiserver.kubernetesservice import ApiEndpoint, KubernetesService
from pykubelet.testing.local_api import LocalApi
from verb_requests import MERGE, Asker

SERVICE = "/api/v1/namespaces/default/services/kubernetes"
ENDPOINTS = "/api/v1/namespaces/default/endpoints/kubernetes"
SLICE = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
OBJECTS = (SERVICE, ENDPOINTS, SLICE)
HERE = ApiEndpoint("10.1.2.3", 6443)


@asynccontextmanager
async def kept(api: LocalApi, *, endpoint: ApiEndpoint | None = HERE) -> AsyncIterator[KubernetesService]:
    """The service is kept for the duration of the context."""
    service = KubernetesService(
        store=api.store, registry=api.registry, handle=api.server.handle, cluster_ip="10.96.0.1", port=7443
    )
    service.set_endpoint(endpoint)
    ready = asyncio.Event()
    async with running({"service": with_ready_event(service.run, ready)}):
        await ready.wait()
        yield service


async def settled(asker: Asker) -> list[Document | None]:
    """The three objects once nothing changes any more."""
    found: list[Document | None] = []
    revision = -1
    while revision != (revision := asker.api.store.revision):
        await asyncio.sleep(1)
    for path in OBJECTS:
        try:
            found.append(await asker.ask("GET", path))
        except NotFound:
            found.append(None)
    return found


def content(found: Document | None) -> dict[str, Any]:
    """An object without the metadata that differs with each creation."""
    assert found is not None
    return {**found, "metadata": {"labels": found["metadata"]["labels"]}}


async def test_service_has_the_first_address_and_the_servers_endpoint(asker: Asker) -> None:
    """The objects are those of a kube-apiserver, and nothing is written once they are right."""
    async with kept(asker.api):
        service, endpoints, found = await settled(asker)
        assert service is not None
        assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
        assert service["spec"] == {
            "type": "ClusterIP",
            "clusterIP": "10.96.0.1",
            "clusterIPs": ["10.96.0.1"],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
        }
        ports = [{"name": "https", "port": 6443, "protocol": "TCP"}]
        assert content(endpoints)["subsets"] == [{"addresses": [{"ip": "10.1.2.3"}], "ports": ports}]
        assert content(endpoints)["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
        assert found is not None
        assert (found["addressType"], found["ports"]) == ("IPv4", ports)
        assert found["endpoints"] == [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}]
        assert found["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
        revision = asker.api.store.revision
    async with kept(asker.api):
        await asyncio.sleep(60)
        assert asker.api.store.revision == revision


@pytest.mark.parametrize("path", OBJECTS)
async def test_deleted_object_comes_back(asker: Asker, path: str) -> None:
    """It is the same as before, under another UID."""
    async with kept(asker.api):
        before = await settled(asker)
        await asker.ask("DELETE", path)
        after = await settled(asker)
        assert list(map(content, after)) == list(map(content, before))
        assert after != before


@pytest.mark.parametrize(
    ("path", "edit"),
    [
        (SERVICE, {"spec": {"selector": {"app": "mine"}}}),
        (SERVICE, {"spec": {"ports": [{"port": 80}]}}),
        (SERVICE, {"spec": {"type": "NodePort"}}),
        (SERVICE, {"spec": {"type": "ExternalName", "externalName": "x.example", "clusterIP": "", "clusterIPs": None}}),
        (ENDPOINTS, {"subsets": None}),
        (ENDPOINTS, {"subsets": [{"addresses": [{"ip": "10.9.9.9"}]}]}),
        (ENDPOINTS, {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": None}}}),
        (SLICE, {"endpoints": [{"addresses": ["10.9.9.9"]}]}),
        (SLICE, {"ports": None}),
        (SLICE, {"metadata": {"labels": {"kubernetes.io/service-name": "mine"}}}),
    ],
)
async def test_edited_object_is_restored(asker: Asker, path: str, edit: Document) -> None:
    """An edit that would lead pods elsewhere lasts for an instant only."""
    async with kept(asker.api):
        before = await settled(asker)
        await asker.ask("PATCH", path, edit, content_type=MERGE)
        assert list(map(content, await settled(asker))) == list(map(content, before))


async def test_labels_of_users_stay(asker: Asker) -> None:
    """Only what leads to the server is restored."""
    async with kept(asker.api):
        await settled(asker)
        await asker.ask("PATCH", SERVICE, {"metadata": {"labels": {"mine": "x"}}}, content_type=MERGE)
        service, _, _ = await settled(asker)
        assert content(service)["metadata"]["labels"]["mine"] == "x"


@pytest.mark.parametrize(
    ("endpoint", "family"), [(ApiEndpoint("10.1.2.4", 6443), "IPv4"), (ApiEndpoint("fd00::2", 7443), "IPv6")]
)
async def test_endpoints_follow_the_servers_address(asker: Asker, endpoint: ApiEndpoint, family: str) -> None:
    """The slice of another family is a new one, because an address type cannot change."""
    async with kept(asker.api) as service:
        await settled(asker)
        service.set_endpoint(endpoint)
        found, endpoints, of_slice = map(content, await settled(asker))
        assert found["spec"]["ports"][0]["targetPort"] == endpoint.port
        assert endpoints["subsets"][0]["addresses"] == [{"ip": endpoint.address}]
        assert (of_slice["addressType"], of_slice["endpoints"][0]["addresses"]) == (family, [endpoint.address])


async def test_server_that_pods_cannot_reach_has_no_endpoints(asker: Asker) -> None:
    """Endpoints of an earlier run are removed; the service stays."""
    async with kept(asker.api) as service:
        await settled(asker)
        service.set_endpoint(None)
        found, endpoints, of_slice = await settled(asker)
        assert content(found)["spec"]["ports"][0]["targetPort"] == 7443
        assert (endpoints, of_slice) == (None, None)


async def test_service_is_tried_again_when_its_address_is_taken(asker: Asker) -> None:
    """A user's service has the first address from before there was this one."""
    ports = {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]}
    await asker.ask("POST", SERVICE.rpartition("/")[0], {"metadata": {"name": "mine"}, "spec": ports})
    async with kept(asker.api):
        assert await settled(asker) == [None, None, None]
        await asker.ask("DELETE", f"{SERVICE.rpartition('/')[0]}/mine")
        await asyncio.sleep(10)
        assert None not in await settled(asker)
