"""The machine's addresses, and which peers are this machine or its pods."""

import ipaddress
from pathlib import Path

import pytest

from pykubelet.podnetwork.node_address import is_local_peer, is_ours, is_usable, node_address, own_addresses

FIB_TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 10.1.2.3
        /32 host LOCAL
     |-- 10.1.2.255
        /32 link BROADCAST
Local:
  +-- 0.0.0.0/0 3 0 5
     |-- 10.1.2.0
        /24 link UNICAST
     |-- 10.1.2.3
        /32 host LOCAL
     |-- 127.0.0.0
        /8 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
"""
IF_INET6 = "fd000000000000000000000000000002 04 40 00 82     eth0\n00000000000000000000000000000001 01 80 10 80 lo\n"

OWN = frozenset(map(ipaddress.ip_address, ["10.1.2.3", "127.0.0.1", "fd00::2", "fe80::1"]))
PODS = (ipaddress.ip_network("10.244.0.0/24"), ipaddress.ip_network("fd01::/64"))


def test_own_addresses_are_those_of_the_kernels_tables(tmp_path: Path) -> None:
    """Broadcast addresses and networks are none of them, and each is named once."""
    (tmp_path / "fib_trie").write_text(FIB_TRIE)
    (tmp_path / "if_inet6").write_text(IF_INET6)
    assert list(map(str, own_addresses(tmp_path))) == ["10.1.2.3", "127.0.0.1", "fd00::2", "::1"]


def test_own_addresses_are_none_without_the_kernels_tables(tmp_path: Path) -> None:
    """A kernel without IPv6 has no table of it."""
    assert own_addresses(tmp_path) == ()


def test_node_address_is_one_of_the_machine() -> None:
    """It is empty on a machine that has only loopback."""
    address = node_address()
    if address:
        assert is_usable(address)
        assert is_ours(address)
        assert ipaddress.ip_address(address) in own_addresses()


@pytest.mark.parametrize(
    ("peer", "local"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("fd00::2", True),
        ("10.244.0.17", True),
        ("::ffff:10.244.0.17", True),
        ("fd01::17", True),
        ("10.1.2.4", False),
        ("::ffff:10.1.2.4", False),
        ("10.244.1.17", False),
        ("fd00::3", False),
        ("fe80::1", False),
        ("fe80::1%eth0", False),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("/run/some.sock", False),
    ],
)
def test_local_peers_are_this_machine_and_its_pods(peer: str, local: bool) -> None:
    """Link-local addresses are unique on one link only, and are refused."""
    assert is_local_peer(peer, OWN, PODS) is local


def test_peer_is_not_local_without_pods() -> None:
    """The addresses of pods are those of the given networks only."""
    assert not is_local_peer("10.244.0.17", OWN, ())
