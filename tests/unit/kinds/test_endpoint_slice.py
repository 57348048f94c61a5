"""The rules of EndpointSlices."""

from typing import Any

import pytest

from pykubelet.kinds.endpoint_slice import KIND
from strategy_calls import create, update

_SLICES = KIND.strategy


def _slice(*addresses: str, kind: str = "IPv4", **fields: Any) -> dict[str, Any]:
    endpoint = {"addresses": list(addresses or ("10.0.0.1",)), **fields}
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": kind, "endpoints": [endpoint]}


def test_endpoint_slice_gets_defaults_when_fields_are_missing() -> None:
    """A port gets an empty name and TCP; absent lists become null."""
    stored, messages = create(_SLICES, {**_slice(), "ports": [{"port": 80}]})
    assert (stored["ports"], messages) == ([{"name": "", "protocol": "TCP", "port": 80}], [])
    bare, messages = create(_SLICES, {"addressType": "IPv4"})
    assert (bare["ports"], bare["endpoints"], messages) == (None, None, [])


_A = "endpoints[0].addresses"
_CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no type": (_slice(kind=""), ["addressType: Required value"]),
    "unknown type": (
        _slice(kind="IPX"),
        ['addressType: Unsupported value: "IPX": supported values: "FQDN", "IPv4", "IPv6"'],
    ),
    "other family": (_slice("fd00::1"), [f'{_A}: Invalid value: "fd00::1": must be an IPv4 address']),
    "ipv4 as ipv6": (_slice("10.0.0.1", kind="IPv6"), [f'{_A}: Invalid value: "10.0.0.1": must be an IPv6 address']),
    "leading zeros": (_slice("010.0.0.1"), []),
    "not canonical": (
        _slice("fd00:0::1", kind="IPv6"),
        [f'{_A}[0]: Invalid value: "fd00:0::1": must be in canonical form ("fd00::1")'],
    ),
    "mapped": (
        _slice("::ffff:1.2.3.4", kind="IPv6"),
        [f'{_A}[0]: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 address'],
    ),
    "no address at all": (
        _slice("x"),
        [f'{_A}[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'],
    ),
    "unspecified": (_slice("0.0.0.0"), [f'{_A}[0]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)']),
    "loopback": (
        _slice("127.0.0.1"),
        [f'{_A}[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)'],
    ),
    "link local": (
        _slice("169.254.0.1"),
        [f'{_A}[0]: Invalid value: "169.254.0.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)'],
    ),
    "multicast": (
        _slice("ff02::1", kind="IPv6"),
        [f'{_A}[0]: Invalid value: "ff02::1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)'],
    ),
    "name": (_slice("a.example.com.", kind="FQDN"), []),
    "short name": (
        _slice("a", kind="FQDN"),
        [f'{_A}[0]: Invalid value: "a": should be a domain with at least two segments separated by dots'],
    ),
    "empty": (
        {"addressType": "IPv4", "endpoints": [{}]},
        [f"{_A}: Required value: must contain at least 1 address"],
    ),
    "host": (
        _slice(hostname="a.b"),
        ['endpoints[0].hostname: Invalid value: "a.b": must not contain dots'],
    ),
    "many endpoints": (
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}] * 1001},
        ["endpoints: Too many: 1001: must have at most 1000 items"],
    ),
    "many addresses": (_slice(*["10.0.0.1"] * 101), [f"{_A}: Too many: 101: must have at most 100 items"]),
    "many ports": (
        {"addressType": "IPv4", "ports": [{}] * 20_001},
        ["ports: Too many: 20001: must have at most 20000 items"],
    ),
    "as many as may be": (
        {
            "addressType": "IPv4",
            "ports": [{"name": f"p{number}"} for number in range(20_000)],
            "endpoints": [{"addresses": ["10.0.0.1"] * 100}, *[{"addresses": ["10.0.0.1"]}] * 999],
        },
        [],
    ),
    "hints": (
        _slice(hints={"forZones": [{"name": "a"}, {"name": "a"}], "forNodes": [{"name": "n"}] * 9}),
        [
            'endpoints[0].hints.forZones[1].name: Duplicate value: "a"',
            "endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items",
        ],
    ),
    "ports": (
        {**_slice(), "ports": [{"name": "a"}, {"name": "a", "protocol": "IP", "appProtocol": "x y"}]},
        [
            'ports[1].name: Duplicate value: "a"',
            'ports[1].protocol: Unsupported value: "IP": supported values: "SCTP", "TCP", "UDP"',
            "ports[1].appProtocol: Invalid value: \"x y\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ],
    ),
}


@pytest.mark.parametrize(("document", "messages"), _CASES.values(), ids=_CASES.keys())
def test_endpoint_slice_is_rejected_when_invalid(document: dict[str, Any], messages: list[str]) -> None:
    """The messages are the API server's."""
    assert create(_SLICES, document)[1] == messages


def test_endpoint_slice_increments_its_generation_when_labels_or_endpoints_change() -> None:
    """A change of annotations does not."""
    stored, _ = create(_SLICES, _slice())
    patches: tuple[dict[str, Any], ...] = (
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"labels": {"a": "b"}}},
        {"endpoints": []},
    )
    generations = [update(_SLICES, stored, patch)[0]["metadata"]["generation"] for patch in patches]
    assert generations == [1, 2, 2]


def test_endpoint_slice_keeps_its_type_and_loses_old_topology() -> None:
    """The type decides how the addresses are read."""
    stored, _ = create(_SLICES, _slice(deprecatedTopology={"kubernetes.io/hostname": "n"}))
    assert "deprecatedTopology" not in stored["endpoints"][0]
    _, messages = update(_SLICES, stored, {"addressType": "FQDN"})
    assert messages == ['addressType: Invalid value: "FQDN": field is immutable']
