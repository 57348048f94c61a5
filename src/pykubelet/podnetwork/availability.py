"""Tells whether pods can have networks of their own on this machine, and why not."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from pykubelet.aio.threads import in_thread
from pykubelet.podnetwork.namespaces import NetworkNamespaces
from pykubelet.podnetwork.netlink import LINK_NAME_BYTES, Netlink
from pykubelet.podnetwork.nft import nft_program

_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_TRIAL = "trial"


def user_problem() -> str:
    """The reason why this user cannot give pods networks of their own; empty if nothing is known against it."""
    if os.geteuid() != 0:
        return "only root can give pods networks of their own"
    return ""


def program_problem() -> str:
    """The reason why pods would not reach other machines, nor have host ports; empty if there is none."""
    return "" if nft_program() else "nft is not installed (Debian package nftables)"


async def machine_problem(folder: Path) -> str:
    """Create a network as pods have in the folder of their namespaces, and remove it; why that failed, empty if it did not."""
    with ThreadPoolExecutor(1, thread_name_prefix="pod-network") as thread:
        try:
            await in_thread(_try, folder, executor=thread)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            return f"this machine does not permit pods networks of their own: {place}{error.strerror or error}"
    return ""


def _try(folder: Path) -> None:
    # Only opened: the machine becomes a router when it is decided that pods get networks.
    with _FORWARDING.open("r+"):
        pass
    namespaces, host = NetworkNamespaces(folder), Netlink()
    # Another node of the machine may start at the same time.
    link = f"try{hashlib.sha256(bytes(folder)).hexdigest()}"[:LINK_NAME_BYTES]
    # An earlier agent was killed meanwhile.
    namespaces.remove(_TRIAL)
    try:
        with namespaces.created(_TRIAL):
            pass
        # The link of an earlier trial is removed a moment after it: links are possible then.
        with namespaces.path(_TRIAL).open("rb") as namespace, suppress(FileExistsError):
            host.create_veth(link, peer="eth0", peer_index=2, namespace=namespace.fileno())
    finally:
        host.close()
        namespaces.remove(_TRIAL)
