"""Composes the service proxy: as a program for any cluster, and beside the node of `up`.

One proxy works in a network namespace. Another `up` on the same machine runs on without one, and takes over when the
first has ended.

Upstream: cmd/kube-proxy/app/server.go, cmd/kube-proxy/app/server_linux.go
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.aio.tasks import Runner, running, with_ready_event
from pykubelet.api.generated.core import EventSource
from pykubelet.app import program
from pykubelet.app.node_network import MACHINE_NETWORK, NodeNetwork
from pykubelet.app.program import Say, read_rest_config, tune_garbage_collection
from pykubelet.app.settings import CannotStart, ProxySettings
from pykubelet.client.interface import Client
from pykubelet.client.recorder import WARNING, Recorder
from pykubelet.client.reflector import ListerWatcher
from pykubelet.client.rest import RestClient
from pykubelet.httpserver.dialer import Dialer
from pykubelet.httpserver.listener import LOOPBACK
from pykubelet.kubelet.nodestatus.machine import node_ip
from pykubelet.kubelet.nodestatus.node_status import node_reference
from pykubelet.podnetwork.holder_client import HolderClient
from pykubelet.proxy.conntrack import open_conntrack
from pykubelet.proxy.lock import LockHeldError, ProxyLock
from pykubelet.proxy.nftables.nft import Nft, NftError, machine_families
from pykubelet.proxy.nftables.proxier import Proxier
from pykubelet.proxy.nftables.services import ServiceTables
from pykubelet.proxy.userspace.node_ports import NodePortRelay

log = get_logger(__name__)

COMPONENT = "kube-proxy"
"""The component of events; tools search for it."""
_LOCK_SECONDS = 5.0
"""How often a proxy that waits for another one to end tries again."""
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


def run(settings: ProxySettings, *, say: Say) -> None:
    """Run the proxy until SIGINT or SIGTERM; the rules stay. CannotStart if it may not, or another one runs."""

    async def main(clock: Clock, stop: asyncio.Event) -> None:
        access, nft = read_rest_config(settings.kubeconfig, clock), await _usable_nft()
        ready = asyncio.Event()

        async def announce() -> None:
            await ready.wait()
            say("ready proxy")
            tune_garbage_collection()

        with _lock():
            async with RestClient(access, clock=clock) as client:
                proxier = await _proxier(nft, client, clock, settings.node_name, settings.cluster_cidrs)
                runners: dict[str, Runner] = {"proxy": partial(proxier.run, ready), "announcement": announce}
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
    if await _nft(holder).problem():
        return None
    try:
        return _proxy_lock(holder).acquire()
    except (LockHeldError, OSError):
        return None


def _nft(holder: HolderClient | None) -> Nft:
    return Nft() if holder is None else Nft(holder.run_nft)


def _proxy_lock(holder: HolderClient | None) -> ProxyLock:
    """The lock of the network that has the rules: only root can make the file of the machine's."""
    return ProxyLock() if holder is None else ProxyLock(Path(holder.holder))


def beside_node(
    *,
    client: Client,
    clock: Clock,
    node_name: str,
    lock: ProxyLock | None,
    network: NodeNetwork = MACHINE_NETWORK,
) -> dict[str, Runner]:
    """The runners of the proxy of a machine that also runs a node: it never keeps the node from running.

    The rules are where the pods are, in `network`.
    """
    holder, dialer = network.holder, network.dialer
    recorder = Recorder(sink=client, source=EventSource(component=COMPONENT, host=node_name), clock=clock)

    def report(problem: str) -> None:
        log.warning("Services have no addresses on this machine", reason=problem)
        message = f"Services have no addresses on this machine: {problem}"
        recorder.event(node_reference(node_name), WARNING, "ServiceProxyNotRunning", message)

    work = partial(_when_possible, client, clock, node_name, lock or _proxy_lock(holder), report, holder)
    runners: dict[str, Runner] = {"events of the proxy": with_ready_event(recorder.run), "proxy": work}
    if holder is not None:
        runners["node ports"] = partial(_relay_node_ports, client, clock, node_name, recorder, dialer)
    return runners


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
    holder: HolderClient | None,
) -> None:
    """Run the proxy once no other one does; returns if this machine or user cannot have one. Reports one problem."""
    nft, is_reported = _nft(holder), False
    if problem := await nft.problem():
        report(problem)
        return
    while True:
        try:
            with lock:
                proxier = await _proxier(nft, client, clock, node_name, holder=holder)
                await proxier.run(asyncio.Event())
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
    node_name: str,
    cluster_cidrs: Sequence[str] = (),
    *,
    holder: HolderClient | None = None,
) -> Proxier:
    if holder is None and await asyncio.to_thread(_is_forwarding_off):
        # Turning it on makes the machine a router, which its owner has to decide.
        log.warning(
            "Services do not reach pods with addresses of their own: forwarding is off", set="net.ipv4.ip_forward=1"
        )
    tables = ServiceTables(node_name=node_name, families=machine_families(), cluster_cidrs=cluster_cidrs)
    machine_ip = await asyncio.to_thread(node_ip, node_name)
    return Proxier(
        client=client,
        clock=clock,
        nft=nft,
        node_name=node_name,
        tables=tables,
        machine_ip=machine_ip,
        open_conntrack=open_conntrack if holder is None else holder.open_conntrack,
    )


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
