"""ServiceCIDRs and IPAddresses on a whole API server and virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from controller_rig import Bench
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api import scheme
from pykubelet.api.errors import Invalid
from pykubelet.api.schema import IP_ADDRESSES, SERVICE_CIDRS, SERVICES
from pykubelet.api.serializer import Document
from pykubelet.apiserver.ip_addresses import IpAddressRepair
from pykubelet.controllers.servicecidrs.servicecidrs_controller import ServiceCidrController
from pykubelet.testing.local_api import LocalApi, local_api

RANGE = IPv4Network("10.96.0.0/12")
OURS = {"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}


class Addresses(Bench):
    """Services, their addresses, and ranges with their controller."""

    def __init__(self, api: LocalApi) -> None:
        super().__init__(api.client)
        self.api = api

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Runs the repair of the API server."""
        repair = IpAddressRepair(
            store=self.api.store,
            registry=self.api.registry,
            handle=self.api.server.handle,
            cluster_ips=RANGE,
            clock=self.clock,
        )
        async with running({"ip addresses": with_ready_event(repair.run)}):
            await asyncio.sleep(1)
            yield

    @asynccontextmanager
    async def with_controller(self) -> AsyncIterator[None]:
        objects = self.informers.objects
        controller = ServiceCidrController(
            client=self.client,
            recorder=self.recorder,
            ranges=objects(scheme.SERVICE_CIDRS),
            addresses=objects(scheme.IP_ADDRESSES),
            clock=self.clock,
        )
        async with self.running(controller):
            yield

    async def service(self, name: str = "web", **spec: Any) -> str:
        made = await self.make(SERVICES, name, spec={"ports": [{"port": 80}], **spec})
        await asyncio.sleep(1)
        address: str = made["spec"].get("clusterIP", "")
        return address

    async def owners(self) -> dict[str, str]:
        """The Service of each IPAddress."""
        await asyncio.sleep(1)
        found = await self.all(IP_ADDRESSES)
        return {one["metadata"]["name"]: one["spec"]["parentRef"]["name"] for one in found}

    async def ready(self, name: str) -> tuple[str, str]:
        """Status and reason of the condition Ready."""
        await asyncio.sleep(1)
        found = await self.get(SERVICE_CIDRS, name)
        assert found is not None
        (condition,) = found["status"]["conditions"]
        return condition["status"], condition["reason"]


@pytest.fixture
async def addresses(tmp_path: Path) -> AsyncIterator[Addresses]:
    async with local_api(tmp_path) as api:
        yield Addresses(api)


async def test_each_cluster_ip_has_an_address_object(addresses: Addresses) -> None:
    """Services of before, new and changed ones; headless ones have none."""
    first = await addresses.service("old")
    async with addresses.at_work():
        second = await addresses.service("web")
        await addresses.service("headless", clusterIP="None")
        assert await addresses.owners() == {first: "old", second: "web"}
        found = await addresses.get(IP_ADDRESSES, second)
        assert found is not None
        assert found["metadata"]["labels"] == OURS
        assert found["spec"] == {"parentRef": {"resource": "services", "namespace": "default", "name": "web"}}
        await addresses.change(
            SERVICES, "old", {"spec": {"type": "ExternalName", "externalName": "a.b", "clusterIP": None}}
        )
        await addresses.delete(SERVICES, "web")
        assert await addresses.owners() == {}
        assert await addresses.service("again", clusterIP=second) == second
        assert await addresses.owners() == {second: "again"}


async def test_address_objects_are_repaired(addresses: Addresses) -> None:
    """What is missing, wrong or left over is repaired; those of other owners stay, and their addresses are reserved."""
    stale: Document = {"parentRef": {"resource": "services", "namespace": "default", "name": "gone"}}
    await addresses.make(IP_ADDRESSES, "10.96.0.50", metadata={"labels": OURS}, spec=stale)
    foreign = {"parentRef": {"group": "g", "resource": "gateways", "name": "mine"}}
    await addresses.make(IP_ADDRESSES, "10.96.0.2", spec=foreign)
    async with addresses.at_work():
        assert await addresses.owners() == {"10.96.0.2": "mine"}
        assert await addresses.service() == "10.96.0.3"
        with pytest.raises(Invalid, match="provided IP is already allocated"):
            await addresses.service("other", clusterIP="10.96.0.2")
        await addresses.delete(IP_ADDRESSES, "10.96.0.3")
        assert await addresses.owners() == {"10.96.0.2": "mine", "10.96.0.3": "web"}


async def test_default_range_exists_and_is_ready(addresses: Addresses) -> None:
    async with addresses.at_work():
        found = await addresses.get(SERVICE_CIDRS, "kubernetes")
        assert found is not None
        assert found["spec"] == {"cidrs": [str(RANGE)]}
        assert await addresses.ready("kubernetes") == ("True", "")
        await addresses.delete(SERVICE_CIDRS, "kubernetes")
        assert await addresses.ready("kubernetes") == ("True", "")


async def test_services_get_addresses_of_more_ranges_once_they_are_ready(addresses: Addresses) -> None:
    async with addresses.at_work():
        await addresses.make(SERVICE_CIDRS, "more", spec={"cidrs": ["192.168.0.0/29"]})
        with pytest.raises(Invalid, match="is not in the valid range"):
            await addresses.service(clusterIP="192.168.0.3")
        async with addresses.with_controller():
            assert await addresses.ready("more") == ("True", "")
            assert await addresses.service(clusterIP="192.168.0.3") == "192.168.0.3"


async def test_range_is_kept_while_a_service_has_an_address_of_it(addresses: Addresses) -> None:
    """A deleted range says why it stays; nothing new is allocated from it."""
    async with addresses.at_work(), addresses.with_controller():
        await addresses.make(SERVICE_CIDRS, "more", spec={"cidrs": ["192.168.0.0/29"]})
        await addresses.ready("more")
        await addresses.service(clusterIP="192.168.0.3")
        await addresses.delete(SERVICE_CIDRS, "more")
        assert await addresses.ready("more") == ("False", "Terminating")
        await asyncio.sleep(60)
        assert await addresses.get(SERVICE_CIDRS, "more") is not None
        with pytest.raises(Invalid, match="is not in the valid range"):
            await addresses.service("other", clusterIP="192.168.0.4")
        await addresses.delete(SERVICES, "web")
        await asyncio.sleep(20)
        assert await addresses.get(SERVICE_CIDRS, "more") is None


async def test_range_inside_another_one_may_go(addresses: Addresses) -> None:
    async with addresses.at_work(), addresses.with_controller():
        await addresses.make(SERVICE_CIDRS, "part", spec={"cidrs": ["10.96.1.0/24"]})
        await addresses.service(clusterIP="10.96.1.7")
        await addresses.ready("part")
        await addresses.delete(SERVICE_CIDRS, "part")
        await asyncio.sleep(5)
        assert await addresses.get(SERVICE_CIDRS, "part") is not None
        await asyncio.sleep(10)
        assert await addresses.get(SERVICE_CIDRS, "part") is None
        assert await addresses.owners() == {"10.96.1.7": "web"}
