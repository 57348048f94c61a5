"""Validation of services: what a field needs and what excludes it, and its limits."""

from typing import Any

import pytest

from pykubelet.kinds.service import strategy as service
from pykubelet.kinds.service.validation import TOPOLOGY_HINTS, TOPOLOGY_MODE
from strategy_calls import SYSTEM, texts, update, update_status

SERVICES = service.KIND.strategy
BALANCED: dict[str, Any] = {"type": "LoadBalancer"}
ONLY = "Forbidden: may only be used when `type` is 'LoadBalancer'"
ONE_ADDRESS = "may specify no more than one IP for each IP family"
POLICIES = 'supported values: "Cluster", "Local"'
ONLY_LOCAL = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
NAMED: dict[str, Any] = {"type": "ExternalName", "externalName": "x.y"}


def stored(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A service with the address 10.96.0.2, unless the spec says otherwise."""
    metadata = {"name": "s", "namespace": "default", "annotations": annotations or {}, **SYSTEM}
    address = {} if spec.get("type") == "ExternalName" else {"clusterIP": "10.96.0.2", "ipFamilies": ["IPv4"]}
    plain = {"ports": [{"port": 80}], **address, **spec}
    return SERVICES.prepare_create(SERVICES.default({"metadata": metadata, "spec": plain}))


def affinity(seconds: int) -> dict[str, Any]:
    return {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}}}


def ports(*more: dict[str, Any]) -> dict[str, Any]:
    return {"ports": [{"name": "a", "port": 80, "nodePort": 30001}, *more]}


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        (affinity(1), []),
        (affinity(86400), []),
        (
            affinity(0),
            [
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than 86400"
            ],
        ),
        (
            affinity(86401),
            [
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less than 86400"
            ],
        ),
        (
            {"clusterIPs": ["10.96.0.3"]},
            ['spec.clusterIPs: Invalid value: ["10.96.0.3"]: first value must match `clusterIP`'],
        ),
        (
            {"clusterIP": "", "clusterIPs": ["10.96.0.3"]},
            ['spec.clusterIPs: Invalid value: ["10.96.0.3"]: must be empty when `clusterIP` is not specified'],
        ),
        (
            {"clusterIP": "None", "clusterIPs": ["None", "10.96.0.3"]},
            ['spec.clusterIPs: Invalid value: ["None","10.96.0.3"]: \'None\' must be the first and only value'],
        ),
        ({"clusterIPs": ["10.96.0.2", "fd00::2"], "ipFamilies": ["IPv4", "IPv6"]}, []),
        (
            {"clusterIPs": ["10.96.0.2", "10.96.0.3"]},
            [f'spec.clusterIPs: Invalid value: ["10.96.0.2","10.96.0.3"]: {ONE_ADDRESS}'],
        ),
        (
            {"clusterIPs": ["10.96.0.2", "fd00::2", "fd00::3"]},
            ['spec.clusterIPs: Invalid value: ["10.96.0.2","fd00::2","fd00::3"]: may only hold up to 2 values'],
        ),
        (
            {"ipFamilies": ["IPv6"]},
            [
                'spec.clusterIPs[0]: Invalid value: "10.96.0.2": expected an IPv6 value as indicated by `ipFamilies[0]`'
            ],
        ),
        ({"ipFamilies": ["IPv4", "IPv4"]}, ['spec.ipFamilies[1]: Duplicate value: "IPv4"']),
        (
            {"ipFamilyPolicy": "Both"},
            [
                'spec.ipFamilyPolicy: Unsupported value: "Both": supported values: "PreferDualStack", "RequireDualStack", "SingleStack"'
            ],
        ),
        (
            {"type": "NodePort", **ports({"name": "a", "port": 81, "nodePort": 30001, "protocol": "UDP"})},
            ['spec.ports[1].name: Duplicate value: "a"'],
        ),
        (
            {"type": "NodePort", **ports({"name": "b", "port": 81, "nodePort": 30001})},
            ["spec.ports[1].nodePort: Duplicate value: 30001"],
        ),
        (ports(), ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"]),
        (
            {"loadBalancerSourceRanges": ["10.0.0.0/8"]},
            [f"spec.LoadBalancerSourceRanges: {ONLY}"],
        ),
        ({**BALANCED, "loadBalancerSourceRanges": [" 10.0.0.0/8 "]}, []),
        ({"allocateLoadBalancerNodePorts": True}, [f"spec.allocateLoadBalancerNodePorts: {ONLY}"]),
        ({**BALANCED, "allocateLoadBalancerNodePorts": False, "loadBalancerClass": "x.io/a"}, []),
        (
            {"externalTrafficPolicy": "Local"},
            [
                'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services'
            ],
        ),
        (
            {"type": "NodePort", "externalTrafficPolicy": "Near"},
            [f'spec.externalTrafficPolicy: Unsupported value: "Near": {POLICIES}'],
        ),
        (
            {"internalTrafficPolicy": "Near"},
            [f'spec.internalTrafficPolicy: Unsupported value: "Near": {POLICIES}'],
        ),
        (
            {"trafficDistribution": "Near"},
            [
                'spec.trafficDistribution: Unsupported value: "Near": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"'
            ],
        ),
        (
            {**BALANCED, "healthCheckNodePort": 30009},
            [f"spec.healthCheckNodePort: Invalid value: 30009: {ONLY_LOCAL}"],
        ),
        ({**BALANCED, "externalTrafficPolicy": "Local"}, ["spec.healthCheckNodePort: Required value"]),
        ({**BALANCED, "externalTrafficPolicy": "Local", "healthCheckNodePort": 30009}, []),
        (
            {**BALANCED, "externalTrafficPolicy": "Local", "healthCheckNodePort": 65536},
            ["spec.healthCheckNodePort: Invalid value: 65536: must be between 1 and 65535, inclusive"],
        ),
        ({**NAMED, "clusterIPs": ["10.96.0.2"]}, ["spec.clusterIPs: Forbidden: may not be set for ExternalName services"]),
        (
            {**NAMED, "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"},
            [
                "spec.ipFamilies: Forbidden: may not be set for ExternalName services",
                "spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services",
            ],
        ),
    ],
)  # fmt: skip
def test_service_is_validated(spec: dict[str, Any], messages: list[str]) -> None:
    assert texts(SERVICES.validate_create(stored(**spec))) == messages


@pytest.mark.parametrize(
    ("spec", "begin"),
    [
        ({"clusterIP": "10.96.0"}, 'spec.clusterIPs[0]: Invalid value: "10.96.0": must be a valid IP address'),
        (
            {**BALANCED, "loadBalancerSourceRanges": ["10.0.0.0/99"]},
            'spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.0/99": must be a valid CIDR value',
        ),
        (
            {"ports": [{"port": 80, "appProtocol": "a b"}]},
            'spec.ports[0].appProtocol: Invalid value: "a b": name part must consist of',
        ),
        ({**BALANCED, "loadBalancerClass": "a b"}, 'spec.loadBalancerClass: Invalid value: "a b": name part must'),
        ({**NAMED, "externalName": "x_y"}, 'spec.externalName: Invalid value: "x_y": a lowercase RFC 1123 subdomain'),
    ],
)
def test_name_or_address_in_a_service_is_validated(spec: dict[str, Any], begin: str) -> None:
    (message,) = texts(SERVICES.validate_create(stored(**spec)))
    assert message.startswith(begin)


@pytest.mark.parametrize(
    ("annotations", "is_valid"),
    [
        ({TOPOLOGY_MODE: "Auto"}, True),
        ({TOPOLOGY_HINTS: "Auto"}, True),
        ({TOPOLOGY_MODE: "Auto", TOPOLOGY_HINTS: "Auto"}, True),
        ({TOPOLOGY_MODE: "Auto", TOPOLOGY_HINTS: "disabled"}, False),
    ],
)
def test_both_annotations_of_the_topology_must_agree(annotations: dict[str, str], *, is_valid: bool) -> None:
    message = (
        f'metadata.annotations[{TOPOLOGY_MODE}]: Invalid value: "Auto": must match annotations[{TOPOLOGY_HINTS}] '
        "when both are specified"
    )
    assert texts(SERVICES.validate_create(stored(annotations))) == ([] if is_valid else [message])


def test_affinity_of_clients_lasts_three_hours_by_default() -> None:
    spec = stored(sessionAffinity="ClientIP")["spec"]
    assert spec["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}
    assert stored(**affinity(5))["spec"]["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 5}}
    assert "sessionAffinityConfig" not in stored(**affinity(5) | {"sessionAffinity": "None"})["spec"]


@pytest.mark.parametrize(
    ("spec", "change", "messages"),
    [
        ({"loadBalancerClass": "x.io/a"}, {"loadBalancerClass": "x.io/a"}, []),
        (
            {"loadBalancerClass": "x.io/a"},
            {"loadBalancerClass": "x.io/b"},
            ['spec.loadBalancerClass: Invalid value: "x.io/b": may not change once set'],
        ),
        (
            {"loadBalancerClass": "x.io/a"},
            {"loadBalancerClass": None},
            ["spec.loadBalancerClass: Invalid value: null: may not change once set"],
        ),
        (
            {"externalTrafficPolicy": "Local", "healthCheckNodePort": 30009},
            {"healthCheckNodePort": 30010},
            ["spec.healthCheckNodePort: Forbidden: field is immutable"],
        ),
    ],
)
def test_update_of_a_load_balancer_is_validated(
    spec: dict[str, Any], change: dict[str, Any], messages: list[str]
) -> None:
    assert update(SERVICES, stored(**BALANCED, **spec), {"spec": change})[1] == messages


@pytest.mark.parametrize(
    ("spec", "change", "dropped"),
    [
        (
            {"loadBalancerClass": "x.io/a", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30009},
            {"type": "ClusterIP"},
            {"loadBalancerClass", "externalTrafficPolicy", "healthCheckNodePort", "allocateLoadBalancerNodePorts"},
        ),
        (
            {"loadBalancerClass": "x.io/a"},
            {"type": "NodePort"},
            {"loadBalancerClass", "allocateLoadBalancerNodePorts"},
        ),
        (
            {"externalTrafficPolicy": "Local", "healthCheckNodePort": 30009},
            {"externalTrafficPolicy": "Cluster"},
            {"healthCheckNodePort"},
        ),
        ({}, {**NAMED}, {"clusterIP", "clusterIPs", "ipFamilies", "externalTrafficPolicy", "allocateLoadBalancerNodePorts"}),
    ],
    ids=["internal", "on nodes", "other policy", "name"],
)  # fmt: skip
def test_field_that_only_the_old_type_has_goes_with_it(
    spec: dict[str, Any], change: dict[str, Any], dropped: set[str]
) -> None:
    old = stored(**BALANCED, **spec)
    new, messages = update(SERVICES, old, {"spec": change})
    assert (old["spec"].keys() - new["spec"].keys(), messages) == (dropped, [])


@pytest.mark.parametrize(
    ("ingress", "messages"),
    [
        ({"ip": "192.0.2.1", "ipMode": "Proxy"}, []),
        ({"hostname": "lb.example.com"}, []),
        (
            {"hostname": "lb.example.com", "ipMode": "VIP"},
            ["status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified when `ip` is not set"],
        ),
        (
            {"hostname": "192.0.2.1"},
            [
                'status.loadBalancer.ingress[0].hostname: Invalid value: "192.0.2.1": must be a DNS name, not an IP address'
            ],
        ),
    ],
)
def test_address_of_a_load_balancer_is_validated(ingress: dict[str, Any], messages: list[str]) -> None:
    _, found = update_status(SERVICES, stored(**BALANCED), {"status": {"loadBalancer": {"ingress": [ingress]}}})
    assert found == messages


def test_name_of_a_load_balancer_and_its_address_have_their_form() -> None:
    bad = {"ip": "192.0.2", "ipMode": "VIP", "hostname": "a_b"}
    _, found = update_status(SERVICES, stored(**BALANCED), {"status": {"loadBalancer": {"ingress": [bad]}}})
    at = "status.loadBalancer.ingress[0]"
    assert [text.partition(": Invalid")[0] for text in found] == [f"{at}.ip", f"{at}.hostname"]
