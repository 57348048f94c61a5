"""Runs `nft`: transactions, and the names of what the kernel has.

Upstream: pkg/proxy/nftables/supported.go, pkg/proxy/nftables/cleanup.go
"""

import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pykubelet.podnetwork.conntrack import open_conntrack
from pykubelet.podnetwork.holder_client import HolderClient
from pykubelet.podnetwork.nft import NFT_SECONDS, nft_program, run_nft
from pykubelet.proxy.nftables.rules import TABLE
from pykubelet.proxy.nftables.table import KernelTable
from pykubelet.proxy.serviceport import IPFamily

_IPV6 = Path("/proc/net/if_inet6")
_ERROR_LENGTH = 300


class NftError(Exception):
    """A run of nft failed; the message says why."""


class Nft:
    """The program nft, in the network namespace of this process, or in that of a holder."""

    def __init__(self, holder: HolderClient | None = None) -> None:
        self._run_nft = run_nft if holder is None else holder.run_nft
        self._holder = holder

    async def open_conntrack(self) -> socket.socket:
        """A netlink socket for the connections that are tracked where the rules are; OSError if there is none."""
        return open_conntrack() if self._holder is None else await self._holder.open_conntrack()

    async def problem(self) -> str:
        """The reason why Services cannot have rules here; empty if they can."""
        if nft_program() is None:
            return "the program nft is missing: install the package nftables"
        try:
            await self.run([f"add table ip {TABLE}"], is_trial=True)
        except NftError as error:
            return f"nftables cannot be changed by this user: {error}"
        return ""

    async def run(self, commands: Iterable[str], *, is_trial: bool = False) -> None:
        """Run one transaction: all commands take effect, or none does. NftError if they do not."""
        await self._call([*(["--check"] if is_trial else []), "-f", "-"], "\n".join((*commands, "")))

    async def table(self, family: IPFamily) -> KernelTable:
        """The names in our table; empty if there is none. NftError if it cannot be read."""
        if family not in await self.families():
            return KernelTable()
        # Terse: without the elements of sets.
        entries = await self._list(["--json", "--terse", "list", "table", str(family), TABLE])
        chains = [one["chain"]["name"] for one in entries if "chain" in one]
        sets = {one[what]["name"]: what == "map" for one in entries for what in ("set", "map") if what in one}
        return KernelTable(chains, sets)

    async def families(self) -> set[IPFamily]:
        """The families that have our table. NftError if the kernel's tables cannot be read."""
        tables = [one["table"] for one in await self._list(["--json", "list", "tables"]) if "table" in one]
        return {family for family in IPFamily if any((one["family"], one["name"]) == (family, TABLE) for one in tables)}

    async def cleanup(self) -> bool:
        """Delete our tables, and with them every rule; returns whether there were any. NftError if that fails."""
        found = sorted(await self.families())
        if found:
            await self.run(f"delete table {family} {TABLE}" for family in found)
        return bool(found)

    async def _list(self, arguments: Sequence[str]) -> list[dict[str, Any]]:
        found: dict[str, list[dict[str, Any]]] = msgspec.json.decode(await self._call(arguments))
        return found["nftables"]

    async def _call(self, arguments: Sequence[str], text: str = "") -> bytes:
        try:
            result = await self._run_nft(arguments, text)
        except TimeoutError as error:
            raise NftError(f"nft did not end within {NFT_SECONDS:g} s") from error
        except OSError as error:
            raise NftError(f"nft did not start: {error}") from error
        if result.exit_code:
            message = " ".join(result.errors.decode(errors="replace").split())
            raise NftError(message[:_ERROR_LENGTH] or f"nft ended with exit code {result.exit_code}")
        return result.output


def machine_families() -> tuple[IPFamily, ...]:
    """The IP families that the kernel has in this network namespace."""
    return (IPFamily.IPV4, IPFamily.IPV6) if _IPV6.exists() else (IPFamily.IPV4,)
