"""Composes the service proxy: as a program for any cluster, and beside the node of `up`.

One proxy works in a network namespace. Another `up` on the same machine runs on without one, and takes over when the
first has ended.

Upstream: cmd/kube-proxy/app/server.go, cmd/kube-proxy/app/server_linux.go
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import Runner, running, with_ready_event
from pykubelet.api.generated.core import EventSource
from pykubelet.apiserver.admission.services import CLUSTER_IP_RANGE
from pykubelet.app import program
from pykubelet.app.pod_network import MACHINE_NETWORK, NodeNetwork
from pykubelet.app.program import Say, read_rest_config, tune_garbage_collection
from pykubelet.app.settings import CannotStart, ProxySettings
from pykubelet.client.interface import Client
from pykubelet.client.recorder import WARNING, Recorder
from pykubelet.client.reflector import ListerWatcher
from pykubelet.client.rest import RestClient
from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.listener import LOOPBACK, with_port
from pykubelet.kubelet.nodestatus.machine import node_ip
from pykubelet.kubelet.nodestatus.node_status import node_reference
from pykubelet.podnetwork.holder_client import HolderClient
from pykubelet.proxy.healthcheck.proxy_health import ProxyHealth, serving_plain
from pykubelet.proxy.healthcheck.service_health import ServiceHealthServer
from pykubelet.proxy.lock import LockHeldError, ProxyLock
from pykubelet.proxy.nftables.nft import Nft, NftError, machine_families
from pykubelet.proxy.nftables.proxier import Proxier
from pykubelet.proxy.nftables.services import ServiceTables
from pykubelet.proxy.nodeport_addresses import NodePortAddresses
from pykubelet.proxy.userspace.node_ports import NodePortRelay

log = get_logger(__name__)

COMPONENT = "kube-proxy"
"""The component of events; tools search for it."""
_LOCK_SECONDS = 5.0
"""How often a proxy that waits for another one to end tries again."""
_FIRST_RULES_SECONDS = 5.0
"""How long a node waits for the first rules; usually they take some hundredths of a second."""
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


def run(settings: ProxySettings, *, say: Say) -> None:
    """Run the proxy until SIGINT or SIGTERM; the rules stay. CannotStart if it may not, or another one runs."""

    async def main(clock: Clock, stop: asyncio.Event) -> None:
        access, nft = read_rest_config(settings.kubeconfig, clock), await _usable_nft()
        ready, health = asyncio.Event(), ProxyHealth(clock)

        async def announce() -> None:
            await ready.wait()
            say("ready proxy")
            tune_garbage_collection()

        with _lock():
            async with RestClient(access, clock=clock) as client, _serving_health(settings, health):
                recorder = _recorder(client, clock, settings.node_name)
                proxier = await _proxier(nft, client, clock, settings, health, recorder)
                runners: dict[str, Runner] = {
                    "proxy": partial(proxier.run, ready),
                    "announcement": announce,
                    "events": with_ready_event(recorder.run),
                }
                async with running(runners):
                    await stop.wait()

    program.run(main)


def cleanup(_settings: object, *, say: Say) -> None:
    """Delete the rules that a proxy left. CannotStart if it still runs, or this user may not."""
    was_there = asyncio.run(remove_rules())
    say("the rules of Services are deleted" if was_there else "there are no rules of Services")


async def remove_rules() -> bool:
    """Delete the rules that a proxy left in this network namespace; returns whether there were any.

    CannotStart if a proxy still runs, or this user may not change nftables.
    """
    nft = await _usable_nft()
    with _lock():
        try:
            return await nft.cleanup()
        except NftError as error:
            raise CannotStart(f"the rules of Services are not deleted: {error}") from error


async def claim(holder: HolderClient | None = None) -> ProxyLock | None:
    """The lock for `beside_node`, held, if the proxy can run now. Only then pods may depend on addresses of Services."""
    if await Nft(holder).problem():
        return None
    try:
        return _proxy_lock(holder).acquire()
    except (LockHeldError, OSError):
        return None


def _proxy_lock(holder: HolderClient | None) -> ProxyLock:
    """The lock of the network that has the rules: only root can make the file of the machine's."""
    return ProxyLock() if holder is None else ProxyLock(Path(holder.holder))


@asynccontextmanager
async def beside_node(
    *, client: Client, clock: Clock, node_name: str, lock: ProxyLock | None, network: NodeNetwork = MACHINE_NETWORK
) -> AsyncIterator[None]:
    """Run the proxy of a machine that also runs a node while the context lasts; it never keeps the node from running.

    With a lock it first writes the rules that there are: pods that start without them do not even find the cluster DNS,
    and wait seconds for each name. The rules are where the pods are, in `network`.
    """
    holder = network.holder
    recorder = _recorder(client, clock, node_name)

    def report(problem: str) -> None:
        log.warning("Services have no addresses on this machine", reason=problem)
        message = f"Services have no addresses on this machine: {problem}"
        recorder.event(node_reference(node_name), WARNING, "ServiceProxyNotRunning", message)

    written = asyncio.Event()
    lock_there = lock or _proxy_lock(holder)
    work = partial(_when_possible, client, clock, node_name, lock_there, report, recorder, written, holder)
    runners: dict[str, Runner] = {"events of the proxy": with_ready_event(recorder.run), "proxy": work}
    if holder is not None:
        runners["node ports"] = partial(_relay_node_ports, client, clock, node_name, recorder, network.dialer)
    async with running(runners):
        if lock is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_RULES_SECONDS):
                    await written.wait()
        yield


