"""Routes of this machine to the pods of other nodes, through the addresses of those nodes.

The routes have a protocol number of their own, by which they are recognised: no other route is ever changed.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import IPv4Network
from typing import TypeVar

from pykubelet.podnetwork.netlink import Netlink

PROTOCOL = 112
"""No program in iproute2's list of protocols has this number."""
T = TypeVar("T")


class HostRoutes:
    """The routes in the network namespace of this process; OSError says why a change is impossible."""

    async def present(self) -> Mapping[str, str]:
        """The gateways of our routes by destination."""
        return await _with_netlink(lambda netlink: netlink.gateway_routes(PROTOCOL))

    async def add(self, destination: str, gateway: str) -> None:
        """Add a route, or change that of an earlier run; FileExistsError if another program has one."""

        def change(netlink: Netlink) -> None:
            try:
                netlink.add_gateway_route(destination, gateway, PROTOCOL)
            except FileExistsError:
                present = netlink.gateway_routes(PROTOCOL)
                if destination not in present:
                    raise
                if present[destination] != gateway:
                    netlink.remove_gateway_route(destination, PROTOCOL)
                    netlink.add_gateway_route(destination, gateway, PROTOCOL)

        await _with_netlink(change)

    async def remove(self, destination: str) -> None:
        """Remove a route of ours if it exists."""
        with suppress(ProcessLookupError):
            await _with_netlink(lambda netlink: netlink.remove_gateway_route(destination, PROTOCOL))

    async def remove_within(self, cluster: IPv4Network) -> None:
        """Remove all routes of ours to parts of a cluster's range."""
        for destination in await self.present():
            if IPv4Network(destination).overlaps(cluster):
                await self.remove(destination)


async def _with_netlink(work: Callable[[Netlink], T]) -> T:
    return await asyncio.to_thread(_run, work)


def _run(work: Callable[[Netlink], T]) -> T:
    netlink = Netlink()
    try:
        return work(netlink)
    finally:
        netlink.close()
