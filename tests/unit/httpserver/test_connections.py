"""Which addresses are one client of a listener."""

import pytest

from pykubelet.httpserver.connections import client_of


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("127.0.0.1", "loopback"),
        ("127.9.9.9", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_addresses_of_one_machine_are_one_client(address: str, client: str) -> None:
    """A machine can choose any address of its loopback and of its IPv6 network."""
    assert client_of(address) == client