async def _relay_node_ports(
    client: ListerWatcher, clock: Clock, node_name: str, recorder: Recorder, dialer: Dialer
) -> None:
    """Relay node ports: rules in the network of a holder do not apply to what reaches the machine."""
    found = await asyncio.to_thread(node_ip, node_name)
    # Other than kube-proxy's rules, a relay can listen on loopback too.
    addresses = tuple(dict.fromkeys((LOOPBACK, found or LOOPBACK)))
    relay = NodePortRelay(client=client, clock=clock, dialer=dialer, recorder=recorder, addresses=addresses)
    await relay.run(asyncio.Event())


async def _when_possible(
    client: ListerWatcher,
    clock: Clock,
    node_name: str,
    lock: ProxyLock,
    report: Callable[[str], None],
    recorder: Recorder,
    written: asyncio.Event,
    holder: HolderClient | None,
) -> None:
    """Run the proxy once no other one does; returns if this machine or user cannot have one. Reports one problem.

    Sets `written` when the kernel has the first rules.
    """
    nft, is_reported = Nft(holder), False
    settings = ProxySettings(kubeconfig=Path(), node_name=node_name, service_cidrs=(str(CLUSTER_IP_RANGE),))
    if problem := await nft.problem():
        report(problem)
        return
    while True:
        try:
            with lock:
                proxier = await _proxier(nft, client, clock, settings, ProxyHealth(clock), recorder, holder)
                await proxier.run(written)
        except LockHeldError as error:
            if not is_reported:
                report(f"{error}")
            is_reported = True
        except OSError as error:
            report(f"{error.filename}: {error.strerror}")
            return
        await asyncio.sleep(_LOCK_SECONDS)


async def _proxier(
    nft: Nft,
    client: ListerWatcher,
    clock: Clock,
    settings: ProxySettings,
    health: ProxyHealth,
    recorder: Recorder,
    holder: HolderClient | None = None,
) -> Proxier:
    # A holder always forwards.
    if holder is None and await asyncio.to_thread(_is_forwarding_off):
        # Turning it on makes the machine a router, which its owner has to decide.
        log.warning(
            "Services do not reach pods with addresses of their own: forwarding is off", set="net.ipv4.ip_forward=1"
        )
    tables = ServiceTables(
        node_name=settings.node_name,
        families=machine_families(),
        cluster_cidrs=settings.cluster_cidrs,
        service_cidrs=settings.service_cidrs,
        masquerade_all=settings.masquerade_all,
    )
    machine_ip = await asyncio.to_thread(node_ip, settings.node_name)
    return Proxier(
        client=client,
        clock=clock,
        nft=nft,
        node_name=settings.node_name,
        tables=tables,
        node_ports=NodePortAddresses(machine_ip=machine_ip, cidrs=settings.nodeport_addresses),
        health=health,
        service_health=ServiceHealthServer(
            endpoints=tables.local_ready, is_proxy_healthy=lambda: health.is_healthy, events=recorder
        ),
    )


def _recorder(client: Client, clock: Clock, node_name: str) -> Recorder:
    return Recorder(sink=client, source=EventSource(component=COMPONENT, host=node_name), clock=clock)


@asynccontextmanager
async def _serving_health(settings: ProxySettings, health: ProxyHealth) -> AsyncIterator[None]:
    """Serve the health of the proxy; CannotStart if its address is taken."""
    async with AsyncExitStack() as stack:
        if settings.healthz_bind_address is not None:
            address, port = settings.healthz_bind_address
            try:
                await stack.enter_async_context(serving_plain(address, port, health.handle))
            except OSError as error:
                message = f"the health of the proxy cannot be served on {with_port(address, port)}: {os.strerror(error.errno or 0)}"
                raise CannotStart(f"{message}; choose another address with --healthz-bind-address") from error
        yield


def _is_forwarding_off() -> bool:
    return _FORWARDING.exists() and _FORWARDING.read_text().strip() == "0"


async def _usable_nft() -> Nft:
    nft = Nft()
    if problem := await nft.problem():
        raise CannotStart(f"the service proxy cannot run: {problem}")
    return nft


@contextmanager
def _lock() -> Iterator[None]:
    """Hold the lock; CannotStart if another process does, or this user cannot."""
    with ExitStack() as stack:
        try:
            stack.enter_context(ProxyLock())
        except LockHeldError as error:
            raise CannotStart(f"{error}: stop it first") from error
        except OSError as error:
            raise CannotStart(f"{error.filename}: {error.strerror}") from error
        yield
