"""The DNS server on loopback, asked with dig and with messages that no resolver sends."""

import asyncio
import random  # noqa: TID251  damages messages; the seed is shown
from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path

import dns.message
import pytest

from dns_lab import DnsLab, UpstreamServer, dns_lab, needs_dig, upstream_server
from pykubelet.api.generated.core import Service, ServicePort, ServiceSpec
from pykubelet.api.generated.discovery import Endpoint, EndpointPort, EndpointSlice
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.dns.forwarder import DnsForwarder, ResolvConf
from pykubelet.dns.message import read_query
from pykubelet.dns.records import SERVICE_NAME
from pykubelet.dns.zone import ClusterZone

pytestmark = needs_dig
DOMAIN = "default.svc.cluster.local"


def fill(zone: ClusterZone) -> None:
    """A service with an address, a headless one with 100 endpoints, and one with an external name."""
    ports = (ServicePort(name="http", port=80, protocol="TCP"),)
    for name, spec in [
        ("web", ServiceSpec(cluster_ip="10.96.0.5", cluster_ips=("10.96.0.5", "fd00::5"), ports=ports)),
        ("db", ServiceSpec(cluster_ip="None", ports=ports)),
        ("out", ServiceSpec(type="ExternalName", external_name="www.example.test")),
    ]:
        zone.put_service(Service(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))
    zone.put_slice(
        EndpointSlice(
            metadata=ObjectMeta(name="db-1", namespace="default", labels={SERVICE_NAME: "db"}),
            endpoints=tuple(Endpoint(addresses=(f"10.1.0.{n}",), hostname=f"db-{n}") for n in range(1, 101)),
            ports=(EndpointPort(name="pg", port=5432, protocol="TCP"),),
        )
    )


@pytest.fixture
async def upstream() -> AsyncIterator[UpstreamServer]:
    async with upstream_server() as server:
        yield server


@pytest.fixture
async def lab(upstream: UpstreamServer, tmp_path: Path) -> AsyncIterator[DnsLab]:
    async with dns_lab(tmp_path, upstream_port=upstream.port) as found:
        fill(found.zone)
        yield found


async def test_dig_finds_the_records_of_services(lab: DnsLab) -> None:
    assert await lab.short(f"web.{DOMAIN}") == ["10.96.0.5"]
    assert await lab.short(f"web.{DOMAIN}", "AAAA") == ["fd00::5"]
    assert await lab.short(f"db-7.db.{DOMAIN}") == ["10.1.0.7"]
    assert await lab.short(f"_http._tcp.web.{DOMAIN}", "SRV") == [f"0 100 80 web.{DOMAIN}."]
    assert await lab.short("-x", "10.96.0.5") == [f"web.{DOMAIN}."]
    assert await lab.short("-x", "10.1.0.7") == [f"db-7.db.{DOMAIN}."]
    assert await lab.short("-x", "fd00::5") == [f"web.{DOMAIN}."]
    assert await lab.short("dns-version.cluster.local", "TXT") == ['"1.1.0"']
    srv = await lab.dig(f"_http._tcp.web.{DOMAIN}", "SRV")
    assert f"web.{DOMAIN}. 5 IN A 10.96.0.5" in srv.partition("ADDITIONAL SECTION")[2]


async def test_case_of_the_question_is_kept(lab: DnsLab) -> None:
    printed = await lab.dig("WeB.Default.SVC.cluster.LOCAL")
    assert "WeB.Default.SVC.cluster.LOCAL. 5 IN" in printed
    assert "flags: qr aa rd ra" in printed


async def test_negative_answers_have_a_soa(lab: DnsLab) -> None:
    for name, type, status in [(f"no.{DOMAIN}", "A", "NXDOMAIN"), (f"web.{DOMAIN}", "MX", "NOERROR")]:
        printed = await lab.dig(name, type)
        assert f"status: {status}" in printed
        authority = printed.partition("AUTHORITY SECTION")[2]
        assert "cluster.local. 5 IN SOA kube-dns.kube-system.svc.cluster.local. hostmaster.cluster.local." in authority


async def test_long_answers_are_truncated_over_udp_and_whole_over_tcp(lab: DnsLab) -> None:
    """512 bytes without EDNS, 1232 at most with it; dig asks again over TCP by itself."""
    plain = await lab.dig("+noedns", "+ignore", f"db.{DOMAIN}")
    edns = await lab.dig("+bufsize=4096", "+ignore", f"db.{DOMAIN}")
    for printed, most in [(plain, 512), (edns, 1232)]:
        assert " tc " in printed.partition("flags:")[2].partition(";")[0]
        size = int(printed.rpartition("MSG SIZE rcvd: ")[2])
        assert most - 40 < size <= most
    assert "udp: 1232" in edns
    assert len(await lab.short(f"db.{DOMAIN}")) == 100
    assert len(await lab.short("+tcp", f"_pg._tcp.db.{DOMAIN}", "SRV")) == 100


