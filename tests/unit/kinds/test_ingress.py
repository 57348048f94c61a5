"""The rules of Ingresses and NetworkPolicies."""

from typing import Any

import pytest

from pykubelet.kinds import ingress, network_policy
from strategy_calls import create, update, update_status

_INGRESSES = ingress.KIND.strategy
_POLICIES = network_policy.KIND.strategy
_SERVICE = {"service": {"name": "web", "port": {"number": 80}}}


def _ingress(path: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    rule = {"host": "a.example.com", "http": {"paths": [{"pathType": "Prefix", "path": "/", "backend": _SERVICE}]}}
    if path is not None:
        rule = {"http": {"paths": [{"pathType": "Prefix", "path": "/", "backend": _SERVICE, **path}]}}
    return {"spec": {"rules": [rule], **spec}}


_PATH = "spec.rules[0].http.paths[0]"
_INGRESS_CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "good": (_ingress(), []),
    "default backend": ({"spec": {"defaultBackend": _SERVICE}}, []),
    "nothing": ({}, ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]),
    "address for a host": (
        {"spec": {"rules": [{"host": "10.0.0.1"}]}},
        ['spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address'],
    ),
    "no paths": (
        {"spec": {"rules": [{"http": {}}]}},
        ["spec.rules[0].http.paths: Required value"],
    ),
    "no type": (
        _ingress({"pathType": None}),
        [f"{_PATH}.pathType: Required value: pathType must be specified"],
    ),
    "unknown type": (
        _ingress({"pathType": "Regex"}),
        [
            f'{_PATH}.pathType: Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", "Prefix"'
        ],
    ),
    "crooked path": (
        _ingress({"path": "a//b/.."}),
        [
            f'{_PATH}.path: Invalid value: "a//b/..": must be an absolute path',
            f"{_PATH}.path: Invalid value: \"a//b/..\": must not contain '//'",
            f"{_PATH}.path: Invalid value: \"a//b/..\": cannot end with '/..'",
        ],
    ),
    "any path": (_ingress({"pathType": "ImplementationSpecific", "path": None}), []),
    "relative path": (
        _ingress({"pathType": "ImplementationSpecific", "path": "x"}),
        [f'{_PATH}.path: Invalid value: "x": must be an absolute path'],
    ),
    "no backend": (
        _ingress({"backend": {}}),
        [f'{_PATH}.backend: Invalid value: "": resource or service backend is required'],
    ),
    "two backends": (
        _ingress({"backend": {**_SERVICE, "resource": {"kind": "K", "name": "n"}}}),
        [f'{_PATH}.backend: Invalid value: "": cannot set both resource and service backends'],
    ),
    "resource": (
        _ingress({"backend": {"resource": {"kind": "a/b"}}}),
        [
            f"{_PATH}.backend.resource.kind: Invalid value: \"a/b\": may not contain '/'",
            f"{_PATH}.backend.resource.name: Required value",
        ],
    ),
    "service": (
        _ingress({"backend": {"service": {"port": {"name": "x", "number": 1}}}}),
        [
            f"{_PATH}.backend.service.name: Required value",
            f'{_PATH}.backend: Invalid value: "": cannot set both port name & port number',
        ],
    ),
    "port number": (
        _ingress({"backend": {"service": {"name": "s", "port": {"number": 70000}}}}),
        [f"{_PATH}.backend.service.port.number: Invalid value: 70000: must be between 1 and 65535, inclusive"],
    ),
    "port name": (
        _ingress({"backend": {"service": {"name": "s", "port": {"name": "-a"}}}}),
        [f'{_PATH}.backend.service.port.name: Invalid value: "-a": must not begin or end with a hyphen'],
    ),
    "no port": (
        _ingress({"backend": {"service": {"name": "s"}}}),
        [f"{_PATH}.backend: Required value: port name or number is required"],
    ),
    "certificates": (_ingress(tls=[{"hosts": ["*.example.com", "a.example.com"], "secretName": "s"}]), []),
    "two classes": (
        {**_ingress(ingressClassName="b"), "metadata": {"annotations": {"kubernetes.io/ingress.class": "a"}}},
        [
            'annotations.kubernetes.io/ingress.class: Invalid value: "a": must match `ingressClassName` when both are specified'
        ],
    ),
}


@pytest.mark.parametrize(("document", "messages"), _INGRESS_CASES.values(), ids=_INGRESS_CASES.keys())
def test_ingress_is_rejected_when_invalid(document: dict[str, Any], messages: list[str]) -> None:
    """The messages are the API server's."""
    stored, found = create(_INGRESSES, document)
    assert found == messages
    assert (stored["metadata"]["generation"], stored["status"]) == (1, {"loadBalancer": {}})


