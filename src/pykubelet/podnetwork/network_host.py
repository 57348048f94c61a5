"""Runs operations on pod networks where these are: in our network namespace, or in one of a holder.

An ordinary user may change only network namespaces of its own: see `holder_client.py`.
"""

import asyncio
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar, TypeVarTuple

from pykubelet.aio.threads import in_thread
from pykubelet.podnetwork.network_operations import NetworkOperations
from pykubelet.podnetwork.nft import NftResult, run_nft

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class NetworkHost(Protocol):
    """The network namespace to which the links of pods lead. OSError says why an operation fails.

    A cancelled operation is done or not; later ones come after it.
    """

    holder: str
    """The folder in which a holder serves containers that start; empty without a holder."""

    async def take_over(self, known: Mapping[str, str], last: str) -> Collection[str]:
        """Take over networks of earlier agents, `known` with their addresses, and remove others; returns lost ones."""

    async def forward(self) -> None:
        """Turn on forwarding of packets between pods, and from pods to elsewhere; add the pods' gateway."""

    async def release(self) -> None:
        """Remove the gateway from where pods do not need it; OSError if it is not there."""

    async def attach(self, name: str, is_on_loopback: bool = False) -> str:
        """Create a network; returns the pod's address. `is_on_loopback` admits packets that come from 127.0.0.1."""

    async def detach(self, name: str) -> None:
        """Remove a network if it exists."""

    async def open_socket(
        self, name: str, family: socket.AddressFamily, kind: socket.SocketKind, protocol: int = 0
    ) -> socket.socket:
        """A socket in a pod's network, or with an empty name in that of the node; does not block."""

    async def run_nft(self, arguments: Sequence[str], text: str = "") -> NftResult:
        """Run nft there with `text` as its input; TimeoutError if it does not end."""


class LocalNetworkHost:
    """The network namespace of this process. Implements NetworkHost."""

    holder: str = ""

    def __init__(self, folder: Path, pod_cidr: str) -> None:
        self._operations = NetworkOperations(folder, pod_cidr)
        self._turn = asyncio.Lock()

    async def take_over(self, known: Mapping[str, str], last: str) -> Collection[str]:
        return await self._in_thread(self._operations.take_over, known, last)

    async def forward(self) -> None:
        await self._in_thread(self._operations.forward)

    async def release(self) -> None:
        await self._in_thread(self._operations.release)

    async def attach(self, name: str, is_on_loopback: bool = False) -> str:
        return await self._in_thread(self._operations.attach, name, is_on_loopback)

    async def detach(self, name: str) -> None:
        await self._in_thread(self._operations.detach, name)

    async def open_socket(
        self, name: str, family: socket.AddressFamily, kind: socket.SocketKind, protocol: int = 0
    ) -> socket.socket:
        made = await self._in_thread(self._operations.open_socket, name, family, kind, protocol)
        made.setblocking(False)
        return made

    async def run_nft(self, arguments: Sequence[str], text: str = "") -> NftResult:
        return await run_nft(arguments, text)

    async def _in_thread(self, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Run blocking work, after that of earlier calls, in a thread that then ends: it may have left its namespace."""
        async with self._turn:
            with ThreadPoolExecutor(1, thread_name_prefix="pod-network") as thread:
                return await in_thread(work, *arguments, executor=thread)
