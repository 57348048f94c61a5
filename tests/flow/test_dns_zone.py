"""The index of the cluster's DNS records follows the API, whatever the order of changes."""

import asyncio

import dns.message
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.aio.clock import SystemClock
from pykubelet.api.generated.core import Pod, PodIP, PodStatus, Service, ServicePort, ServiceSpec
from pykubelet.api.generated.discovery import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheme import ENDPOINT_SLICES, PODS, SERVICES
from pykubelet.client.informers import Informers
from pykubelet.dns.message import MAX_MESSAGE, Rcode, read_query, respond
from pykubelet.dns.records import SERVICE_NAME
from pykubelet.dns.zone import ClusterZone
from pykubelet.testing import build
from pykubelet.testing.memory_api import MemoryApi

PORTS = (ServicePort(name="http", port=80, protocol="TCP"),)


def service(name: str, cluster_ip: str = "10.96.0.5", **spec: object) -> Service:
    return Service(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=ServiceSpec(cluster_ip=cluster_ip, ports=PORTS, **spec),  # type: ignore[arg-type]
    )


def endpoints(name: str, of: str, *addresses: str, ready: bool = True, hostname: str | None = None) -> EndpointSlice:
    found = tuple(
        Endpoint(addresses=(one,), conditions=EndpointConditions(ready=ready), hostname=hostname) for one in addresses
    )
    meta = ObjectMeta(name=name, namespace="default", labels={SERVICE_NAME: of})
    ports = (EndpointPort(name="http", port=8080, protocol="TCP"),)
    return EndpointSlice(metadata=meta, address_type="IPv4", endpoints=found, ports=ports)


def pod(name: str, ip: str, phase: str = "Running") -> Pod:
    return build.pod(name, status=PodStatus(phase=phase, pod_ip=ip, pod_ips=(PodIP(ip=ip),)))


def look_up(zone: ClusterZone, name: str, type: str = "A") -> tuple[int, set[str]]:
    """The response code and the records of the answer, without TTLs; the code is -1 if the name is not the zone's."""
    query = read_query(dns.message.make_query(name, type).to_wire())
    found = zone.answer(query.name, query.type)
    if found is None:
        return -1, set()
    data = respond(query, found.rcode, found.sections, limit=MAX_MESSAGE, is_authority=True)
    message = dns.message.from_wire(data)
    assert bool(message.answer) != bool(message.authority)
    return found.rcode, {f"{rows.name} {row}" for rows in message.answer for row in rows}


NAMES = st.sampled_from(["a", "b"])
ADDRESSES = st.lists(st.sampled_from(["10.1.0.1", "10.1.0.2", "10.1.0.3"]), max_size=3)
SERVICES_OF_ANY_KIND = st.one_of(
    st.builds(service, NAMES, st.sampled_from(["10.96.0.5", "10.96.0.6", "None", ""])),
    st.builds(lambda name: service(name, "", type="ExternalName", external_name="example.com"), NAMES),
    st.builds(lambda name: service(name, "None", publish_not_ready_addresses=True), NAMES),
)
SLICES = st.builds(
    lambda name, of, addresses, ready, hostname: endpoints(name, of, *addresses, ready=ready, hostname=hostname),
    st.sampled_from(["s", "t"]),
    NAMES,
    ADDRESSES,
    st.booleans(),
    st.sampled_from([None, "h"]),
)
PODS_OF_ANY_KIND = st.builds(
    pod, NAMES, st.sampled_from(["", "10.1.0.1", "10.1.0.2"]), st.sampled_from(["Running", "Failed"])
)
CHANGES = st.lists(st.tuples(st.one_of(SERVICES_OF_ANY_KIND, SLICES, PODS_OF_ANY_KIND), st.booleans()), max_size=25)


def apply(zone: ClusterZone, obj: Service | EndpointSlice | Pod, *, gone: bool = False) -> None:
    if isinstance(obj, Service):
        (zone.remove_service if gone else zone.put_service)(obj)
    elif isinstance(obj, EndpointSlice):
        (zone.remove_slice if gone else zone.put_slice)(obj)
    else:
        (zone.remove_pod if gone else zone.put_pod)(obj)


@settings(max_examples=200, deadline=None)
@given(CHANGES)
def test_index_after_a_storm_is_that_of_a_new_server(changes: list[tuple[Service | EndpointSlice | Pod, bool]]) -> None:
    """Answers that were prepared on the way change with their records, and nothing stays of what is gone."""
    zone = ClusterZone("cluster.local")
    left: dict[tuple[str, str], Service | EndpointSlice | Pod] = {}
    for obj, gone in changes:
        apply(zone, obj, gone=gone)
        left.pop((obj.kind, obj.metadata.name), None)
        if not gone:
            left[obj.kind, obj.metadata.name] = obj
        # Prepares answers, which later changes must drop.
        asked = [look_up(zone, f"{name}.default.svc.cluster.local") for name in "ab"]
        asked += [look_up(zone, "_http._tcp.a.default.svc.cluster.local", "SRV")]
        new = ClusterZone("cluster.local")
        for one in left.values():
            apply(new, one)
        assert asked == [
            *(look_up(new, f"{name}.default.svc.cluster.local") for name in "ab"),
            look_up(new, "_http._tcp.a.default.svc.cluster.local", "SRV"),
        ]
    for obj in list(left.values()):
        apply(zone, obj, gone=True)
    empty = ClusterZone("cluster.local")
    assert zone._sets == empty._sets
    assert zone._below == empty._below