async def test_what_is_not_offered_is_refused(lab: DnsLab) -> None:
    for arguments, status in [
        (("+opcode=NOTIFY", f"web.{DOMAIN}"), "NOTIMP"),
        (("+noedns", "+opcode=UPDATE", f"web.{DOMAIN}"), "NOTIMP"),
        ((f"web.{DOMAIN}", "CH", "TXT"), "REFUSED"),
        (("+edns=5", "+noednsneg", f"web.{DOMAIN}"), "BADVERS"),
    ]:
        assert f"status: {status}" in await lab.dig(*arguments)
    assert "Transfer failed" in await lab.dig("cluster.local", "AXFR")


async def test_other_names_are_forwarded_and_remembered(lab: DnsLab, upstream: UpstreamServer) -> None:
    for _ in range(3):
        assert await lab.short("www.example.test") == ["192.0.2.53", "real.www.example.test."]
    assert "status: NXDOMAIN" in await lab.dig("missing.test")
    assert "status: NXDOMAIN" in await lab.dig("missing.test")
    assert "status: SERVFAIL" in await lab.dig("broken.test")
    assert upstream.asked == ["www.example.test. udp", "missing.test. udp", "broken.test. udp"]
    assert "192.0.2.53" in await lab.short("WWW.example.test")
    assert len(upstream.asked) == 3
    assert len({*zip(upstream.ids, upstream.ports, strict=True)}) == 3


async def test_truncated_answers_of_other_servers_pass_through(lab: DnsLab, upstream: UpstreamServer) -> None:
    assert len(await lab.short("long.test")) == 100
    assert upstream.asked == ["long.test. udp", "long.test. tcp"]


async def test_external_names_are_followed(lab: DnsLab, upstream: UpstreamServer) -> None:
    assert await lab.short(f"out.{DOMAIN}") == ["192.0.2.53", "real.www.example.test.", "www.example.test."]
    assert await lab.short(f"out.{DOMAIN}", "CNAME") == ["www.example.test."]
    assert upstream.asked == ["www.example.test. udp"]


async def test_forged_responses_are_ignored(lab: DnsLab, upstream: UpstreamServer) -> None:
    upstream.is_lying, upstream.delay_seconds = True, 0.05
    assert await lab.short("www.example.test") == ["192.0.2.53", "real.www.example.test."]


async def test_same_question_of_many_is_sent_once(lab: DnsLab, upstream: UpstreamServer) -> None:
    upstream.delay_seconds = 0.3
    questions = [dns.message.make_query("www.example.test", "A").to_wire() for _ in range(50)]
    found = await asyncio.gather(*map(lab.send, questions))
    assert [one[:2] for one in found if one] == [one[:2] for one in questions]
    assert len(upstream.asked) == 1


async def test_questions_that_wait_are_bounded_and_the_cluster_is_answered_meanwhile(
    lab: DnsLab, upstream: UpstreamServer
) -> None:
    """One client has at most half of the places; more of its questions get SERVFAIL at once."""
    upstream.held = []
    questions = [dns.message.make_query(f"n{n}.test", "A").to_wire() for n in range(200)]
    asked = [asyncio.create_task(lab.send(question)) for question in questions]
    refused = [await answer for answer in islice(asyncio.as_completed(asked), 200 - 128)]
    assert await lab.send(dns.message.make_query(f"web.{DOMAIN}", "A").to_wire()) is not None
    assert sum(task.done() for task in asked) == len(refused)
    held, upstream.held = upstream.held, None
    for send in held:
        send()
    codes = [dns.message.from_wire(one).rcode() for one in await asyncio.gather(*asked) if one]
    assert (len(codes), codes.count(dns.rcode.SERVFAIL)) == (200, len(refused))


async def test_without_a_server_the_answer_is_servfail(lab: DnsLab, upstream: UpstreamServer) -> None:
    """Also where resolv.conf names only this server itself, and until it names another one."""
    lab.resolv_conf.write_text("")
    assert "status: SERVFAIL" in await lab.dig("one.test")
    lab.resolv_conf.unlink()
    await asyncio.sleep(1.1)
    assert "status: SERVFAIL" in await lab.dig("two.test")
    # Nothing listens at the first address.
    lab.resolv_conf.write_text("nameserver 127.0.0.9\nnameserver 127.0.0.1\n")
    await asyncio.sleep(1.1)
    assert await lab.short("three.test") == ["192.0.2.53", "real.three.test."]
    assert upstream.asked == ["three.test. udp"]


