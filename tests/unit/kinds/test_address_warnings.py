"""Warnings about addresses and networks that are not in canonical form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.names import parse_address, parse_network
from pykubelet.kinds.addresses import cidr_warnings, ip_warnings

_ONE_DAY = "will be considered invalid in a future Kubernetes release"


def _non_standard(kind: str, text: str, better: str) -> str:
    return f'spec.x: non-standard {kind} "{text}" {_ONE_DAY}: use "{better}"'


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        pytest.param("1.2.3.4", "", id="plain"),
        pytest.param("255.255.255.255", "", id="largest"),
        pytest.param("fd00::1", "", id="version 6"),
        pytest.param("::", "", id="zero"),
        pytest.param("not an address", "", id="none"),
        pytest.param("", "", id="empty"),
        pytest.param("fe80::1%eth0", "", id="zone"),
        pytest.param("1.2.003.4", _non_standard("IP address", "1.2.003.4", "1.2.3.4"), id="leading zeros"),
        pytest.param("::ffff:1.2.3.4", _non_standard("IP address", "::ffff:1.2.3.4", "1.2.3.4"), id="mapped"),
        pytest.param("::ffff:01.2.3.4", _non_standard("IP address", "::ffff:01.2.3.4", "1.2.3.4"), id="both"),
        pytest.param("00001::1", _non_standard("IP address", "00001::1", "1::1"), id="long group"),
        pytest.param(
            "2001:DB8:0:0:0:0:0:1",
            'spec.x: IPv6 address "2001:DB8:0:0:0:0:0:1" should be in RFC 5952 canonical format ("2001:db8::1")',
            id="not canonical",
        ),
        pytest.param(
            "::1.2.3.4",
            'spec.x: IPv6 address "::1.2.3.4" should be in RFC 5952 canonical format ("::102:304")',
            id="dotted end",
        ),
    ],
)
def test_address_has_one_form(text: str, warning: str) -> None:
    """Other forms are accepted, with a warning that names the canonical form."""
    assert ip_warnings(text, "spec.x") == [warning] * bool(warning)


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        pytest.param("1.2.3.0/24", [], id="plain"),
        pytest.param("fd00::/64", [], id="version 6"),
        pytest.param("0.0.0.0/0", [], id="everything"),
        pytest.param("nonsense", [], id="none"),
        pytest.param(
            "1.2.3.4/24",
            ['spec.x: CIDR value "1.2.3.4/24" is ambiguous in this context (should be "1.2.3.0/24" or "1.2.3.4/32"?)'],
            id="address",
        ),
        pytest.param(
            "fd00::1/64",
            ['spec.x: CIDR value "fd00::1/64" is ambiguous in this context (should be "fd00::/64" or "fd00::1/128"?)'],
            id="address of version 6",
        ),
        pytest.param("1.2.03.0/24", [_non_standard("CIDR value", "1.2.03.0/24", "1.2.3.0/24")], id="zeros"),
        pytest.param("1.2.3.0/024", [_non_standard("CIDR value", "1.2.3.0/024", "1.2.3.0/24")], id="zeros in length"),
        pytest.param(
            "::ffff:1.2.3.4/120",
            [
                (
                    'spec.x: CIDR value "::ffff:1.2.3.4/120" is ambiguous in this context '
                    '(should be "1.2.3.0/24" or "1.2.3.4/128"?)'
                ),
                _non_standard("CIDR value", "::ffff:1.2.3.4/120", "1.2.3.0/24"),
            ],
            id="mapped address",
        ),
        pytest.param(
            "::ffff:1.2.3.4/64",
            [
                'spec.x: CIDR value "::ffff:1.2.3.4/64" is ambiguous in this context (should be "::/64" or "1.2.3.4/128"?)',
                _non_standard("CIDR value", "::ffff:1.2.3.4/64", "::/64"),
            ],
            id="mapped, network is not",
        ),
        pytest.param(
            "FD00:0::/64",
            ['spec.x: IPv6 CIDR value "FD00:0::/64" should be in RFC 5952 canonical format ("fd00::/64")'],
            id="not canonical",
        ),
    ],
)
def test_network_has_one_form(text: str, warnings: list[str]) -> None:
    """Other forms are accepted, with warnings that name the canonical form."""
    assert cidr_warnings(text, "spec.x") == warnings


@given(st.ip_addresses(), st.integers(0, 128))
def test_canonical_form_gives_no_warning(address: object, length: int) -> None:
    """Warnings propose this form."""
    text = str(address)
    network = parse_network(f"{text}/{length}")
    if not text.startswith("::ffff:"):
        assert ip_warnings(text, "x") == []
    if network is not None and not str(network).startswith("::ffff:"):
        assert cidr_warnings(str(network), "x") == []


@given(st.text(st.sampled_from("0123456789abfF:./%"), max_size=20))
def test_any_text_gives_a_warning_only_if_it_is_an_address(text: str) -> None:
    """No text raises an exception."""
    assert not (ip_warnings(text, "x") and parse_address(text) is None)
    assert not (cidr_warnings(text, "x") and parse_network(text) is None)
