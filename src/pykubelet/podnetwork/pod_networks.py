"""Gives process pods networks of their own: a namespace, a link to the node, an address.

A pod's `eth0` and its peer on the node are a veth pair. Both ends have addresses without a subnet (/32), and everything is
routed: there is no bridge, so replies to a Service pass the node's connection tracking without br_netfilter. The node has
the first address of the range on each link and is the pods' gateway. Probes come from that address.

Everything is in the kernel and in the folder of the namespaces, so it survives the node's agent. Removing a namespace removes
its links, addresses and routes. Host ports and the other rules are in one nftables table, see `masquerade.py`.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from pykubelet.aio.log import get_logger
from pykubelet.aio.threads import in_thread
from pykubelet.podnetwork.gateway import add_gateway, remove_gateway
from pykubelet.podnetwork.host_ports import HostPortError, HostPorts, PortMapping
from pykubelet.podnetwork.masquerade import Masquerade
from pykubelet.podnetwork.namespaces import NetworkNamespaces
from pykubelet.podnetwork.netlink import LINK_NAME_BYTES, LOOPBACK_INDEX, POD_LINKS, Netlink

log = get_logger(__name__)

_LINK_PREFIX, _POD_LINK, _POD_LINK_INDEX = "veth", "eth0", 2
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_UNPRIVILEGED_PORTS = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
_LINKS = Path("/proc/sys/net/ipv4/conf")

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class PodNetworkError(Exception):
    """A pod cannot get a network; the message says why."""


class PodNetworks:
    """The networks of pods, by the names of their namespaces.

    Without a `pod_cidr` pods get no new networks; those that have one keep it.
    """

    def __init__(self, folder: Path, pod_cidr: str = "") -> None:
        self._namespaces = NetworkNamespaces(folder)
        self._range = ipaddress.IPv4Network(pod_cidr) if pod_cidr else None
        self._masquerade = Masquerade(folder, pod_cidr)
        self._host_ports = HostPorts(self._masquerade.table)
        # Written only in `_in_thread`, by one operation at a time.
        self._addresses: dict[str, str] = {}
        self._last = ""
        self._turn = asyncio.Lock()

    @property
    def is_enabled(self) -> bool:
        """Whether new pods get networks."""
        return self._range is not None

    def path(self, name: str) -> Path:
        """The file of a pod's namespace."""
        return self._namespaces.path(name)

    async def open(
        self, known: Mapping[str, str], last: str, mappings: Mapping[str, Sequence[PortMapping]]
    ) -> Collection[str]:
        """Take over the networks of earlier agents and remove all others; returns those of `known` that are gone.

        `known` has the addresses of networks by name, `mappings` their host ports, `last` is the newest address.
        PodNetworkError if networks are enabled but impossible here.
        """
        self._last = last
        lost = await self._in_thread(self._take_over, known)
        for name, address in self._addresses.items():
            with suppress(HostPortError):
                self._host_ports.add(name, address, mappings.get(name, ()))
        if self._range is not None:
            try:
                await self._in_thread(self._prepare_machine)
            except OSError as error:
                raise PodNetworkError(f"the machine cannot forward packets of pods: {_reason(error)}") from error
            if problem := await self._masquerade.apply(self._host_ports.everything()):
                log.warning("pods do not reach addresses outside of the machine", cause=problem)
        return lost

    async def close(self) -> None:
        """Remove what is there for all pods if there is no pod any more."""
        if self._range is not None:
            # The links of pods have the address too.
            with suppress(OSError):
                await self._in_thread(remove_gateway, str(self._range[1]))
        if not self._addresses and self._namespaces.exist():
            await self._masquerade.remove()

    async def attach(self, name: str, mappings: Sequence[PortMapping] = ()) -> str:
        """Create a network with these host ports; returns the pod's address. A cancelled call has created it or not."""
        try:
            address = await self._in_thread(self._attach, name, any(one.is_on_loopback for one in mappings))
        except OSError as error:
            raise PodNetworkError(f"the pod's network cannot be created: {_reason(error)}") from error
        if mappings:
            await self._open_host_ports(name, address, mappings)
        return address

    async def detach(self, name: str) -> None:
        """Remove a network if it exists."""
        # First, so that the ports never lead to the next pod with this address.
        await self._close_host_ports(name)
        if name not in self._addresses:
            return
        try:
            await self._in_thread(self._detach, name)
        except OSError as error:
            raise PodNetworkError(f"the pod's network cannot be removed: {_reason(error)}") from error

    async def _open_host_ports(self, name: str, address: str, mappings: Sequence[PortMapping]) -> None:
        try:
            problem = await self._masquerade.run(self._host_ports.add(name, address, mappings))
        except HostPortError as error:
            problem = str(error)
        if problem:
            await self.detach(name)
            raise PodNetworkError(f"the pod's host ports cannot be opened: {problem}")

    async def _close_host_ports(self, name: str) -> None:
        commands = self._host_ports.remove(name)
        if not commands or not await self._masquerade.run(commands):
            return
        # Somebody else has changed the table, such as an administrator who flushed all rules.
        problem = await self._masquerade.apply(self._host_ports.everything()) if self._range is not None else ""
        if problem:
            log.warning("host ports of a pod that is gone not closed", cause=problem)

    async def open_socket(self, name: str, family: socket.AddressFamily) -> socket.socket:
        """A TCP socket in a pod's network, which stays in it wherever it is used; OSError if that is gone."""
        return await self._in_thread(self._open_socket, name, family)

    async def _in_thread(self, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Run blocking work, after that of earlier calls, in a thread that then ends: it may have left its namespace."""
        async with self._turn:
            with ThreadPoolExecutor(1, thread_name_prefix="pod-network") as thread:
                return await in_thread(work, *arguments, executor=thread)

    def _take_over(self, known: Mapping[str, str]) -> list[str]:
        links = {name for _, name in socket.if_nameindex()}
        for name in self._namespaces.names():
            if name not in known:
                self._namespaces.remove(name)
            elif _link_name(name) in links and self._namespaces.is_complete(name):
                self._addresses[name] = known[name]
        return [name for name in known if name not in self._addresses]

    def _prepare_machine(self) -> None:
        """Make the machine a router with the pods' gateway; the links of pods of earlier versions join the others."""
        assert self._range is not None
        self._namespaces.make_folder()
        _FORWARDING.write_text("1")
        add_gateway(str(self._range[1]))
        host = Netlink()
        try:
            for name in self._addresses:
                host.join_group(socket.if_nametoindex(_link_name(name)), POD_LINKS)
        finally:
            host.close()

    def _attach(self, name: str, is_on_loopback: bool) -> str:
        host = Netlink()
        try:
            self._addresses[name] = self._connect(name, host)
            if is_on_loopback:
                # Packets from 127.0.0.1 may leave through this link. The table drops those that come to 127.0.0.0/8.
                (_LINKS / _link_name(name) / "route_localnet").write_text("1")
        except OSError:
            self._addresses.pop(name, None)
            self._namespaces.remove(name)
            raise
        finally:
            host.close()
        self._last = self._addresses[name]
        return self._last

    def _connect(self, name: str, host: Netlink) -> str:
        assert self._range is not None
        gateway = str(self._range[1])
        with self._namespaces.created(name):
            # As containerd does: a pod need not be root to listen on port 80 of an address of its own.
            _UNPRIVILEGED_PORTS.write_text("0")
            inside = Netlink()
        try:
            with self._namespaces.path(name).open("rb") as namespace:
                link = _link_name(name)
                host.create_veth(link, peer=_POD_LINK, peer_index=_POD_LINK_INDEX, namespace=namespace.fileno())
            index = socket.if_nametoindex(link)
            host.add_address(gateway, index)
            address = self._route(host, index, gateway)
            for one in (LOOPBACK_INDEX, _POD_LINK_INDEX):
                inside.set_up(one)
            inside.add_address(address, _POD_LINK_INDEX)
            inside.add_route(gateway, _POD_LINK_INDEX, source=address)
            inside.add_default_route(gateway, _POD_LINK_INDEX)
        finally:
            inside.close()
        return address

    def _route(self, host: Netlink, index: int, gateway: str) -> str:
        """Route the next free address to a link; returns the address."""
        assert self._range is not None
        for address in free_addresses(self._range, self._addresses.values(), self._last):
            try:
                host.add_route(address, index, source=gateway)
            except FileExistsError:
                # Another node of this machine has the same range, or a pod's network is just being removed.
                continue
            return address
        raise OSError(f"no free address in {self._range}")

    def _detach(self, name: str) -> None:
        self._namespaces.remove(name)
        del self._addresses[name]

    def _open_socket(self, name: str, family: socket.AddressFamily) -> socket.socket:
        with self._namespaces.entered(name):
            return socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)


def free_addresses(pod_range: ipaddress.IPv4Network, taken: Collection[str], last: str) -> Iterator[str]:
    """The addresses that a new pod may get, starting after the last one, so that none is soon used again.

    Network and broadcast address and the gateway, the first address, are left out.
    """
    first, end = int(pod_range.network_address) + 2, int(pod_range.broadcast_address)
    after = int(ipaddress.IPv4Address(last)) + 1 if last else first
    start = after if first <= after < end else first
    used = frozenset(taken)
    for number in (*range(start, end), *range(first, start)):
        address = str(ipaddress.IPv4Address(number))
        if address not in used:
            yield address


def _link_name(name: str) -> str:
    """The name of the link on the node that leads to a pod."""
    return f"{_LINK_PREFIX}{name}"[:LINK_NAME_BYTES]


def _reason(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