async def test_server_does_not_ask_itself(upstream: UpstreamServer, tmp_path: Path) -> None:
    async with dns_lab(tmp_path, upstream_port=upstream.port, excluded=["127.0.0.1"]) as lab:
        assert "status: SERVFAIL" in await lab.dig("www.example.test")
    assert upstream.asked == []


async def test_clients_elsewhere_get_nothing(tmp_path: Path) -> None:
    async with dns_lab(tmp_path, is_allowed=lambda _: False) as lab:
        fill(lab.zone)
        query = dns.message.make_query(f"web.{DOMAIN}", "A").to_wire()
        assert await lab.send(query, seconds=0.5) is None
        reader, writer = await asyncio.open_connection("127.0.0.1", lab.port)
        writer.write(len(query).to_bytes(2, "big") + query)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(2)
        writer.close()


async def test_pod_that_asks_before_it_is_known_gets_its_answer(tmp_path: Path) -> None:
    """Its address reaches the API a moment after it has started; it would ask again only after seconds."""
    known: list[str] = []
    async with dns_lab(tmp_path, is_allowed=lambda address: address in known) as lab:
        fill(lab.zone)
        asked = asyncio.gather(lab.send(dns.message.make_query(f"web.{DOMAIN}", "A").to_wire(), seconds=20))
        await asyncio.sleep(0.1)
        known.append("127.0.0.1")
        assert (await asked)[0] is not None


async def test_remembered_answers_grow_old(upstream: UpstreamServer, tmp_path: Path) -> None:
    """The time to live that is left is what clients get, and after half a minute another server is asked again."""
    conf, now = tmp_path / "resolv.conf", [0.0]
    conf.write_text("nameserver 127.0.0.1\n")
    forwarder = DnsForwarder(ResolvConf(conf, port=upstream.port), time=lambda: now[0])
    query = read_query(dns.message.make_query("www.example.test", "A").to_wire())
    await forwarder.resolve(query, "client", tcp=False)
    for seconds, left in [(0.0, 60), (10.5, 50), (29.9, 31)]:
        now[0] = seconds
        found = forwarder.cached(query)
        assert found is not None
        assert {rows.ttl for rows in dns.message.from_wire(found).answer} == {left}
    now[0] = 30.0
    assert forwarder.cached(query) is None


async def test_noise_does_not_end_the_server(lab: DnsLab) -> None:
    """Damaged queries are answered or dropped, over UDP and TCP, and the next good one is answered."""
    seed = random.randrange(2**32)
    rng, good = random.Random(seed), dns.message.make_query(f"web.{DOMAIN}", "A", use_edns=0).to_wire()
    _, writer = await asyncio.open_connection("127.0.0.1", lab.port)
    for _ in range(300):
        damaged = bytearray(good)
        for _ in range(rng.randint(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        await lab.send(bytes(damaged[: rng.randint(1, len(damaged))]), seconds=0.001)
        writer.write(len(damaged).to_bytes(2, "big") + damaged)
    assert await lab.short(f"web.{DOMAIN}") == ["10.96.0.5"], f"seed {seed}"
    assert await lab.short("+tcp", f"web.{DOMAIN}") == ["10.96.0.5"], f"seed {seed}"
    writer.close()


async def test_questions_of_one_connection_are_answered_in_order(lab: DnsLab) -> None:
    """Pipelined, with one that is forwarded in between, and cut into single bytes."""
    names = [f"web.{DOMAIN}", "www.example.test", f"db-1.db.{DOMAIN}", f"no.{DOMAIN}"]
    queries = [dns.message.make_query(name, "A") for name in names]
    wire = b"".join(len(one.to_wire()).to_bytes(2, "big") + one.to_wire() for one in queries)
    reader, writer = await asyncio.open_connection("127.0.0.1", lab.port)
    for byte in wire[:60]:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0)
    writer.write(wire[60:])
    for query in queries:
        size = int.from_bytes(await reader.readexactly(2), "big")
        assert query.is_response(dns.message.from_wire(await reader.readexactly(size)))
    writer.close()


async def test_too_large_questions_and_floods_end_their_connection_only(lab: DnsLab) -> None:
    for sent in [b"\xff\xff" + bytes(100), b"\x10\x00" + bytes(20_000)]:
        reader, writer = await asyncio.open_connection("127.0.0.1", lab.port)
        writer.write(sent)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(2)
        writer.close()
    assert await lab.short("+tcp", f"web.{DOMAIN}") == ["10.96.0.5"]


async def test_idle_connections_make_room_for_questions(lab: DnsLab) -> None:
    """More connections than the server keeps do not keep another client waiting for long."""
    opened = [await asyncio.open_connection("127.0.0.1", lab.port) for _ in range(300)]
    for _, writer in opened:
        writer.write(b"\x00")
    assert await lab.short("+tcp", f"web.{DOMAIN}") == ["10.96.0.5"]
    for _, writer in opened:
        writer.close()
