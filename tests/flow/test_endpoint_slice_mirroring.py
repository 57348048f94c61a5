"""EndpointSlices that mirror Endpoints of Services without a selector, on a whole API server and virtual time."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from controller_rig import Bench
from pykubelet.api import scheme
from pykubelet.api.schema import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from pykubelet.api.serializer import Document
from pykubelet.client.interface import Client
from pykubelet.controllers.endpointslicemirroring.endpointslicemirroring_controller import (
    EndpointSliceMirroringController,
)
from pykubelet.testing.faults import CALL_FAULTS, Fault, FaultyClient
from pykubelet.testing.local_api import local_api

OURS = "endpointslicemirroring-controller.k8s.io"
PORT = {"name": "http", "port": 80, "protocol": "TCP"}


class Mirrors(Bench):
    """Services and Endpoints, and the controller."""

    def controller(self) -> EndpointSliceMirroringController:
        return EndpointSliceMirroringController(
            client=self.client,
            recorder=self.recorder,
            services=self.informers.objects(scheme.SERVICES),
            endpoints=self.informers.objects(scheme.ENDPOINTS),
        )

    async def service(self, **spec: Any) -> None:
        await self.make(SERVICES, "web", spec={"ports": [{"name": "http", "port": 80}], **spec})

    async def endpoints(self, *ips: str, metadata: Document | None = None, **subset: Any) -> None:
        addresses = [{"ip": ip} for ip in ips]
        subsets = [{"addresses": addresses, "ports": [PORT], **subset}] if ips else []
        await self.make(ENDPOINTS, "web", metadata=metadata or {}, subsets=subsets)

    async def slices(self) -> list[tuple[str, list[int], dict[str, bool]]]:
        """Family, ports, and the ready state of each address of every mirrored slice."""
        await asyncio.sleep(3)
        rows = []
        for one in await self.all(ENDPOINT_SLICES, namespace="default"):
            assert one["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] == OURS
            ready = {row["addresses"][0]: row["conditions"]["ready"] for row in one["endpoints"] or ()}
            rows.append((one["addressType"], [port["port"] for port in one["ports"]], ready))
        return sorted(rows)


@pytest.fixture
async def mirrors(tmp_path: Path) -> AsyncIterator[Mirrors]:
    async with local_api(tmp_path) as api:
        yield Mirrors(api.client)


async def test_slice_follows_its_endpoints(mirrors: Mirrors) -> None:
    """A slice is created, changed and deleted with the Endpoints, which own it."""
    await mirrors.service()
    async with mirrors.running(mirrors.controller()):
        metadata = {"labels": {"tier": "front"}, "annotations": {"note": "x", "endpoints.kubernetes.io/last": "y"}}
        metadata["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
        await mirrors.endpoints("10.1.2.3", metadata=metadata)
        assert await mirrors.slices() == [("IPv4", [80], {"10.1.2.3": True})]
        (one,) = await mirrors.all(ENDPOINT_SLICES, namespace="default")
        owner = await mirrors.get(ENDPOINTS, "web")
        assert owner is not None
        assert one["metadata"]["name"].startswith("web-")
        assert one["metadata"]["labels"] == {
            "tier": "front",
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": OURS,
        }
        assert one["metadata"]["annotations"] == {"note": "x", "endpoints.kubernetes.io/last": "y"}
        (reference,) = one["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["uid"]) == ("Endpoints", owner["metadata"]["uid"])
        assert one["ports"] == [PORT]

        subset = {"addresses": [{"ip": "10.2.3.4", "hostname": "h", "nodeName": "n"}], "ports": [{"port": 81}]}
        await mirrors.change(ENDPOINTS, "web", {"metadata": {"labels": {"tier": None}}, "subsets": [subset]})
        assert await mirrors.slices() == [("IPv4", [81], {"10.2.3.4": True})]
        (changed,) = await mirrors.all(ENDPOINT_SLICES, namespace="default")
        # The slice is reused.
        assert changed["metadata"]["uid"] == one["metadata"]["uid"]
        assert "tier" not in changed["metadata"]["labels"]
        (endpoint,) = changed["endpoints"]
        assert (endpoint["hostname"], endpoint["nodeName"]) == ("h", "n")

        await mirrors.delete(ENDPOINTS, "web")
        assert await mirrors.slices() == []


async def test_each_family_and_each_set_of_ports_has_a_slice(mirrors: Mirrors) -> None:
    """An address that is listed twice for a port is not ready if it is not ready once."""
    await mirrors.service()
    subsets = [
        {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [PORT]},
        {"notReadyAddresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [PORT]},
        {"addresses": [{"ip": "10.0.0.2"}], "ports": [PORT]},
        {"addresses": [{"ip": "10.0.0.3"}], "ports": [{"port": 90}]},
    ]
    await mirrors.make(ENDPOINTS, "web", subsets=subsets)
    async with mirrors.running(mirrors.controller()):
        assert await mirrors.slices() == [
            ("IPv4", [80], {"10.0.0.1": False, "10.0.0.2": False}),
            ("IPv4", [90], {"10.0.0.3": True}),
            ("IPv6", [80], {"fd00::1": True}),
        ]


@pytest.mark.parametrize(
    ("spec", "metadata"),
    [
        ({"selector": {"app": "web"}}, {}),
        ({}, {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}),
        ({}, {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}),
    ],
    ids=["selector", "skip-mirror", "leader election"],
)
async def test_endpoints_are_not_mirrored(mirrors: Mirrors, spec: Document, metadata: Document) -> None:
    await mirrors.service(**spec)
    await mirrors.endpoints("10.0.0.1", metadata=metadata)
    async with mirrors.running(mirrors.controller()):
        assert await mirrors.slices() == []


async def test_mirrored_slices_go_when_the_service_gets_a_selector_or_is_gone(mirrors: Mirrors) -> None:
    await mirrors.service()
    await mirrors.endpoints("10.0.0.1")
    async with mirrors.running(mirrors.controller()):
        assert len(await mirrors.slices()) == 1
        await mirrors.change(SERVICES, "web", {"spec": {"selector": {"app": "web"}}})
        assert await mirrors.slices() == []
        await mirrors.change(SERVICES, "web", {"spec": {"selector": None}})
        assert len(await mirrors.slices()) == 1
        await mirrors.delete(SERVICES, "web")
        assert await mirrors.slices() == []


async def test_slice_that_somebody_changes_or_deletes_is_restored(mirrors: Mirrors) -> None:
    await mirrors.service()
    await mirrors.endpoints("10.0.0.1")
    async with mirrors.running(mirrors.controller()):
        before = await mirrors.slices()
        (one,) = await mirrors.all(ENDPOINT_SLICES, namespace="default")
        await mirrors.change(ENDPOINT_SLICES, one["metadata"]["name"], {"endpoints": []})
        assert await mirrors.slices() == before
        await mirrors.delete(ENDPOINT_SLICES, one["metadata"]["name"])
        assert await mirrors.slices() == before


async def test_surplus_addresses_are_reported(mirrors: Mirrors) -> None:
    await mirrors.service()
    await mirrors.endpoints(*(f"10.0.{n // 250}.{n % 250 + 1}" for n in range(1003)))
    async with mirrors.running(mirrors.controller()):
        ((_, _, ready),) = await mirrors.slices()
        assert len(ready) == 1000
        assert await mirrors.events("TooManyAddressesToMirror") == [
            "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 3 addresses were skipped"
        ]


@pytest.mark.parametrize("at", range(1, 9))
@pytest.mark.parametrize("fault", CALL_FAULTS, ids=str)
async def test_failed_call_is_retried_without_duplicates(mirrors: Mirrors, fault: Fault, at: int) -> None:
    client: Client = FaultyClient(mirrors.plain, fault, at=at)
    faulty = Mirrors(client, plain=mirrors.plain)
    await faulty.service()
    await faulty.endpoints("10.0.0.1")
    async with faulty.running(faulty.controller()):
        await asyncio.sleep(60)
        assert await faulty.slices() == [("IPv4", [80], {"10.0.0.1": True})]
