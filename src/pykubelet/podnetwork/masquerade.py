"""The nftables table of a node's pods: their way out, their host ports, what they must not send.

* Packets that pods send out of the pod range get the node's address: other machines have no route to pods, so without it pods
  would not get answers from them.
* A pod sends from its own address only, and nothing to 127.0.0.0/8: where `route_localnet` lets host ports work at 127.0.0.1,
  the kernel itself would let a pod on the same link reach servers on the machine's loopback (CVE-2020-8558).
* Host ports are maps, see `host_ports.py`. Their chains come after those of Services: a node port of the same number has the
  packets, whichever was there first.

Each node has a table of its own, named after its folder, so that several nodes on one machine do not disturb each other.
"""

import hashlib
from pathlib import Path

from pykubelet.aio.log import get_logger
from pykubelet.podnetwork.host_ports import ADDRESS_PORTS, DECLARATIONS, HAIRPINS, PORTS
from pykubelet.podnetwork.netlink import POD_LINKS
from pykubelet.podnetwork.nft import RunNft, run_nft

log = get_logger(__name__)

_MARK_LENGTH = 12
"""48 bits, so that two folders of a machine never have the same."""


class Masquerade:
    """The table of one node; `folder` only names it. The methods return why something failed, empty if it did not.

    Packets to `cluster_cidr`, the pods of all nodes, keep their sender.
    """

    def __init__(self, folder: Path, pod_cidr: str, nft: RunNft = run_nft, *, cluster_cidr: str = "") -> None:
        self._pod_cidr, self._cluster_cidr, self._run_nft = pod_cidr, cluster_cidr or pod_cidr, nft
        # The same by whatever path a program was given the folder.
        self.table = f"pykubelet-{hashlib.sha256(bytes(folder.resolve())).hexdigest()[:_MARK_LENGTH]}"

    async def apply(self, elements: str = "") -> str:
        """Create or replace the table with elements that commands add, in one transaction: no packet sees less."""
        return await self.run(rules(self.table, self._pod_cidr, self._cluster_cidr) + elements)

    async def remove(self) -> None:
        """Remove the table if it exists."""
        if error := await self.run(_removal(self.table)):
            log.debug("nftables table of pods not removed", cause=error)

    async def run(self, commands: str) -> str:
        """Run commands in one transaction. A cancelled call has taken effect or not."""
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
    to_host_ports = "meta l4proto { tcp, udp, sctp } fib daddr type local jump host-ports"
    chains = {
        "host-ports": (
            f"dnat ip to ip daddr . meta l4proto . th dport map @{ADDRESS_PORTS}",
            f"dnat ip to meta l4proto . th dport map @{PORTS}",
        ),
        "pod-packets": (
            "type filter hook prerouting priority raw;",
            f"iifgroup {POD_LINKS} ip daddr 127.0.0.0/8 drop",
            # A source address that no route leads back to this link.
            f"iifgroup {POD_LINKS} fib saddr . iif oif 0 drop",
        ),
        "prerouting": ("type nat hook prerouting priority dstnat + 1;", to_host_ports),
        # nft knows dstnat by name only in prerouting.
        "output": ("type nat hook output priority -99;", to_host_ports),
        "postrouting": (
            "type nat hook postrouting priority srcnat;",
            # Otherwise the pod would answer itself, or 127.0.0.1, directly.
            f"ip saddr . ip daddr @{HAIRPINS} masquerade",
            f"oifgroup {POD_LINKS} ip saddr 127.0.0.0/8 masquerade",
            f"ip saddr {pod_cidr} ip daddr != {cluster_cidr} masquerade",
        ),
    }
    body = "".join(f"  {each}\n" for each in DECLARATIONS)
    for name, lines in chains.items():
        body += "".join((f"  chain {name} {{\n", *(f"    {line}\n" for line in lines), "  }\n"))
    return f"{_removal(table)}table ip {table} {{\n{body}}}\n"
