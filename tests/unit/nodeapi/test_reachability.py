"""Where a node's API listens, and how others reach it."""

import pytest

from pykubelet.nodeapi.reachability import Reach, reach

MACHINE = "192.0.2.7"
CASES = {
    "server on loopback": ("", "https://127.0.0.1:6443", MACHINE, Reach("127.0.0.1", "127.0.0.1")),
    "server on loopback, IPv6": ("", "https://[::1]:6443/path", MACHINE, Reach("127.0.0.1", "127.0.0.1")),
    "server by its local name": ("", "https://localhost:6443", MACHINE, Reach("127.0.0.1", "127.0.0.1")),
    "no server": ("", "", MACHINE, Reach("127.0.0.1", "127.0.0.1")),
    "server elsewhere": ("", "https://198.51.100.1:6443", MACHINE, Reach(MACHINE, MACHINE)),
    "server by name": ("", "https://api.example.com", MACHINE, Reach(MACHINE, MACHINE)),
    "machine without a network": ("", "https://api.example.com", "", Reach("127.0.0.1", "127.0.0.1")),
    "told": ("192.0.2.9", "https://127.0.0.1:6443", MACHINE, Reach("192.0.2.9", "192.0.2.9")),
    "told a name": ("node.example.com", "", MACHINE, Reach("node.example.com", "node.example.com")),
    "anywhere": ("0.0.0.0", "https://127.0.0.1:6443", MACHINE, Reach("0.0.0.0", MACHINE)),
    "anywhere, no network": ("::", "", "", Reach("::", "127.0.0.1")),
}


@pytest.mark.parametrize(("bind", "server", "machine", "expected"), CASES.values(), ids=CASES)
def test_node_listens_where_its_api_server_reaches_it(bind: str, server: str, machine: str, expected: Reach) -> None:
    """And nowhere else, unless told so."""
    assert reach(bind, server, machine) == expected