def test_ingress_status_is_refused_when_an_address_is_invalid() -> None:
    """An unchanged address is not validated again."""
    stored, _ = create(_INGRESSES, _ingress())
    points = [{"ip": "x"}, {"hostname": "1.2.3.4"}, {"hostname": "-a"}]
    _, messages = update_status(_INGRESSES, stored, {"status": {"loadBalancer": {"ingress": points}}})
    at = "status.loadBalancer.ingress[2].hostname"
    assert messages.pop().startswith(f'{at}: Invalid value: "-a": a lowercase RFC 1123 subdomain must consist of')
    assert messages == [
        'status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        'status.loadBalancer.ingress[1].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address',
    ]
    older = {**stored, "status": {"loadBalancer": {"ingress": [{"ip": "x"}]}}}
    assert update_status(_INGRESSES, older, {"metadata": {"labels": {"a": "b"}}})[1] == []


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        ({}, ["Ingress"]),
        ({"egress": [{}]}, ["Ingress", "Egress"]),
        ({"egress": []}, ["Ingress"]),
        ({"policyTypes": ["Egress"]}, ["Egress"]),
    ],
    ids=["nothing", "egress", "empty", "said"],
)
def test_network_policy_gets_default_policy_types(spec: dict[str, Any], types: list[str]) -> None:
    """They include Ingress unless the policy sets them; ports default to TCP."""
    stored, messages = create(_POLICIES, {"spec": {**spec, "ingress": [{"ports": [{"port": 80}]}]}})
    assert (stored["spec"]["policyTypes"], messages) == (types, [])
    assert stored["spec"]["ingress"] == [{"ports": [{"port": 80, "protocol": "TCP"}]}]
    assert stored["spec"]["podSelector"] == {}


def _port(**port: Any) -> dict[str, Any]:
    return {"ingress": [{"ports": [port]}]}


def _peer(**peer: Any) -> dict[str, Any]:
    return {"egress": [{"to": [peer]}]}


_AT, _TO = "spec.ingress[0].ports[0]", "spec.egress[0].to[0]"
_POLICY_CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "range": (_port(port=80, endPort=90), []),
    "backwards": (
        _port(port=80, endPort=0),
        [
            f"{_AT}.endPort: Invalid value: 80: must be greater than or equal to `port`",
            f"{_AT}.endPort: Invalid value: 0: must be between 1 and 65535, inclusive",
        ],
    ),
    "named range": (
        _port(port="http", endPort=90),
        [f"{_AT}.endPort: Invalid value: 90: may not be specified when `port` is non-numeric"],
    ),
    "open range": (
        _port(endPort=90, protocol="ICMP"),
        [
            f'{_AT}.protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"',
            f"{_AT}.endPort: Invalid value: 90: may not be specified when `port` is not specified",
        ],
    ),
    "no peer": (_peer(), [f"{_TO}: Required value: must specify a peer"]),
    "pods of namespaces": (_peer(podSelector={}, namespaceSelector={}), []),
    "block": (_peer(ipBlock={"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}), []),
    "block and pods": (
        _peer(podSelector={}, ipBlock={"cidr": "10.0.0.0/8"}),
        [f"{_TO}: Forbidden: may not specify both ipBlock and another peer"],
    ),
    "no block": (_peer(ipBlock={}), [f"{_TO}.ipBlock.cidr: Required value"]),
    "bad block": (
        _peer(ipBlock={"cidr": "x", "except": ["y"]}),
        [f'{_TO}.ipBlock.cidr: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'],
    ),
    "holes": (
        _peer(ipBlock={"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "10.0.0.0/8", "fd00::/64", "z"]}),
        [
            *(
                f'{_TO}.ipBlock.except[{index}]: Invalid value: "{text}": must be a strict subset of `cidr`'
                for index, text in enumerate(("11.0.0.0/16", "10.0.0.0/8", "fd00::/64"))
            ),
            f'{_TO}.ipBlock.except[3]: Invalid value: "z": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)',
        ],
    ),
    "types": (
        {"policyTypes": ["Up"]},
        ['spec.policyTypes[0]: Unsupported value: "Up": supported values: "Ingress", "Egress"'],
    ),
    "many types": (
        {"policyTypes": ["Ingress", "Egress", "Up"]},
        ['spec.policyTypes: Invalid value: ["Ingress","Egress","Up"]: may not specify more than two policyTypes'],
    ),
}


@pytest.mark.parametrize(("spec", "messages"), _POLICY_CASES.values(), ids=_POLICY_CASES.keys())
def test_network_policy_is_rejected_when_invalid(spec: dict[str, Any], messages: list[str]) -> None:
    """The messages are the API server's; on update each comes twice."""
    assert create(_POLICIES, {"spec": spec})[1] == messages
    stored, _ = create(_POLICIES, {})
    new, found = update(_POLICIES, stored, {"spec": spec})
    assert found == messages * 2
    assert new["metadata"]["generation"] == 2
