"""IP addresses and networks, in the lenient form of older fields and the canonical form of newer ones."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.names import parse_address, parse_network, unmap_ipv4
from pykubelet.kinds.addresses import canonical_ip_errors, domain_name_errors, endpoint_ip_errors


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("010.000.0.01", "10.0.0.1"),
        ("FD00:0:0::0001", "fd00::1"),
        ("fd00::00001", "fd00::1"),
        ("::ffff:010.0.0.1", "::ffff:10.0.0.1"),
        ("::", "::"),
        ("1.2.3", None),
        ("fe80::1%eth0", None),
        ("", None),
    ],
)
def test_address_is_read_with_leading_zeros(text: str, address: str | None) -> None:
    """Other deviations from the usual notation are rejected."""
    assert parse_address(text) == (None if address is None else ip_address(address))


def test_network_ignores_host_bits() -> None:
    assert parse_network("10.1.2.3/08") == ip_network("10.0.0.0/8")
    assert parse_network("fd00::1/64") == ip_network("fd00::/64")
    assert parse_network("10.0.0.0/33") is None


@given(st.ip_addresses())
def test_every_address_is_read_and_is_canonical_as_python_writes_it(address: object) -> None:
    """Except IPv4-mapped IPv6 addresses, which newer fields do not accept."""
    found = parse_address(str(address))
    assert found == address
    assert found is not None
    is_mapped = unmap_ipv4(found) != found
    assert bool(canonical_ip_errors(str(address), "ip")) == is_mapped


@pytest.mark.parametrize(
    ("text", "details"),
    [
        ("x", ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]),
        ("::ffff:1.02.3.4", ["must not have leading 0s"]),
        ("01.2.3.4", ["must not have leading 0s"]),
        ("FD00::1", ['must be in canonical form ("fd00::1")']),
    ],
)
def test_non_canonical_address_is_rejected(text: str, details: list[str]) -> None:
    assert [error.detail for error in canonical_ip_errors(text, "ip")] == details


def test_invalid_endpoint_address_is_rejected() -> None:
    """The messages differ from those of other fields."""
    assert [error.detail for error in endpoint_ip_errors("x", "ip")] == ["must be a valid IP address"]
    assert endpoint_ip_errors("224.0.0.5", "ip")[0].detail.startswith("may not be in the link-local multicast range")


@pytest.mark.parametrize(
    ("name", "bad_value"), [("", ""), ("A.b", "A.b"), (f"{'a' * 64}.b", "a" * 64), ("a.b", None), ("a.b.", None)]
)
def test_domain_name_has_two_labels_at_least(name: str, bad_value: str | None) -> None:
    """The error shows the first bad label."""
    assert [error.bad_value for error in domain_name_errors(name, "fqdn")] == ([] if bad_value is None else [bad_value])
