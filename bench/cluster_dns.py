"""Measures the cluster's DNS server over UDP: answers per second, latency, CPU; and its index under changes. JSON.

The server is a process of its own and knows 1,000 services, each with 10 endpoints. A question is for a random one of them.
`rate` keeps a number of questions under way, so the client, which is Python too, uses one processor and the server another;
what a faster client could get is 1 / CPU. `paced` asks one question after the other with a pause between them.
"""

import argparse
import asyncio
import json
import os
import random  # noqa: TID251  a fixed seed chooses questions
import select
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

from machine import machine

from pykubelet.aio.clock import SystemClock
from pykubelet.api.generated.core import Service, ServicePort, ServiceSpec
from pykubelet.api.generated.discovery import Endpoint, EndpointPort, EndpointSlice
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.dns.forwarder import DnsForwarder, ResolvConf
from pykubelet.dns.message import encode_name
from pykubelet.dns.records import SERVICE_NAME
from pykubelet.dns.server import DnsServer, bind_sockets
from pykubelet.dns.zone import ClusterZone

SERVICES, ENDPOINTS = 1000, 10
UNDER_WAY = 32
CLOCK = SystemClock()
QUESTIONS = {
    "cluster_ip": "s{}.default.svc.cluster.local",
    "headless": "h{}.default.svc.cluster.local",
    "missing": "s{}.example.com.default.svc.cluster.local",
}


def service(number: int, *, headless: bool) -> Service:
    address = "None" if headless else f"10.96.{number // 250}.{number % 250 + 1}"
    meta = ObjectMeta(name=f"{'h' if headless else 's'}{number}", namespace="default")
    ports = (ServicePort(name="http", port=80, protocol="TCP"),)
    return Service(metadata=meta, spec=ServiceSpec(cluster_ip=address, cluster_ips=(address,), ports=ports))


def endpoints(number: int, count: int, *, first: int = 0) -> EndpointSlice:
    labels = {SERVICE_NAME: f"h{number}"}
    found = tuple(
        Endpoint(addresses=(f"10.{number // 256}.{number % 256}.{n}",)) for n in range(first + 1, first + count + 1)
    )
    ports = (EndpointPort(name="http", port=8080, protocol="TCP"),)
    return EndpointSlice(
        metadata=ObjectMeta(name=f"h{number}", namespace="default", labels=labels), endpoints=found, ports=ports
    )


def filled() -> ClusterZone:
    zone = ClusterZone("cluster.local")
    for number in range(SERVICES):
        zone.put_service(service(number, headless=False))
        zone.put_service(service(number, headless=True))
        zone.put_slice(endpoints(number, ENDPOINTS))
    return zone


async def serve() -> None:
    sockets = await bind_sockets("127.0.0.1", 0)
    conf = ResolvConf(Path(os.devnull))
    server = DnsServer(zone=filled(), forwarder=DnsForwarder(conf, time=CLOCK.monotonic), is_allowed=bool)
    print(sockets.port, flush=True)
    await server.run(sockets, asyncio.Event())


def question(text: str, rng: random.Random, id: int) -> bytes:
    name = encode_name(text.format(rng.randrange(SERVICES)))
    return struct.pack("!6H", id, 0x0100, 1, 0, 0, 1) + name + b"\0\1\0\1" + b"\0\0\x29\x04\xd0" + bytes(6)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return round(int(line.split()[1]) / 1024, 1)


def rate(asking: socket.socket, text: str, count: int, pid: int) -> dict[str, float]:
    """Keep questions under way until `count` are answered."""
    rng = random.Random(1)
    asked = [question(text, rng, n % 65_536) for n in range(count)]
    sent_at = [0.0] * 65_536
    times: list[float] = []
    next_one, before, begun = 0, cpu_seconds(pid), CLOCK.monotonic()
    while len(times) < count:
        while next_one < count and next_one - len(times) < UNDER_WAY:
            sent_at[next_one % 65_536] = CLOCK.monotonic()
            asking.send(asked[next_one])
            next_one += 1
        if not select.select([asking], [], [], 5)[0]:
            raise SystemExit("an answer was lost")
        while True:
            try:
                data = asking.recv(2048)
            except BlockingIOError:
                break
            times.append(CLOCK.monotonic() - sent_at[int.from_bytes(data[:2], "big")])
    seconds = CLOCK.monotonic() - begun
    return {
        "answers_per_second": round(count / seconds),
        "cpu_us_each": round((cpu_seconds(pid) - before) / count * 1e6, 1),
        **{f"{name}_ms": round(value * 1000, 3) for name, value in spread_ms(times).items()},
    }


def paced(asking: socket.socket, text: str, count: int) -> dict[str, float]:
    """Ask one question after the other, at most a thousand a second."""
    rng, times = random.Random(2), []
    for number in range(count):
        data, begun = question(text, rng, number % 65_536), CLOCK.monotonic()
        asking.send(data)
        select.select([asking], [], [], 5)
        asking.recv(2048)
        times.append(CLOCK.monotonic() - begun)
        time.sleep(0.001)  # noqa: TID251  the client of a measurement may block
    return {f"{name}_ms": round(value * 1000, 3) for name, value in spread_ms(times).items()}


def spread_ms(times: list[float]) -> dict[str, float]:
    """Median and p99, not rounded to whole tenths of milliseconds."""
    ordered = sorted(times)
    return {"p50": ordered[len(ordered) // 2], "p99": ordered[int(len(ordered) * 0.99)]}


def changes(count: int) -> dict[str, float]:
    """One endpoint of a slice of a hundred changes, in an index of 10,000 endpoints."""
    zone, times = filled(), []
    zone.put_slice(endpoints(0, 100))
    for number in range(count):
        new = endpoints(0, 99, first=number % 2)
        begun = CLOCK.monotonic()
        zone.put_slice(new)
        times.append(CLOCK.monotonic() - begun)
    return {f"{name}_ms": round(value * 1000, 3) for name, value in spread_ms(times).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="questions of each kind")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
        return
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        port = int(server.stdout.readline())
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.connect(("127.0.0.1", port))
            asking.setblocking(False)
            found = {kind: rate(asking, text, options.count, server.pid) for kind, text in QUESTIONS.items()}
            alone = paced(asking, QUESTIONS["cluster_ip"], min(options.count, 2000))
        memory = rss_mb(server.pid)
    finally:
        server.terminate()
        server.wait()
    figures = {"udp": found, "udp_paced": alone, "server_rss_mb": memory, "slice_change": changes(500)}
    print(json.dumps({"machine": machine(), "results": figures}, indent=2))


if __name__ == "__main__":
    main()
