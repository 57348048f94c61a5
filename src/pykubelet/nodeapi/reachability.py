"""At which address a node's API should listen, and by which one others reach it.

In: what the settings say, where the API server is, the machine's address. Out: both addresses. A node beside its API
server listens where nobody else can reach it.
"""

import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"


class Reach(NamedTuple):
    """Where to listen, and the address that others use."""

    bind: str
    address: str


def reach(bind: str, server: str, machine: str) -> Reach:
    """As told by `bind`, else on loopback if the server's URL is there or there is none, else on the machine's address."""
    if not bind:
        chosen = LOOPBACK if _is_local(server) else machine or LOOPBACK
        return Reach(chosen, chosen)
    try:
        is_anywhere = ipaddress.ip_address(bind).is_unspecified
    except ValueError:
        is_anywhere = False
    return Reach(bind, (machine or LOOPBACK) if is_anywhere else bind)


def _is_local(server: str) -> bool:
    host = urlsplit(server).hostname or "localhost"
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
