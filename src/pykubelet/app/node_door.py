"""The node's own API put together: where it listens, whom it lets in, what it shows."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from pykubelet.agent.heartbeat import node_ip
from pykubelet.agent.loop import NodeLoop
from pykubelet.aio.clock import Clock
from pykubelet.app.node_ground import Ground
from pykubelet.app.node_pods import NodePods
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.kube.certificates.keeper import CertificateKeeper
from pykubelet.kube.certificates.pair_files import PairFiles
from pykubelet.kube.certificates.wish import serving_wish
from pykubelet.kube.client import Client
from pykubelet.kube.pem_files import Pem
from pykubelet.nodeapi.access.gate import Gate, OnlyCertificates
from pykubelet.nodeapi.access.reviews import Reviews
from pykubelet.nodeapi.app import App
from pykubelet.nodeapi.collaborators import Explanations
from pykubelet.nodeapi.commands import PodCommands
from pykubelet.nodeapi.front import Front, Pages
from pykubelet.nodeapi.logs import Logs
from pykubelet.nodeapi.reachability import reach
from pykubelet.nodeapi.serving import OwnRenewal, ServingError, listen, own_certificate, server_context
from pykubelet.nodeapi.stats.machine_usage import MachineReader
from pykubelet.nodeapi.stats.metric_pages import Collector
from pykubelet.nodeapi.stats.requests import RequestCounts
from pykubelet.nodeapi.stats.station import Stats
from pykubelet.runtime.watchdog import Watchdog

_RESYNC_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Where the node's API listens; nobody answers yet. `address` is how others reach it."""

    listener: socket.socket
    tls: ssl.SSLContext
    address: str
    knows_clients: bool
    """Whether somebody may be let in by a certificate."""

    @property
    def port(self) -> int:
        found: int = self.listener.getsockname()[1]
        return found


class ServerSeen(NamedTuple):
    """The API server of a node as the node's own API sees it: its URL, and who vouches for its clients."""

    url: str
    client_authority: Pem | None


@asynccontextmanager
async def open_door(settings: NodeSettings, *, server: ServerSeen | None, clock: Clock) -> AsyncIterator[Door]:
    """The socket of the node's API, for as long as the context lasts; CannotStart if it is not to be had."""
    door = await asyncio.to_thread(_open, settings, server or ServerSeen("", None), clock)
    with door.listener:
        yield door


def _open(settings: NodeSettings, server: ServerSeen, clock: Clock) -> Door:
    bind, address = reach(settings.bind, server.url, node_ip(settings.node_name))
    authority = server.client_authority
    if settings.client_ca is not None:
        authority = Pem("--client-ca", path=str(settings.client_ca))
    try:
        files = own_certificate(settings.root_dir / "pki", [address, settings.node_name], clock.now())
        tls = server_context(files, authority)
        return Door(listener=listen(bind, settings.port), tls=tls, address=address, knows_clients=authority is not None)
    except ServingError as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        place = error.filename or f"the node's API cannot listen on {bind}:{settings.port}"
        raise CannotStart(f"{place}: {error.strerror or error}") from error


def own_renewal(door: Door, settings: NodeSettings, *, clock: Clock) -> OwnRenewal:
    """Makes the node's own certificate anew before it ends; connections from then on get it."""
    names = (door.address, settings.node_name)
    return OwnRenewal(settings.root_dir / "pki", names, changed=door.tls.load_cert_chain, clock=clock)


def serving_certificate(door: Door, settings: NodeSettings, *, client: Client, clock: Clock) -> CertificateKeeper:
    """Has the API server sign the certificate that the node's API shows; connections from then on get it."""
    wish = serving_wish(settings.node_name, [door.address, settings.node_name])
    files = PairFiles(settings.root_dir / "pki", wish.file_name)
    return CertificateKeeper(client=client, wish=wish, files=files, clock=clock, changed=door.tls.load_cert_chain)


@asynccontextmanager
async def answering(
    door: Door,
    *,
    ground: Ground,
    known: NodePods,
    watchdog: Watchdog,
    loop: NodeLoop,
    explanations: Explanations,
    collectors: Iterable[Collector] = (),
) -> AsyncIterator[None]:
    """The node's API answers, for as long as the context lasts."""
    parts, clock, client, counts = ground.runtime, ground.clock, ground.client, RequestCounts()
    judge = Reviews(api=client, node_name=ground.name, clock=clock) if client is not None else OnlyCertificates()
    machine = MachineReader(data_dir=ground.settings.root_dir, clock=clock)
    pages = Pages(
        pods=known.pods,
        statuses=known.statuses,
        runtime=parts.runtime,
        stats=Stats(node_name=ground.name, machine=machine, runtime=parts.runtime, usages=parts.usages),
        checks={"syncloop": lambda: loop.stuck_error(_RESYNC_SECONDS)},
        explanations=explanations,
        collectors=[counts, *collectors],
        probe_collectors=[known.probes.counts],
    )
    looks = watchdog.cache
    front = Front(
        gate=Gate(judge),
        pages=pages,
        logs=Logs(pods=known.pods, statuses=known.statuses, looks=looks, paths=ground.logs, clock=clock),
        commands=PodCommands(pods=known.pods, looks=looks, streams=parts.streams, commands=parts.commands),
    )
    async with App(front, counts).serving(door.listener, door.tls):
        yield
