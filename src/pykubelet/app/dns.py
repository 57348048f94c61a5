"""Composes the cluster DNS: the Service `kube-dns`, the server, and what it knows."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import Runner, running, with_ready_event
from pykubelet.api.errors import ApiError
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.dns.clients import DnsClients
from pykubelet.dns.forwarder import DnsForwarder, ResolvConf
from pykubelet.dns.listener import DnsListener
from pykubelet.dns.server import PORT, DnsServer
from pykubelet.dns.service import KubeDnsService
from pykubelet.dns.zone import ClusterZone
from pykubelet.podnetwork.pod_side import PodSidePlace
from pykubelet.runtimes.dns import RESOLV_CONF

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RunningDns:
    """A running DNS server: the Service's address, and what has to subscribe to the cluster's informers."""

    cluster_ip: str
    is_reachable: bool
    """Whether the machine has an address at which pods reach the server."""
    listeners: Sequence[Callable[[Informers], None]]


@asynccontextmanager
async def open_dns(
    *,
    client: Client,
    clock: Clock,
    cluster_ip: str,
    domain: str,
    pod_networks: Sequence[str] = (),
    place: PodSidePlace | None = None,
) -> AsyncIterator[RunningDns]:
    """Run the cluster DNS while the context lasts. It knows no names before `listeners` have subscribed.

    `cluster_ip` is the Service's address if it is free; `pod_networks` are ranges of pods besides those of nodes, which
    reach the server at `place`.
    """
    place = place or PodSidePlace()
    service = KubeDnsService(client=client, cluster_ip=cluster_ip)
    try:
        cluster_ip = await service.ensure()
    except ApiError as error:
        # As on a full disk, which must not keep the cluster from starting; it is tried again later.
        log.warning("service of the cluster DNS not created", cause=str(error))
    zone, clients = ClusterZone(domain), DnsClients(networks=pod_networks, time=clock.monotonic)
    # A resolv.conf that names the cluster DNS, as one that was copied from a pod, would send questions in a circle.
    conf = ResolvConf(RESOLV_CONF, excluded=frozenset({cluster_ip}))
    forwarder = DnsForwarder(conf, time=clock.monotonic)
    server = DnsServer(zone=zone, forwarder=forwarder, is_allowed=clients.allows)
    listener = DnsListener(server=server, place=place, moved=service.set_endpoint, port=PORT)
    listens = asyncio.Event()
    runners: dict[str, Runner] = {
        "cluster dns": with_ready_event(listener.run, listens),
        "service of cluster dns": with_ready_event(service.run),
    }
    async with running(runners):
        await listens.wait()
        yield RunningDns(cluster_ip, bool(place.current()[0]), (zone.listen, clients.listen, service.listen))