async def test_zone_follows_the_api() -> None:
    api = MemoryApi(SystemClock())
    zone, informers = ClusterZone("cluster.local"), Informers(client=api, clock=SystemClock())
    zone.listen(informers)
    await api.create(SERVICES, service("db", "None"), namespace="default")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informers.run(ready := asyncio.Event()))
        await ready.wait()
        assert look_up(zone, "db.default.svc.cluster.local") == (Rcode.NXDOMAIN, set())
        await api.create(ENDPOINT_SLICES, endpoints("db-1", "db", "10.1.0.1"), namespace="default")
        await api.create(PODS, pod("db-0", "10.1.0.1"), namespace="default")
        found = (Rcode.NOERROR, {"10-1-0-1.default.pod.cluster.local. 10.1.0.1"})
        async with asyncio.timeout(10):
            while look_up(zone, "10-1-0-1.default.pod.cluster.local") != found:
                await asyncio.sleep(0.01)
        assert look_up(zone, "db.default.svc.cluster.local") == (0, {"db.default.svc.cluster.local. 10.1.0.1"})
        await api.delete(ENDPOINT_SLICES, "db-1", namespace="default")
        async with asyncio.timeout(10):
            while look_up(zone, "db.default.svc.cluster.local")[0] != Rcode.NXDOMAIN:
                await asyncio.sleep(0.01)
        task.cancel()


def test_names_that_exist_without_records_of_the_type_are_told_from_those_that_do_not() -> None:
    zone = ClusterZone("cluster.local")
    zone.put_service(service("web"))
    for name, type in [
        ("web.default.svc.cluster.local", "AAAA"),
        ("web.default.svc.cluster.local", "MX"),
        ("default.svc.cluster.local", "A"),
        ("_tcp.web.default.svc.cluster.local", "SRV"),
        ("cluster.local", "A"),
    ]:
        assert look_up(zone, name, type) == (Rcode.NOERROR, set()), name
    for name in ["no.default.svc.cluster.local", "x.web.default.svc.cluster.local", "*.default.svc.cluster.local"]:
        assert look_up(zone, name) == (Rcode.NXDOMAIN, set()), name
    for name in ["local", "example.com", "xcluster.local", "9.9.9.9.in-addr.arpa", "cluster.local.example.com"]:
        assert look_up(zone, name, "PTR") == (-1, set()), name
    assert look_up(zone, "5.0.96.10.in-addr.arpa", "PTR")[1] == {
        "5.0.96.10.in-addr.arpa. web.default.svc.cluster.local."
    }
    assert look_up(zone, "cluster.local", "SOA")[0] == Rcode.NOERROR
    assert look_up(zone, "cluster.local", "NS")[1] == {"cluster.local. kube-dns.kube-system.svc.cluster.local."}


def test_name_that_only_looks_like_the_zones_is_not() -> None:
    """A label may contain the bytes of the zone's name."""
    zone = ClusterZone("cluster.local")
    assert zone.answer(b"\x08\x07cluster\x05local\x00", 1) is None


def test_ports_of_a_slice_change_with_it() -> None:
    zone, old = ClusterZone("cluster.local"), endpoints("db-1", "db", "10.1.0.1")
    zone.put_service(service("db", "None"))
    zone.put_slice(old)
    zone.put_slice(replace(old, ports=(EndpointPort(name="http", port=9090, protocol="TCP"),)))
    name, target = "_http._tcp.db.default.svc.cluster.local", "10-1-0-1.db.default.svc.cluster.local."
    assert look_up(zone, name, "SRV") == (0, {f"{name}. 0 100 9090 {target}"})


def test_endpoints_take_turns_at_the_first_place() -> None:
    zone = ClusterZone("cluster.local")
    zone.put_service(service("db", "None"))
    zone.put_slice(endpoints("db-1", "db", "10.1.0.1", "10.1.0.2", "10.1.0.3"))
    query = read_query(dns.message.make_query("db.default.svc.cluster.local", "A").to_wire())
    firsts = set()
    for _ in range(3):
        found = zone.answer(query.name, query.type)
        assert found is not None
        firsts.add(found.sections.answer[0][-4:])
    assert len(firsts) == 3


def test_aliases_are_followed_in_the_zone_and_left_to_others_outside() -> None:
    zone = ClusterZone("cluster.local")
    for name, target in [
        ("one", "two.default.svc.cluster.local"),
        ("out", "www.example.com"),
        ("self", "self.default.svc.cluster.local"),
    ]:
        zone.put_service(service(name, "", type="ExternalName", external_name=target))
    zone.put_service(service("two"))
    query = dns.message.make_query("one.default.svc.cluster.local", "A")
    found = zone.answer(read_query(query.to_wire()).name, 1)
    assert found is not None
    assert (len(found.sections.answer), found.alias) == (2, b"")
    zone.remove_service(service("two"))
    assert look_up(zone, "one.default.svc.cluster.local", "CNAME")[0] == Rcode.NOERROR
    outside = zone.answer(b"\x03out\x07default\x03svc\x07cluster\x05local\x00", 1)
    assert outside is not None
    assert outside.alias == b"\x03www\x07example\x03com\x00"
    circle = zone.answer(b"\x04self\x07default\x03svc\x07cluster\x05local\x00", 1)
    assert circle is not None
    assert len(circle.sections.answer) <= 8
