"""Sockets that a server listens on, and the addresses by which it is reached."""

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.httpserver.listener import listen, local_url, public_host, with_port


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("192.0.2.1", "192.0.2.1:6443"),
        ("example.com", "example.com:6443"),
        ("example.com:443", "example.com:443"),
        ("2001:db8::1", "[2001:db8::1]:6443"),
        ("[2001:db8::1]", "[2001:db8::1]:6443"),
        ("[2001:db8::1]:443", "[2001:db8::1]:443"),
    ],
)
def test_with_port_adds_the_port_where_none_is_given(host: str, address: str) -> None:
    """It accepts names, IPv4 and IPv6 addresses."""
    assert with_port(host, 6443) == address


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("127.0.0.1", "https://127.0.0.1:1"),
        ("192.0.2.1", "https://192.0.2.1:1"),
        ("localhost", "https://localhost:1"),
    ],
)
def test_local_url_leads_to_the_server(bind: str, url: str) -> None:
    assert local_url(bind, 1) == url


@pytest.mark.parametrize(("bind", "loopback"), [("0.0.0.0", "127.0.0.1"), ("::", "::1")])
def test_local_url_of_a_server_on_all_addresses_is_that_for_others(bind: str, loopback: str) -> None:
    """A node on this machine then listens where such a server reaches it. Without a network it is loopback."""
    found = public_host(bind)
    assert local_url(bind, 1) == f"https://{with_port(loopback if found == bind else found, 1)}"
    assert (":" in found) == (":" in bind)


@given(st.ip_addresses())
@settings(max_examples=50)
def test_public_host_is_never_a_local_address_unless_there_is_no_other(address: object) -> None:
    """A server bound to one network address is reached by that address."""
    bind = str(address)
    found = public_host(bind)
    assert found == bind or bind in ("0.0.0.0", "::", "::1") or bind.startswith("127.")


def test_listen_takes_a_free_port_and_refuses_one_that_is_taken() -> None:
    """Port 0 means any free port."""
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert first.family == socket.AF_INET
        with pytest.raises(OSError, match="in use"):
            listen("127.0.0.1", port)
