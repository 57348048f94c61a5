"""Gives process pods networks of their own: a namespace, a link to the node, an address.

`network_operations.py` says how such a network is made.
"""

import socket
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pykubelet.aio.log import get_logger
from pykubelet.aio.threads import in_thread
from pykubelet.podnetwork.conntrack import NETLINK_NETFILTER, delete_flows, read_flows
from pykubelet.podnetwork.host_port_relays import HostPortRelays
from pykubelet.podnetwork.host_ports import HostPortError, HostPorts, PortMapping, stale_flows
from pykubelet.podnetwork.masquerade import Masquerade
from pykubelet.podnetwork.network_host import LocalNetworkHost, NetworkHost
from pykubelet.podnetwork.node_address import own_addresses

log = get_logger(__name__)


class PodNetworkError(Exception):
    """A pod cannot get a network; the message says why."""


class PodNetworks:
    """The networks of pods, by the names of their namespaces in a folder.

    Without a `pod_cidr` pods get no new networks; those that have one keep it. They are in the network of `host`, by default
    that of this process. Host ports are relayed by `relays`, if given, else by rules of the machine. Packets to pods of other
    nodes, in `cluster_cidr`, keep their sender.
    """

    def __init__(
        self,
        folder: Path,
        pod_cidr: str = "",
        host: NetworkHost | None = None,
        relays: HostPortRelays | None = None,
        *,
        cluster_cidr: str = "",
    ) -> None:
        self._folder, self._pod_cidr, self._relays = folder, pod_cidr, relays
        self._host = host or LocalNetworkHost(folder, pod_cidr)
        self._masquerade = Masquerade(folder, pod_cidr, self._host.run_nft, cluster_cidr=cluster_cidr)
        self._host_ports = HostPorts(self._masquerade.table)
        self._names: set[str] = set()

    @property
    def is_enabled(self) -> bool:
        """Whether new pods get networks."""
        return bool(self._pod_cidr)

    @property
    def holder(self) -> str:
        """The folder of the process that keeps the namespaces; empty if they are files of this machine."""
        return self._host.holder

    def path(self, name: str) -> Path:
        """The file of a pod's namespace."""
        return self._folder / name

    async def open(
        self, known: Mapping[str, str], last: str, mappings: Mapping[str, Sequence[PortMapping]]
    ) -> Collection[str]:
        """Take over the networks of earlier agents and remove all others; returns those of `known` that are gone.

        `known` has the addresses of networks by name, `mappings` their host ports, `last` is the newest address.
        PodNetworkError if networks are enabled but impossible here.
        """
        try:
            lost = await self._host.take_over(known, last)
        except OSError as error:
            raise PodNetworkError(f"the networks of pods cannot be taken over: {_reason(error)}") from error
        self._names = {*known} - {*lost}
        self._host_ports = HostPorts(self._masquerade.table)
        for name in self._names:
            with suppress(HostPortError):
                self._host_ports.add(name, known[name], mappings.get(name, ()))
        await self._reopen_relays(known, mappings)
        if self.is_enabled:
            try:
                await self._host.forward()
            except OSError as error:
                raise PodNetworkError(f"the machine cannot forward packets of pods: {_reason(error)}") from error
            if problem := await self._masquerade.apply(self._host_ports.everything()):
                log.warning("pods do not reach addresses outside of the machine", cause=problem)
        return lost

    async def close(self) -> None:
        """Remove what is there for all pods if there is no pod any more."""
        if self._relays is not None:
            await self._relays.close_all()
        if self.is_enabled:
            with suppress(OSError):
                await self._host.release()
        # Also if earlier agents gave pods networks.
        if not self._names and self._folder.exists():
            await self._masquerade.remove()

    async def attach(self, name: str, mappings: Sequence[PortMapping] = ()) -> str:
        """Create a network with these host ports; returns the pod's address. A cancelled call has created it or not."""
        self._names.add(name)
        try:
            address = await self._host.attach(name, any(one.is_on_loopback for one in mappings))
        except OSError as error:
            self._names.discard(name)
            raise PodNetworkError(f"the pod's network cannot be created: {_reason(error)}") from error
        if mappings:
            await self._open_host_ports(name, address, mappings)
        return address

    async def detach(self, name: str) -> None:
        """Remove a network if it exists."""
        if name not in self._names:
            return
        # First, so that the ports never lead to the next pod with this address.
        await self._close_host_ports(name)
        try:
            await self._host.detach(name)
        except OSError as error:
            raise PodNetworkError(f"the pod's network cannot be removed: {_reason(error)}") from error
        self._names.discard(name)

    async def _open_host_ports(self, name: str, address: str, mappings: Sequence[PortMapping]) -> None:
        try:
            problem = await self._masquerade.run(self._host_ports.add(name, address, mappings))
            if self._relays is not None and not problem:
                await self._relays.open(name, address, mappings)
        except (HostPortError, OSError) as error:
            problem = str(error)
        if problem:
            await self.detach(name)
            raise PodNetworkError(f"the pod's host ports cannot be opened: {problem}")
        try:
            await self._end_stale_flows(address, mappings)
        except OSError as error:
            log.warning("older UDP clients of a host port may not reach its pod", cause=_reason(error), address=address)

    async def _reopen_relays(self, known: Mapping[str, str], mappings: Mapping[str, Sequence[PortMapping]]) -> None:
        if self._relays is None:
            return
        await self._relays.close_all()
        for name in self._names:
            if ports := mappings.get(name, ()):
                try:
                    await self._relays.open(name, known[name], ports)
                except OSError as error:
                    log.warning("host ports of a pod not opened again", cause=_reason(error), address=known[name])

    async def _end_stale_flows(self, address: str, mappings: Sequence[PortMapping]) -> None:
        """End UDP connections to host ports that the kernel would still send elsewhere."""
        ports = [one.host_port for one in mappings if one.protocol == "UDP"]
        if not ports:
            return
        with await self._host.open_socket("", socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as netlink:
            await in_thread(_end_stale_flows, netlink, address, ports)

    async def _close_host_ports(self, name: str) -> None:
        if self._relays is not None:
            await self._relays.close(name)
        commands = self._host_ports.removal(name)
        if not commands:
            return
        # Recorded until it is done: a cancelled call is repeated.
        problem = await self._masquerade.run(commands)
        self._host_ports.forget(name)
        if problem and self.is_enabled:
            # A cancelled call has done it, or an administrator has changed the table.
            problem = await self._masquerade.apply(self._host_ports.everything())
            if problem:
                log.warning("host ports of a pod that is gone not closed", cause=problem)

    async def open_socket(self, name: str, family: socket.AddressFamily) -> socket.socket:
        """A TCP socket in a pod's network, which stays in it wherever it is used; OSError if that is gone."""
        return await self._host.open_socket(name, family, socket.SOCK_STREAM)


def _end_stale_flows(netlink: socket.socket, address: str, ports: Collection[int]) -> None:
    machine = frozenset(map(str, own_addresses()))
    for port in ports:
        stale = stale_flows(read_flows(netlink, socket.AF_INET, port), address, machine)
        delete_flows(netlink, socket.AF_INET, [one for one in stale if one.destination[1] == port])


def _reason(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
