"""Gives process pods networks of their own: a namespace, a link to the node, an address.

`network_operations.py` says how such a network is made.
"""

import socket
from collections.abc import Collection, Mapping
from pathlib import Path

from pykubelet.podnetwork.masquerade import Masquerade
from pykubelet.podnetwork.network_host import LocalNetworkHost, NetworkHost


class PodNetworkError(Exception):
    """A pod cannot get a network; the message says why."""


class PodNetworks:
    """The networks of pods, by the names of their namespaces in a folder.

    Without a `pod_cidr` pods get no new networks; those that have one keep it. They are in the network of `host`, by default
    that of this process.
    """

    def __init__(self, folder: Path, pod_cidr: str = "", host: NetworkHost | None = None) -> None:
        self._folder, self._pod_cidr = folder, pod_cidr
        self._host = host or LocalNetworkHost(folder, pod_cidr)
        self._masquerade = Masquerade(folder, pod_cidr, self._host.run_nft)
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

    async def open(self, known: Mapping[str, str], last: str = "") -> Collection[str]:
        """Take over the networks of earlier agents and remove all others; returns those of `known` that are gone.

        `known` has the addresses of networks by name, `last` is the newest one. PodNetworkError if networks are enabled but
        impossible here.
        """
        try:
            lost = await self._host.take_over(known, last)
        except OSError as error:
            raise PodNetworkError(f"the networks of pods cannot be taken over: {_reason(error)}") from error
        self._names = {*known} - {*lost}
        if self.is_enabled:
            try:
                await self._host.forward()
            except OSError as error:
                raise PodNetworkError(f"the machine cannot forward packets of pods: {_reason(error)}") from error
            await self._masquerade.apply()
        return lost

    async def close(self) -> None:
        """Remove what is there for all pods if there is no pod any more."""
        if self.is_enabled and not self._names:
            await self._masquerade.remove()

    async def attach(self, name: str) -> str:
        """Create a network; returns the pod's address. A cancelled call has created it or not."""
        self._names.add(name)
        try:
            return await self._host.attach(name)
        except OSError as error:
            self._names.discard(name)
            raise PodNetworkError(f"the pod's network cannot be created: {_reason(error)}") from error

    async def detach(self, name: str) -> None:
        """Remove a network if it exists."""
        if name not in self._names:
            return
        try:
            await self._host.detach(name)
        except OSError as error:
            raise PodNetworkError(f"the pod's network cannot be removed: {_reason(error)}") from error
        self._names.discard(name)

    async def open_socket(self, name: str, family: socket.AddressFamily) -> socket.socket:
        """A TCP socket in a pod's network, which stays in it wherever it is used; OSError if that is gone."""
        return await self._host.open_socket(name, family, socket.SOCK_STREAM)


def _reason(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
