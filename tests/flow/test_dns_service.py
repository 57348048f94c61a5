"""The Service `kube-dns` and its EndpointSlice, kept in a real API server."""

import asyncio
from pathlib import Path

from pykubelet.aio.clock import SystemClock
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api.generated.core import Service, ServicePort, ServiceSpec
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import ENDPOINT_SLICES, SERVICES
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.dns.service import NAME, NAMESPACE, KubeDnsService
from pykubelet.testing.local_api import local_api

ADDRESS = "10.96.0.10"


async def endpoint(client: Client) -> tuple[str, str, set[tuple[str | None, int | None, str | None]]]:
    found = await client.get(ENDPOINT_SLICES, NAME, namespace=NAMESPACE)
    ports = {(one.name, one.port, one.protocol) for one in found.ports}
    return found.address_type, found.endpoints[0].addresses[0], ports


def service(client: Client) -> KubeDnsService:
    made = KubeDnsService(client=client, cluster_ip=ADDRESS)
    made.set_endpoint("192.0.2.7", 10053)
    return made


async def test_service_has_its_usual_address_and_leads_to_the_server(tmp_path: Path) -> None:
    async with local_api(tmp_path) as lab:
        api = lab.client
        assert await service(api).ensure() == ADDRESS
        # Again, as after a restart of the program.
        assert await service(api).ensure() == ADDRESS
        found = await api.get(SERVICES, NAME, namespace=NAMESPACE)
        assert found.metadata.labels["k8s-app"] == "kube-dns"
        assert found.metadata.labels["kubernetes.io/name"] == "CoreDNS"
        assert [(one.name, one.port, one.protocol) for one in found.spec.ports] == [
            ("dns", 53, "UDP"),
            ("dns-tcp", 53, "TCP"),
        ]
        expected = {("dns", 10053, "UDP"), ("dns-tcp", 10053, "TCP")}
        assert await endpoint(api) == ("IPv4", "192.0.2.7", expected)


async def test_service_gets_another_address_if_its_own_is_taken(tmp_path: Path) -> None:
    async with local_api(tmp_path) as lab:
        api = lab.client
        spec = ServiceSpec(cluster_ip=ADDRESS, ports=(ServicePort(port=80, protocol="TCP"),))
        other = Service(metadata=ObjectMeta(name="other", namespace="default"), spec=spec)
        await api.create(SERVICES, other, namespace="default")
        found = await service(api).ensure()
        assert found not in ("", ADDRESS)
        assert await service(api).ensure() == found


async def test_service_of_a_user_with_a_selector_is_left_alone(tmp_path: Path) -> None:
    async with local_api(tmp_path) as lab:
        api = lab.client
        ports = (ServicePort(name="dns", port=53, protocol="UDP"),)
        spec = ServiceSpec(cluster_ip=ADDRESS, ports=ports, selector={"k8s-app": "kube-dns"})
        mine = Service(metadata=ObjectMeta(name=NAME, namespace=NAMESPACE), spec=spec)
        await api.create(SERVICES, mine, namespace=NAMESPACE)
        assert await service(api).ensure() == ADDRESS
        assert (await api.list(ENDPOINT_SLICES, namespace=NAMESPACE)).items == ()


async def test_objects_are_restored_and_follow_the_machines_address(tmp_path: Path) -> None:
    async with local_api(tmp_path) as lab:
        api = lab.client
        kept, informers = service(api), Informers(client=api, clock=SystemClock())
        await kept.ensure()
        kept.listen(informers)
        synced = asyncio.Event()
        async with running({"informers": with_ready_event(informers.run, synced), "dns": with_ready_event(kept.run)}):
            await synced.wait()

            async def until(address: str) -> None:
                async with asyncio.timeout(20):
                    while await _address_or_none(api) != address:
                        await asyncio.sleep(0.01)

            await api.delete(ENDPOINT_SLICES, NAME, namespace=NAMESPACE)
            await until("192.0.2.7")
            await api.delete(SERVICES, NAME, namespace=NAMESPACE)
            kept.set_endpoint("192.0.2.8", 10053)
            await until("192.0.2.8")
            # The type of the slice's addresses changes with it.
            kept.set_endpoint("2001:db8::8", 10053)
            await until("2001:db8::8")
            assert (await endpoint(api))[0] == "IPv6"
            assert (await api.get(SERVICES, NAME, namespace=NAMESPACE)).spec.cluster_ip == ADDRESS


async def _address_or_none(client: Client) -> str | None:
    found = (await client.list(ENDPOINT_SLICES, namespace=NAMESPACE)).items
    return found[0].endpoints[0].addresses[0] if found else None
