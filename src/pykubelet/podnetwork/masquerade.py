"""Gives packets that pods send out of the pod range the node's address, with an nftables table.

Other machines have no route to pods, so without it pods would not get answers from them.
Each node has a table of its own, named after its folder, so that several nodes on one machine do not disturb each other.
"""

import hashlib
from pathlib import Path

from pykubelet.aio.log import get_logger
from pykubelet.podnetwork.nft import RunNft, run_nft

log = get_logger(__name__)

_MARK_LENGTH = 12
"""48 bits, so that two folders of a machine never have the same."""


class Masquerade:
    """The table of one node; `folder` only names it. Packets to `cluster_cidr`, the pods of all nodes, are left alone."""

    def __init__(self, folder: Path, pod_cidr: str, nft: RunNft = run_nft, *, cluster_cidr: str = "") -> None:
        self._pod_cidr, self._cluster_cidr, self._run_nft = pod_cidr, cluster_cidr or pod_cidr, nft
        self.table = f"pykubelet-{hashlib.sha256(bytes(folder)).hexdigest()[:_MARK_LENGTH]}"

    async def apply(self) -> None:
        """Create or replace the table. Without nft, or if it fails, pods reach no addresses outside, which is logged."""
        if error := await self._nft(rules(self.table, self._pod_cidr, self._cluster_cidr)):
            log.warning("pods do not reach addresses outside of the machine", cause=error)

    async def remove(self) -> None:
        """Remove the table if it exists."""
        if error := await self._nft(_removal(self.table)):
            log.debug("nftables table of pods not removed", cause=error)

    async def _nft(self, commands: str) -> str:
        """Apply commands in one transaction; why that is not possible."""
        try:
            result = await self._run_nft(("-f", "-"), commands)
        except TimeoutError:
            return "nft took too long"
        except OSError as error:
            return str(error)
        return result.errors.decode(errors="replace").strip() if result.exit_code else ""


def _removal(table: str) -> str:
    # Deleting what does not exist would fail.
    return f"add table ip {table}\ndelete table ip {table}\n"


def rules(table: str, pod_cidr: str, cluster_cidr: str) -> str:
    """The commands that replace the table in one transaction."""
    return (
        f"{_removal(table)}"
        f"table ip {table} {{\n"
        "  chain postrouting {\n"
        "    type nat hook postrouting priority srcnat;\n"
        f"    ip saddr {pod_cidr} ip daddr != {cluster_cidr} masquerade\n"
        "  }\n"
        "}\n"
    )
