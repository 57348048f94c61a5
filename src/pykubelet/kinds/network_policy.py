"""NetworkPolicy: allowed traffic from and to pods.

Upstream: pkg/registry/networking/networkpolicy/strategy.go, pkg/apis/networking/v1/defaults.go,
pkg/apis/networking/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.names import Network, cidr_errors, parse_network, port_name_errors, port_number_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.addresses import cidr_warnings
from pykubelet.kinds.columns import at, created, format_selector, name_of
from pykubelet.kinds.kind import Kind, Strategy, Warnings, first_generation, next_generation
from pykubelet.kinds.metadata import label_selector_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.rules import OneOf

_PROTOCOLS = OneOf(("TCP", "UDP", "SCTP"))
_POLICY_TYPES = ("Ingress", "Egress")
# Each direction with the field of its peers.
_DIRECTIONS = (("ingress", "from"), ("egress", "to"))


def _default(document: Document) -> Document:
    normal = normal_form(document, "networking.v1.NetworkPolicy")
    spec = normal["spec"]
    # A policy without types applies to incoming traffic, and to outgoing traffic if it has egress rules.
    types = list(_POLICY_TYPES) if spec.get("egress") else ["Ingress"]
    filled = {"policyTypes": types, **spec}
    for direction, _ in _DIRECTIONS:
        if direction in spec:
            filled[direction] = [_default_rule(rule) for rule in spec[direction]]
    return {**normal, "spec": filled}


def _default_rule(rule: Document) -> Document:
    return {**rule, "ports": [{"protocol": "TCP", **port} for port in rule["ports"]]} if "ports" in rule else rule


def _validate_create(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"]) + _spec_errors(document["spec"], "spec")


def _spec_errors(spec: Document, path: str) -> list[FieldError]:
    errors = label_selector_errors(spec["podSelector"], f"{path}.podSelector")
    for direction, side in _DIRECTIONS:
        for index, rule in enumerate(spec.get(direction, ())):
            at = f"{path}.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports", ())):
                errors += _port_errors(port, f"{at}.ports[{number}]")
            for number, peer in enumerate(rule.get(side, ())):
                errors += _peer_errors(peer, f"{at}.{side}[{number}]")
    types = spec["policyTypes"]
    if len(types) > len(_POLICY_TYPES):
        errors.append(invalid(f"{path}.policyTypes", types, "may not specify more than two policyTypes"))
        return errors
    return errors + [
        not_supported(f"{path}.policyTypes[{index}]", TypedString(kind), _POLICY_TYPES)
        for index, kind in enumerate(types)
        if kind not in _POLICY_TYPES
    ]


def _port_errors(port: Document, path: str) -> list[FieldError]:
    number, end, protocol = port.get("port"), port.get("endPort"), port["protocol"]
    errors = _PROTOCOLS.errors(protocol, f"{path}.protocol")
    if number is None:
        if end is not None:
            errors.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is not specified"))
    elif isinstance(number, str):
        if end is not None:
            errors.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric"))
        errors += each_invalid(f"{path}.port", number, port_name_errors(number))
    else:
        errors += each_invalid(f"{path}.port", number, port_number_errors(number))
        if end is not None:
            if end < number:
                errors.append(invalid(f"{path}.endPort", number, "must be greater than or equal to `port`"))
            errors += each_invalid(f"{path}.endPort", end, port_number_errors(end))
    return errors


def _peer_errors(peer: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("podSelector", "namespaceSelector"):
        errors += label_selector_errors(peer.get(name), f"{path}.{name}")
    if "ipBlock" in peer:
        errors += _block_errors(peer["ipBlock"], f"{path}.ipBlock")
    if not peer:
        errors.append(required(path, "must specify a peer"))
    elif "ipBlock" in peer and len(peer) > 1:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return errors


def _block_errors(block: Document, path: str) -> list[FieldError]:
    text = block["cidr"]
    if not text:
        return [required(f"{path}.cidr")]
    network = parse_network(text)
    if network is None:
        return each_invalid(f"{path}.cidr", text, cidr_errors(text))
    errors: list[FieldError] = []
    for index, exception in enumerate(block.get("except", ())):
        at, hole = f"{path}.except[{index}]", parse_network(exception)
        if hole is None:
            errors += each_invalid(at, exception, cidr_errors(exception))
        elif not _is_strictly_inside(hole, network):
            errors.append(invalid(at, exception, "must be a strict subset of `cidr`"))
    return errors


def _is_strictly_inside(hole: Network, network: Network) -> bool:
    same_family = hole.version == network.version
    return same_family and hole.network_address in network and hole.prefixlen > network.prefixlen


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    errors = _validate_create(new) + metadata_update_errors(new["metadata"], old["metadata"])
    return errors + _spec_errors(new["spec"], "spec")


def network_policy_warnings(document: Document) -> list[str]:
    """Warns about the CIDR blocks of a NetworkPolicy."""
    warnings: list[str] = []
    for direction, peers in _DIRECTIONS:
        for index, rule in enumerate(document.get("spec", {}).get(direction, ())):
            for place, peer in enumerate(rule.get(peers, ())):
                if (block := peer.get("ipBlock")) is None:
                    continue
                path = f"spec.{direction}[{index}].{peers}[{place}].ipBlock"
                warnings += cidr_warnings(block.get("cidr", ""), f"{path}.cidr")
                for exception, cidr in enumerate(block.get("except", ())):
                    warnings += cidr_warnings(cidr, f"{path}.except[{exception}]")
    return warnings


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, pod selector, age."""
    return [name_of(document), format_selector(at(document, "spec", "podSelector")), created(document, age)]


KIND = Kind(
    resource=Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    definition="networking.v1.NetworkPolicy",
    short_names=("netpol",),
    strategy=Strategy(
        default=_default,
        prepare_create=first_generation,
        validate_create=_validate_create,
        prepare_update=lambda new, old: next_generation(new, old, changed=new["spec"] != old["spec"]),
        validate_update=_validate_update,
        warnings=Warnings.always(network_policy_warnings),
    ),
    cells=_cells,
)
