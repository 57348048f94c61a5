"""The second listener of an API server on loopback: for pods, at the machine's own address.

It serves the same API with the same TLS, authentication and authorization, but it closes every connection that comes
neither from this machine nor from one of its pods, before TLS. So nothing more of the API is exposed to the network.
"""

import asyncio
import errno
import re
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from pykubelet.aio.log import get_logger
from pykubelet.api.names import parse_network
from pykubelet.api.schema import NODES, PODS
from pykubelet.api.serializer import Document
from pykubelet.apiserver.kubernetesservice import ApiEndpoint
from pykubelet.apiserver.storage.interfaces import Store, StoreEntry, StoreKey
from pykubelet.podnetwork.node_address import IPNetwork, ReportedAddresses, is_local_peer, own_addresses
from pykubelet.podnetwork.pod_side import PodSidePlace

log = get_logger(__name__)

# As often as upstream reconciles its endpoints. A machine changes its address rarely, and the check costs microseconds.
_CHECK_SECONDS = 10.0
# Finds candidates only: a label may have the same name.
_REPORTED = re.compile(rb'"(?:podIP|ip)":"[^"]*"')


class LocalPeers:
    """Which addresses are this machine's or its pods': those in the CIDRs of nodes, and those that pods report.

    Without a pod CIDR the container runtime's own network configuration assigns the addresses of pods.
    """

    def __init__(self, store: Store) -> None:
        self._networks: dict[str, tuple[IPNetwork, ...]] = {}
        self._reported: dict[StoreKey, tuple[bytes, ...]] = {}
        self._addresses = ReportedAddresses()
        for entry in store.list(NODES.group_resource).entries:
            self._update_node(entry.key, entry)
        for entry in store.list(PODS.group_resource).entries:
            self._update_pod(entry.key, entry)
        store.listen(NODES.group_resource, lambda change: self._update_node(change.key, change.after))
        store.listen(PODS.group_resource, lambda change: self._update_pod(change.key, change.after))

    def accepts(self, peer: str) -> bool:
        """Whether a connection from this address may use the listener."""
        networks = [network for each in self._networks.values() for network in each]
        return peer.removeprefix("::ffff:") in self._addresses or is_local_peer(peer, own_addresses(), networks)

    def _update_node(self, key: StoreKey, entry: StoreEntry | None) -> None:
        if entry is None or b'"podCIDRs"' not in entry.text:
            self._networks.pop(key.name, None)
        else:
            found = map(parse_network, entry.document["spec"].get("podCIDRs") or ())
            self._networks[key.name] = tuple(one for one in found if one is not None)

    def _update_pod(self, key: StoreKey, entry: StoreEntry | None) -> None:
        reported = () if entry is None else tuple(_REPORTED.findall(entry.text))
        if reported == self._reported.get(key, ()):
            # Most changes of a pod are of something else, and decoding it would cost as much as the write.
            return
        self._addresses.put(key, frozenset() if entry is None else _addresses(entry.document))
        self._reported.pop(key, None)
        if reported:
            self._reported[key] = reported


def _addresses(pod: Document) -> frozenset[str]:
    """The addresses of a pod with a network of its own."""
    if pod["spec"].get("hostNetwork"):
        return frozenset()
    status = pod.get("status", {})
    return frozenset(filter(None, (status.get("podIP"), *(each["ip"] for each in status.get("podIPs") or ()))))


class PodListener:
    """Serves at the machine's own address, or at the gateway of pods, and moves when it changes."""

    def __init__(
        self,
        *,
        serve: Callable[[socket.socket], AbstractAsyncContextManager[None]],
        port: int,
        moved: Callable[[ApiEndpoint | None], None],
        place: PodSidePlace | None = None,
    ) -> None:
        """`serve` serves a socket for the duration of a context; `moved` gets each new endpoint, None if there is none."""
        self._serve, self._port, self._moved, self._place = serve, port, moved, place or PodSidePlace()

    async def run(self, ready: asyncio.Event) -> None:
        """Serves until cancelled; ready once the first endpoint is known."""
        current: tuple[str, int] | None = None
        async with AsyncExitStack() as opened:
            while True:
                if (found := self._place.current()) != current:
                    current = found if await self._move(opened, found[0]) else None
                ready.set()
                await asyncio.sleep(_CHECK_SECONDS)

    async def _move(self, opened: AsyncExitStack, address: str) -> bool:
        """Closes the listener and opens it at another address; False to try again."""
        await opened.aclose()
        if not address:
            log.warning("pods cannot reach the API: this machine has no address but loopback")
            self._moved(None)
            return True
        try:
            listener = await self._listen_near(address, self._port)
        except OSError as error:
            log.warning(
                "pods cannot reach the API: its listener for them cannot be opened", error=error, address=address
            )
            self._moved(None)
            return False
        port: int = listener.getsockname()[1]
        await opened.enter_async_context(self._serve(listener))
        log.info("pods reach the API at an address of their own", address=address, port=port)
        self._moved(ApiEndpoint(address, port))
        return True

    async def _listen_near(self, address: str, port: int) -> socket.socket:
        """A listener at this port, or at any free one if another program has it at this address."""
        try:
            return await self._place.listen(address, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return await self._place.listen(address, 0)
