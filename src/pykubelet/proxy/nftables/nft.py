"""Runs `nft`: transactions, and the names of what the kernel has.

Upstream: pkg/proxy/nftables/supported.go, pkg/proxy/nftables/cleanup.go
"""

import asyncio
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pykubelet.proxy.nftables.rules import TABLE
from pykubelet.proxy.nftables.table import KernelTable
from pykubelet.proxy.serviceport import IPFamily

# A table of 100,000 endpoints takes some seconds.
_SECONDS = 60.0
# Debian's path of ordinary users lacks these.
_SYSTEM_PATH = os.pathsep.join(("/usr/sbin", "/sbin", "/usr/local/sbin"))
_IPV6 = Path("/proc/net/if_inet6")
_ERROR_LENGTH = 300


class NftError(Exception):
    """A run of nft failed; the message says why."""


class Nft:
    """The program nft, in the network namespace of this process."""

    def __init__(self) -> None:
        self._program = shutil.which("nft") or shutil.which("nft", path=_SYSTEM_PATH)

    async def problem(self) -> str:
        """The reason why Services cannot have rules here; empty if they can."""
        if self._program is None:
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
        if self._program is None:
            raise NftError("the program nft is missing")
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                self._program, *arguments, stdin=pipe, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            raise NftError(f"nft did not start: {error}") from error
        try:
            async with asyncio.timeout(_SECONDS):
                said, problems = await process.communicate(text.encode())
        except TimeoutError as error:
            raise NftError(f"nft did not end within {_SECONDS:g} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            message = " ".join(problems.decode(errors="replace").split())
            raise NftError(message[:_ERROR_LENGTH] or f"nft ended with exit code {process.returncode}")
        return said


def machine_families() -> tuple[IPFamily, ...]:
    """The IP families that the kernel has in this network namespace."""
    return (IPFamily.IPV4, IPFamily.IPV6) if _IPV6.exists() else (IPFamily.IPV4,)
