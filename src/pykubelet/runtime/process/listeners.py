"""Who would answer at a port of the machine's loopback addresses, by the kernel's tables.

Pure. A socket bound to the address itself goes before one bound to all addresses, and an IPv4 one before one of IPv6
that takes both.
"""

from typing import NamedTuple

ADDRESSES = ("127.0.0.1", "::1")
_LISTENING = "0A"
# Addresses as /proc/net has them, in the order in which the kernel prefers them: the table, and the address.
_PREFERRED = {
    "127.0.0.1": (
        ("tcp", "0100007F"),
        ("tcp", "00000000"),
        ("tcp6", "0000000000000000FFFF00000100007F"),
        ("tcp6", "0" * 32),
    ),
    "::1": (("tcp6", "00000000000000000000000001000000"), ("tcp6", "0" * 32)),
}


class Listener(NamedTuple):
    """A socket that takes connections."""

    table: str
    address: str
    port: int
    inode: str


def parse_listeners(table: str, text: str) -> list[Listener]:
    """From /proc/net/tcp or tcp6, by its name."""
    rows = [line.split() for line in text.splitlines()[1:]]
    listening = [row for row in rows if len(row) > 9 and row[3] == _LISTENING]
    return [Listener(table, *_place(row[1]), row[9]) for row in listening]


def answering(listeners: list[Listener], port: int) -> dict[str, frozenset[str]]:
    """The sockets (inodes) that would answer at each loopback address; one where nobody listens is missing."""
    found: dict[str, frozenset[str]] = {}
    for address, order in _PREFERRED.items():
        for place in order:
            inodes = frozenset(one.inode for one in listeners if (one.table, one.address, one.port) == (*place, port))
            if inodes:
                found[address] = inodes
                break
    return found


def _place(text: str) -> tuple[str, int]:
    address, _, port = text.partition(":")
    return address, int(port, 16)
