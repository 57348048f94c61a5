"""Endpoints of services on a whole API server and virtual time: which pods are listed, how, and when writes occur."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controller_rig import Bench
from pykubelet.api import scheme
from pykubelet.api.schema import ENDPOINT_SLICES, ENDPOINTS, NODES, PODS, SERVICES
from pykubelet.api.serializer import Document
from pykubelet.client.interface import NOW, Client
from pykubelet.controllers.endpoint.endpoints_controller import EndpointsController
from pykubelet.controllers.endpointslice.endpointslice_controller import EndpointSliceController
from pykubelet.controllers.endpointslice.service_pods import ServicePods
from pykubelet.testing.faults import CALL_FAULTS, Fault, FaultyClient
from pykubelet.testing.local_api import local_api

LABELS = {"app": "web"}


class Services(Bench):
    """Services, their pods, and the EndpointSlice and Endpoints controllers."""

    @asynccontextmanager
    async def at_work(self, *, max_endpoints: int = 100) -> AsyncIterator[None]:
        objects = self.informers.objects
        pods = ServicePods(objects(scheme.SERVICES))
        pods.listen(self.informers)
        services = objects(scheme.SERVICES)
        slices = EndpointSliceController(
            client=self.client,
            recorder=self.recorder,
            services=services,
            service_pods=pods,
            nodes=objects(scheme.NODES),
            max_endpoints=max_endpoints,
        )
        endpoints = EndpointsController(
            client=self.client,
            recorder=self.recorder,
            services=services,
            service_pods=pods,
            endpoints=objects(scheme.ENDPOINTS),
        )
        async with self.running(slices, endpoints):
            yield

    async def service(self, name: str = "web", **spec: Any) -> Document:
        given = {"selector": LABELS, "ports": [{"name": "http", "port": 80, "targetPort": "web"}], **spec}
        return await self.make(SERVICES, name, metadata={"labels": {"tier": "front"}}, spec=given)

    async def pod(self, name: str, ip: str, *, ready: bool = True, port: int = 8080, **spec: Any) -> None:
        ports = [{"name": "web", "containerPort": port}]
        containers = [{"name": "c", "image": "i", "ports": ports}]
        given = {"containers": containers, "nodeName": "node-1", **spec}
        await self.make(PODS, name, metadata={"labels": LABELS}, spec=given)
        await self.set_ready(name, ip, ready=ready)

    async def set_ready(self, name: str, ip: str, *, ready: bool) -> None:
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]}
        await self.change(PODS, name, {"status": status}, subresource="status")

    async def rows(self) -> list[tuple[str, bool, bool, bool]]:
        """Address, ready, serving and terminating of all endpoints in slices."""
        rows = []
        for one in await self.all(ENDPOINT_SLICES):
            for endpoint in one["endpoints"] or ():
                state = endpoint["conditions"]
                rows.append((endpoint["addresses"][0], state["ready"], state["serving"], state["terminating"]))
        return sorted(rows)


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    async with local_api(tmp_path) as api:
        bench = Services(api.client)
        await bench.make(NODES, "node-1", metadata={"labels": {"topology.kubernetes.io/zone": "z1"}})
        yield bench


async def test_pods_of_a_service_are_listed_with_all_that_is_known_of_them(services: Services) -> None:
    """The same pods are listed in a slice owned by the service and in Endpoints."""
    made = await services.service()
    await services.pod("a", "10.0.0.1")
    await services.pod("b", "10.0.0.2", ready=False)
    async with services.at_work():
        await asyncio.sleep(5)
        (found,) = await services.all(ENDPOINT_SLICES)
        labels = {
            "tier": "front",
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }
        assert found["metadata"]["labels"] == labels
        assert found["metadata"]["name"].startswith("web-")
        assert found["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert found["addressType"] == "IPv4"
        assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        first = next(one for one in found["endpoints"] if one["addresses"] == ["10.0.0.1"])
        assert (first["nodeName"], first["zone"]) == ("node-1", "z1")
        assert (first["targetRef"]["kind"], first["targetRef"]["name"]) == ("Pod", "a")
        assert await services.rows() == [("10.0.0.1", True, True, False), ("10.0.0.2", False, False, False)]
        endpoints = await services.get(ENDPOINTS, "web")
        assert endpoints is not None
        (subset,) = endpoints["subsets"]
        assert [row["ip"] for row in subset["addresses"]] == ["10.0.0.1"]
        assert [row["ip"] for row in subset["notReadyAddresses"]] == ["10.0.0.2"]
        assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        assert endpoints["metadata"]["labels"] == {
            "tier": "front",
            "endpoints.kubernetes.io/managed-by": "endpoint-controller",
        }


async def test_life_of_a_pod_is_followed(services: Services) -> None:
    """The endpoint is ready, then terminating but still serving, then removed; the empty slice remains."""
    await services.service()
    async with services.at_work():
        await asyncio.sleep(2)
        (empty,) = await services.all(ENDPOINT_SLICES)
        assert not empty["endpoints"]
        await services.pod("a", "10.0.0.1")
        await asyncio.sleep(2)
        assert await services.rows() == [("10.0.0.1", True, True, False)]
        await services.delete(PODS, "a")
        await asyncio.sleep(2)
        assert await services.rows() == [("10.0.0.1", False, True, True)]
        assert "subsets" not in (await services.get(ENDPOINTS, "web") or {})
        await services.plain.delete(scheme.PODS, "a", namespace="default", options=NOW)
        await asyncio.sleep(2)
        assert await services.rows() == []
        assert [one["metadata"]["uid"] for one in await services.all(ENDPOINT_SLICES)] == [empty["metadata"]["uid"]]


async def test_headless_service_publishes_not_ready_addresses(services: Services) -> None:
    """Unready and terminating pods are listed as ready, with host names, even without ports."""
    await services.service(clusterIP="None", publishNotReadyAddresses=True, ports=[])
    await services.pod("a", "10.0.0.1", ready=False, hostname="a", subdomain="web")
    async with services.at_work():
        await asyncio.sleep(5)
        (found,) = await services.all(ENDPOINT_SLICES)
        assert found["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
        assert found["endpoints"][0]["hostname"] == "a"
        assert await services.rows() == [("10.0.0.1", True, False, False)]
        await services.delete(PODS, "a")
        await asyncio.sleep(5)
        assert await services.rows() == [("10.0.0.1", True, False, True)]
        endpoints = await services.get(ENDPOINTS, "web")
        assert endpoints is not None
        assert [row["hostname"] for row in endpoints["subsets"][0]["addresses"]] == ["a"]


async def test_only_changes_are_written_and_what_others_break_is_mended(services: Services) -> None:
    """A pod update that does not concern endpoints causes no write. A slice that was changed or deleted is restored."""
    await services.service()
    await services.pod("a", "10.0.0.1")
    async with services.at_work():
        await asyncio.sleep(5)
        before = [(one["metadata"]["resourceVersion"]) for one in await services.all(ENDPOINT_SLICES)]
        endpoints = await services.get(ENDPOINTS, "web")
        for count in range(3):
            await services.change(PODS, "a", {"metadata": {"annotations": {"beat": str(count)}}})
            await asyncio.sleep(5)
        assert [(one["metadata"]["resourceVersion"]) for one in await services.all(ENDPOINT_SLICES)] == before
        assert await services.get(ENDPOINTS, "web") == endpoints
        (found,) = await services.all(ENDPOINT_SLICES)
        await services.change(ENDPOINT_SLICES, found["metadata"]["name"], {"endpoints": []})
        await asyncio.sleep(5)
        assert len(await services.rows()) == 1
        await services.delete(ENDPOINT_SLICES, found["metadata"]["name"])
        await services.delete(ENDPOINTS, "web")
        await asyncio.sleep(5)
        assert len(await services.rows()) == 1
        assert await services.get(ENDPOINTS, "web") is not None


async def test_slices_hold_so_many_endpoints_and_pods_with_other_ports_have_their_own(services: Services) -> None:
    """A named port may have a different number in another pod."""
    await services.service()
    async with services.at_work(max_endpoints=3):
        for number in range(7):
            await services.pod(f"p{number}", f"10.0.0.{number}")
        await services.pod("other", "10.0.1.1", port=9090)
        await asyncio.sleep(5)
        sizes = [(one["ports"][0]["port"], len(one["endpoints"])) for one in await services.all(ENDPOINT_SLICES)]
        assert sum(count for port, count in sizes if port == 8080) == 7
        assert max(count for _, count in sizes) <= 3
        assert [count for port, count in sizes if port == 9090] == [1]
        endpoints = await services.get(ENDPOINTS, "web")
        assert endpoints is not None
        assert [(row["ports"][0]["port"], len(row["addresses"])) for row in endpoints["subsets"]] == [
            (8080, 7),
            (9090, 1),
        ]


async def test_service_without_selector_is_ignored(services: Services) -> None:
    """Its Endpoints are managed by hand. Endpoints of deleted services are deleted, also at startup."""
    await services.service("by-hand", selector=None)
    await services.make(ENDPOINTS, "by-hand", subsets=[])
    await services.make(ENDPOINTS, "left-over", subsets=[])
    async with services.at_work():
        await services.service("gone")
        await asyncio.sleep(5)
        assert {one["metadata"]["name"] for one in await services.all(ENDPOINTS)} == {"by-hand", "gone"}
        await services.delete(SERVICES, "gone")
        await asyncio.sleep(5)
        assert {one["metadata"]["name"] for one in await services.all(ENDPOINTS)} == {"by-hand"}


async def test_pod_on_an_unknown_node_waits_for_it(services: Services) -> None:
    """An event reports the missing node; the pod is listed once the node exists."""
    await services.service()
    await services.pod("a", "10.0.0.1", nodeName="node-2")
    async with services.at_work():
        await asyncio.sleep(5)
        assert await services.rows() == []
        (message, *_) = await services.events("FailedToUpdateEndpointSlices")
        assert message.endswith("skipping Pod a for Service default/web: Node node-2 Not Found")
        await services.make(NODES, "node-2")
        await asyncio.sleep(60)
        assert len(await services.rows()) == 1


async def is_injected_in_a_life(client: Client, fault: Fault, at: int) -> bool:
    """Creates, changes and deletes pods of a service; returns whether the fault was injected."""
    faulty = FaultyClient(client, fault, at=at)
    services = Services(faulty, plain=client)
    await services.service()
    async with services.at_work(max_endpoints=2):
        for number in range(5):
            await services.pod(f"p{number}", f"10.0.0.{number}")
        await asyncio.sleep(60)
        await services.plain.delete(scheme.PODS, "p0", namespace="default", options=NOW)
        await services.set_ready("p1", "10.0.0.1", ready=False)
        await asyncio.sleep(60)
    expected = [(f"10.0.0.{number}", number > 1, number > 1, False) for number in range(1, 5)]
    assert await services.rows() == expected
    endpoints = await services.get(ENDPOINTS, "web")
    assert endpoints is not None
    assert len(endpoints["subsets"][0]["addresses"]) == 3
    for number in range(1, 5):
        await services.plain.delete(scheme.PODS, f"p{number}", namespace="default", options=NOW)
    await services.delete(SERVICES, "web")
    await services.delete(ENDPOINTS, "web")
    for one in await services.all(ENDPOINT_SLICES):
        await services.delete(ENDPOINT_SLICES, one["metadata"]["name"])
    return faulty.injected


@pytest.mark.parametrize("fault", CALL_FAULTS, ids=lambda fault: str(fault.name))
async def test_one_fault_anywhere_changes_nothing_in_the_end(fault: Fault, services: Services) -> None:
    """Every endpoint is listed once, with the right conditions."""
    for at in itertools.count():
        if not await is_injected_in_a_life(services.plain, fault, at):
            break
    assert at >= 10
