"""Warnings about services, endpoints, ingresses, policies and nodes."""

from typing import Any

import pytest

from pykubelet.kinds import addresses, endpoint_slice, endpoints, ingress, network_policy, node
from pykubelet.kinds.service import strategy as service


def _bad_ip(path: str) -> str:
    return (
        f'{path}: non-standard IP address "01.2.3.4" will be considered invalid in a future Kubernetes release: use '
        '"1.2.3.4"'
    )


def _bad_cidr(path: str) -> str:
    return f'{path}: CIDR value "1.2.3.4/24" is ambiguous in this context (should be "1.2.3.0/24" or "1.2.3.4/32"?)'


@pytest.mark.parametrize(
    ("spec", "warnings"),
    [
        pytest.param({"type": "ClusterIP", "clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"]}, [], id="plain"),
        pytest.param({"clusterIP": "01.2.3.4", "clusterIPs": ["01.2.3.4"]}, [_bad_ip("spec.clusterIPs[0]")], id="cluster"),
        pytest.param({"clusterIP": "", "clusterIPs": ["01.2.3.4"]}, [], id="none set"),
        pytest.param(
            {"type": "ClusterIP", "clusterIP": "None", "loadBalancerIP": "1.1.1.1", "externalIPs": ["1.1.1.1"], "sessionAffinity": "ClientIP"},
            [f"spec.{name} is ignored for headless services" for name in ("loadBalancerIP", "externalIPs", "SessionAffinity")],
            id="headless",
        ),
        pytest.param({"type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "None"}, [], id="plain headless"),
        pytest.param({"externalIPs": ["01.2.3.4"]}, [_bad_ip("spec.externalIPs[0]")], id="external"),
        pytest.param({"loadBalancerIP": "01.2.3.4"}, [_bad_ip("spec.loadBalancerIP")], id="balancer"),
        pytest.param({"loadBalancerSourceRanges": ["1.2.3.4/24"]}, [_bad_cidr("spec.loadBalancerSourceRanges[0]")], id="ranges"),
        pytest.param(
            {"type": "ExternalName", "externalName": "x", "externalIPs": ["1.1.1.1"]},
            ['spec.externalIPs is ignored when spec.type is "ExternalName"'],
            id="addresses of a name",
        ),
        pytest.param(
            {"type": "ClusterIP", "externalName": "x"},
            ['spec.externalName is ignored when spec.type is not "ExternalName"'],
            id="name of addresses",
        ),
    ],
)  # fmt: skip
def test_service_warns(spec: dict[str, Any], warnings: list[str]) -> None:
    """Warnings are about addresses and ignored fields."""
    assert service.service_warnings({"metadata": {}, "spec": spec}) == warnings


def test_service_with_the_old_annotation_warns() -> None:
    """The annotation has a new name."""
    metadata = {"annotations": {"service.kubernetes.io/topology-aware-hints": "auto"}}
    assert service.service_warnings({"metadata": metadata, "spec": {}}) == [
        (
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use "
            "service.kubernetes.io/topology-mode instead"
        )
    ]


def test_addresses_of_load_balancers_warn() -> None:
    """A host name instead of an address does not warn."""
    ingress = [{"ip": "1.2.3.4"}, {"hostname": "x"}, {"ip": "01.2.3.4"}]
    document = {"status": {"loadBalancer": {"ingress": ingress}}}
    assert addresses.load_balancer_warnings(document, {}) == [_bad_ip("status.loadBalancer.ingress[2]")]
    assert addresses.load_balancer_warnings({}, {}) == []


def test_ingress_with_the_old_annotation_warns_unless_the_field_is_set() -> None:
    """The field replaced the annotation."""
    metadata = {"annotations": {"kubernetes.io/ingress.class": "nginx"}}
    assert ingress.ingress_warnings({"metadata": metadata, "spec": {}}) == [
        "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
    ]
    assert ingress.ingress_warnings({"metadata": metadata, "spec": {"ingressClassName": "x"}}) == []
    assert ingress.ingress_warnings({"metadata": {}, "spec": {}}) == []


def test_endpoints_warn_unless_their_controller_wrote_them() -> None:
    """Ready and not-ready addresses are both checked."""
    subset = {"addresses": [{"ip": "01.2.3.4"}], "notReadyAddresses": [{"ip": "1.2.3.4"}, {"ip": "01.2.3.4"}]}
    document = {"metadata": {}, "subsets": [subset]}
    assert endpoints.endpoints_warnings(document) == [
        _bad_ip("subsets[0].addresses[0].ip"),
        _bad_ip("subsets[0].notReadyAddresses[1].ip"),
    ]
    managed = {"labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}}
    assert endpoints.endpoints_warnings(document | {"metadata": managed}) == []


@pytest.mark.parametrize("manager", ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"])
def test_endpoint_slice_warns_unless_a_controller_wrote_it(manager: str) -> None:
    """The deprecated address type warns only when it is new."""
    document = {"metadata": {}, "addressType": "FQDN", "endpoints": [{}, {"addresses": ["x", "01.2.3.4"]}]}
    old, address = "spec.addressType: FQDN endpoints are deprecated", _bad_ip("endpoints[1].addresses[1]")
    assert endpoint_slice.endpoint_slice_warnings(document) == [old, address]
    assert endpoint_slice.endpoint_slice_change_warnings(document, document) == [address]
    managed = document | {"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": manager}}}
    assert endpoint_slice.endpoint_slice_warnings(managed) == [old]


def test_network_policy_warns_about_both_directions() -> None:
    """The exceptions of an IP block are checked too."""
    block = {"ipBlock": {"cidr": "1.2.3.4/24", "except": ["1.2.3.0/25", "1.2.3.4/24"]}}
    spec = {"ingress": [{"from": [{"podSelector": {}}, block]}], "egress": [{"to": [block]}]}
    assert network_policy.network_policy_warnings({"metadata": {}, "spec": spec}) == [
        _bad_cidr(f"spec.{path}.ipBlock.{field}")
        for path in ("ingress[0].from[1]", "egress[0].to[0]")
        for field in ("cidr", "except[1]")
    ]


@pytest.mark.parametrize(
    ("spec", "warnings"),
    [
        pytest.param({"podCIDRs": ["1.2.3.0/24"]}, [], id="plain"),
        pytest.param({"configSource": {}}, ["spec.configSource: the feature is removed"], id="dynamic configuration"),
        pytest.param(
            {"externalID": "x"}, ["spec.externalID: this field is deprecated, and is unused by Kubernetes"], id="id"
        ),
        pytest.param({"podCIDRs": ["1.2.3.4/24"]}, [_bad_cidr("spec.podCIDRs[0]")], id="network"),
    ],
)
def test_node_warns(spec: dict[str, Any], warnings: list[str]) -> None:
    """Warnings are about unused fields and CIDR blocks."""
    assert node.node_warnings({"metadata": {}, "spec": spec}) == warnings
