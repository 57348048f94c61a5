"""Where a node's API listens, and how others reach it."""

import pytest

from pykubelet.httpserver.listener import ListenAddress, listen_address

MACHINE = "192.0.2.7"
CASES = {
    "server on loopback": ("", "https://127.0.0.1:6443", MACHINE, ListenAddress("127.0.0.1", "127.0.0.1")),
    "server on loopback, IPv6": ("", "https://[::1]:6443/path", MACHINE, ListenAddress("127.0.0.1", "127.0.0.1")),
    "server by its local name": ("", "https://localhost:6443", MACHINE, ListenAddress("127.0.0.1", "127.0.0.1")),
    "no server": ("", "", MACHINE, ListenAddress("127.0.0.1", "127.0.0.1")),
    "server elsewhere": ("", "https://198.51.100.1:6443", MACHINE, ListenAddress(MACHINE, MACHINE)),
    "server by name": ("", "https://api.example.com", MACHINE, ListenAddress(MACHINE, MACHINE)),
    "machine without a network": ("", "https://api.example.com", "", ListenAddress("127.0.0.1", "127.0.0.1")),
    "machine without a route to its server": ("", "https://[fe80::1]", "", ListenAddress("127.0.0.1", "127.0.0.1")),
    "told": ("192.0.2.9", "https://127.0.0.1:6443", MACHINE, ListenAddress("192.0.2.9", "192.0.2.9")),
    "told a name": ("node.example.com", "", MACHINE, ListenAddress("node.example.com", "node.example.com")),
    "anywhere": ("0.0.0.0", "https://127.0.0.1:6443", MACHINE, ListenAddress("0.0.0.0", MACHINE)),
    "anywhere, no network": ("::", "", "", ListenAddress("::", "127.0.0.1")),
}


@pytest.mark.parametrize(("bind", "server", "machine", "expected"), CASES.values(), ids=CASES)
def test_node_listens_where_its_api_server_reaches_it(
    bind: str, server: str, machine: str, expected: ListenAddress
) -> None:
    """It listens nowhere else, unless a bind address is given."""
    assert listen_address(bind, server, machine) == expected
