"""Validation of a Service that has its defaults and its allocated addresses and ports.

Upstream: pkg/apis/core/validation/validation.go
"""

from collections.abc import Sequence

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    duplicate,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.names import (
    cidr_errors,
    dns1035_label_errors,
    dns1123_label_errors,
    dns1123_subdomain_errors,
    ip_errors,
    port_name_errors,
    port_number_errors,
)
from pykubelet.api.serializer import Document
from pykubelet.kinds.addresses import endpoint_ip_errors
from pykubelet.kinds.metadata import (
    IMMUTABLE,
    label_name_errors,
    labels_errors,
    metadata_errors,
    metadata_update_errors,
)
from pykubelet.kinds.rules import PROTOCOL, OneOf, repeated_indexes

NO_ADDRESS = "None"
_FAMILIES = OneOf(("IPv4", "IPv6"))
_FAMILY_POLICIES = OneOf(("PreferDualStack", "RequireDualStack", "SingleStack"))
_FIXED = "may not change once set"
_TYPES = OneOf(("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"))
_AFFINITIES = OneOf(("ClientIP", "None"))
_TRAFFIC_POLICIES = OneOf(("Cluster", "Local"))
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_IP_MODES = OneOf(("Proxy", "VIP"))
ROUTED_TYPES = frozenset({"ClusterIP", "LoadBalancer", "NodePort"})
_MAX_AFFINITY_SECONDS = 86400
_ONLY_BALANCED = "may only be used when `type` is 'LoadBalancer'"
TOPOLOGY_MODE = "service.kubernetes.io/topology-mode"
TOPOLOGY_HINTS = "service.kubernetes.io/topology-aware-hints"


def service_create_errors(service: Document) -> list[FieldError]:
    """Validates a new service."""
    return metadata_errors(service["metadata"], name_rule=dns1035_label_errors) + _service_errors(service, {})


def _service_errors(service: Document, before: Document) -> list[FieldError]:
    spec = service["spec"]
    ports = spec.get("ports", ())
    errors = _annotation_errors(service["metadata"].get("annotations", {}))
    if not ports and not is_headless(spec) and spec["type"] != "ExternalName":
        errors.append(required("spec.ports"))
    errors += _type_errors(spec)
    names: set[str] = set()
    for index, port in enumerate(ports):
        errors += _port_errors(port, names, f"spec.ports[{index}]", name_needed=len(ports) > 1)
    errors += labels_errors(spec.get("selector", {}), "spec.selector")
    errors += _affinity_errors(spec)
    errors += address_errors(spec, before)
    known = set(before.get("externalIPs", ()))
    for index, address in enumerate(spec.get("externalIPs", ())):
        at = f"spec.externalIPs[{index}]"
        details = ip_errors(address) if address not in known else []
        errors += each_invalid(at, address, details) or endpoint_ip_errors(address, at)
    errors += _TYPES.errors(spec["type"], "spec.type")
    errors += _repeated_ports_errors(ports, spec["type"])
    errors += _source_ranges_errors(service, before)
    errors += _balancer_ports_errors(spec)
    errors += _balancer_class_errors(spec)
    return errors + _traffic_errors(spec)


def _annotation_errors(annotations: Document) -> list[FieldError]:
    mode, hints = annotations.get(TOPOLOGY_MODE), annotations.get(TOPOLOGY_HINTS)
    if mode is None or hints is None or mode == hints:
        return []
    detail = f"must match annotations[{TOPOLOGY_HINTS}] when both are specified"
    return [invalid(f"metadata.annotations[{TOPOLOGY_MODE}]", mode, detail)]


def is_headless(spec: Document) -> bool:
    """Whether the service has no cluster IP."""
    return bool(spec.get("clusterIPs") == [NO_ADDRESS])


def _type_errors(spec: Document) -> list[FieldError]:
    kind = spec["type"]
    if kind in {"LoadBalancer", "NodePort"} and is_headless(spec):
        return [invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")]
    if kind != "ExternalName":
        return []
    errors = [
        forbidden(f"spec.{name}", "may not be set for ExternalName services")
        for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(name)
    ]
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        return [*errors, required("spec.externalName")]
    return errors + each_invalid("spec.externalName", name, dns1123_subdomain_errors(name))


def _port_errors(port: Document, names: set[str], path: str, *, name_needed: bool) -> list[FieldError]:
    """Validates one port and adds its name to `names`."""
    name, number, protocol, target = port.get("name", ""), port["port"], port.get("protocol", ""), port["targetPort"]
    errors: list[FieldError] = []
    if name:
        errors += each_invalid(f"{path}.name", name, dns1123_label_errors(name))
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
    elif name_needed:
        errors.append(required(f"{path}.name"))
    errors += each_invalid(f"{path}.port", number, port_number_errors(number))
    errors += PROTOCOL.errors(protocol, f"{path}.protocol")
    details = port_name_errors(target) if isinstance(target, str) else port_number_errors(target)
    errors += each_invalid(f"{path}.targetPort", target, details)
    if (app_protocol := port.get("appProtocol")) is not None:
        errors += label_name_errors(app_protocol, f"{path}.appProtocol")
    return errors


def _affinity_errors(spec: Document) -> list[FieldError]:
    affinity, config = spec["sessionAffinity"], spec.get("sessionAffinityConfig")
    if affinity != "ClientIP":
        return _AFFINITIES.errors(affinity, "spec.sessionAffinity")
    at = "spec.sessionAffinityConfig"
    if config is None:
        return [required(at, "when session affinity type is ClientIP")]
    seconds = config.get("clientIP", {}).get("timeoutSeconds")
    if seconds is not None and not 0 < seconds <= _MAX_AFFINITY_SECONDS:
        detail = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
        return [invalid(f"{at}.clientIP.timeoutSeconds", seconds, detail)]
    return []


def address_errors(spec: Document, before: Document) -> list[FieldError]:
    """Validates addresses and families; `before` is the old spec, empty for a new service."""
    if spec["type"] == "ExternalName":
        return []
    at = "spec.clusterIPs"
    first, addresses, families = spec.get("clusterIP", ""), spec.get("clusterIPs", []), spec.get("ipFamilies", ())
    errors: list[FieldError] = []
    if first and not addresses:
        errors.append(required(at))
    elif first and addresses[0] != first:
        errors.append(invalid(at, addresses, "first value must match `clusterIP`"))
    elif addresses and not first:
        errors.append(invalid(at, addresses, "must be empty when `clusterIP` is not specified"))
    repeated = repeated_indexes(families)
    for index, family in enumerate(families):
        errors += _FAMILIES.errors(family, f"spec.ipFamilies[{index}]")
        if index in repeated:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", TypedString(family)))
    errors += _FAMILY_POLICIES.errors(spec.get("ipFamilyPolicy"), "spec.ipFamilyPolicy")
    syntax_errors = _syntax_errors(addresses, before.get("clusterIPs", ()))
    errors += syntax_errors
    if len(addresses) > 2:
        errors.append(invalid(at, addresses, "may only hold up to 2 values"))
    return errors if syntax_errors else errors + _family_errors(spec)


def _syntax_errors(addresses: list[str], known: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    old = set(known)
    for index, address in enumerate(addresses):
        if index == 0 and address == NO_ADDRESS:
            if len(addresses) > 1:
                errors.append(invalid("spec.clusterIPs", addresses, "'None' must be the first and only value"))
        elif address not in old:
            errors += each_invalid(f"spec.clusterIPs[{index}]", address, ip_errors(address))
    return errors


def _family_errors(spec: Document) -> list[FieldError]:
    addresses, families = spec.get("clusterIPs", []), spec.get("ipFamilies", ())
    errors: list[FieldError] = []
    if len(addresses) > 1 and len({family_of(address) for address in addresses}) < 2:
        errors.append(invalid("spec.clusterIPs", addresses, "may specify no more than one IP for each IP family"))
    if is_headless(spec):
        return errors
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in _FAMILIES.values and family_of(address) != family:
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"spec.clusterIPs[{index}]", address, detail))
    return errors


def family_of(address: str) -> str:
    """The IP family of an address."""
    return "IPv6" if ":" in address else "IPv4"


def _repeated_ports_errors(ports: Sequence[Document], kind: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if kind == "ClusterIP":
        used = (f"spec.ports[{index}].nodePort" for index, port in enumerate(ports) if port.get("nodePort"))
        errors += [forbidden(path, "may not be used when `type` is 'ClusterIP'") for path in used]
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        if number := port.get("nodePort", 0):
            if (port.get("protocol", ""), number) in seen:
                errors.append(duplicate(f"spec.ports[{index}].nodePort", number))
            seen.add((port.get("protocol", ""), number))
    seen.clear()
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port["port"])
        if key in seen:
            errors.append(duplicate(f"spec.ports[{index}]", _port_value(*key)))
        seen.add(key)
    return errors


def _port_value(protocol: str, number: int) -> Document:
    return {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": number, "TargetPort": 0, "NodePort": 0}


def _source_ranges_errors(service: Document, before: Document) -> list[FieldError]:
    spec = service["spec"]
    ranges, known = (
        spec.get("loadBalancerSourceRanges", ()),
        set(map(str.strip, before.get("loadBalancerSourceRanges", ()))),
    )
    if not ranges:
        return []
    at = "spec.LoadBalancerSourceRanges"
    errors = [] if spec["type"] == "LoadBalancer" else [forbidden(at, _ONLY_BALANCED)]
    for index, block in enumerate(map(str.strip, ranges)):
        if block not in known:
            errors += each_invalid(f"{at}[{index}]", block, cidr_errors(block))
    return errors


def _balancer_ports_errors(spec: Document) -> list[FieldError]:
    if "allocateLoadBalancerNodePorts" not in spec or spec["type"] == "LoadBalancer":
        return []
    return [forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCED)]


def _balancer_class_errors(spec: Document) -> list[FieldError]:
    name = spec.get("loadBalancerClass")
    if name is None:
        return []
    if spec["type"] != "LoadBalancer":
        return [forbidden("spec.loadBalancerClass", _ONLY_BALANCED)]
    return label_name_errors(name, "spec.loadBalancerClass")


def _traffic_errors(spec: Document) -> list[FieldError]:
    outer, inner = spec.get("externalTrafficPolicy", ""), spec.get("internalTrafficPolicy")
    errors: list[FieldError] = []
    if not is_externally_accessible(spec):
        if outer:
            detail = "may only be set for externally-accessible services"
            errors.append(invalid("spec.externalTrafficPolicy", TypedString(outer), detail))
    else:
        errors += _TRAFFIC_POLICIES.errors(outer, "spec.externalTrafficPolicy")
    errors += _health_port_errors(spec)
    if inner is None:
        errors += [required("spec.internalTrafficPolicy")] if spec["type"] in ROUTED_TYPES else []
    else:
        errors += _TRAFFIC_POLICIES.errors(inner, "spec.internalTrafficPolicy")
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS))
    return errors


def is_externally_accessible(spec: Document) -> bool:
    """Whether the service is reachable from outside of the cluster."""
    return spec["type"] in {"LoadBalancer", "NodePort"} or (
        spec["type"] == "ClusterIP" and bool(spec.get("externalIPs"))
    )


def _health_port_errors(spec: Document) -> list[FieldError]:
    at, port = "spec.healthCheckNodePort", spec.get("healthCheckNodePort", 0)
    if not needs_health_check(spec):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        return [invalid(at, port, detail)] if port else []
    return each_invalid(at, port, port_number_errors(port)) if port else [required(at)]


def needs_health_check(spec: Document) -> bool:
    """Whether a load balancer checks the health of each node."""
    return spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def service_update_errors(new: Document, old: Document) -> list[FieldError]:
    after, before = new["spec"], old["spec"]
    errors = metadata_update_errors(new["metadata"], old["metadata"]) + address_change_errors(after, before)
    if after["type"] == before["type"] == "LoadBalancer":
        name = after.get("loadBalancerClass")
        if name != before.get("loadBalancerClass"):
            shown = None if name is None else TypedString(name)
            errors.append(invalid("spec.loadBalancerClass", shown, _FIXED))
    errors += _balancer_class_errors(after)
    same_port = after.get("healthCheckNodePort") == before.get("healthCheckNodePort")
    if needs_health_check(after) and needs_health_check(before) and not same_port:
        errors.append(forbidden("spec.healthCheckNodePort", IMMUTABLE))
    return errors + _service_errors(new, before)


def address_change_errors(new: Document, old: Document) -> list[FieldError]:
    """Validates a change of addresses and families: the primary ones are immutable."""
    if "ExternalName" in {new["type"], old["type"]}:
        return []
    if is_headless(new) and is_headless(old):
        return []
    errors = _cluster_ips_change_errors(new, old)
    return errors if is_headless(new) != is_headless(old) else errors + _families_change_errors(new, old)


def _cluster_ips_change_errors(new: Document, old: Document) -> list[FieldError]:
    at, after, before = "spec.clusterIPs", new.get("clusterIPs", []), old.get("clusterIPs", [])
    shown = after or None
    if len(after) == len(before):
        changed = [index for index, address in enumerate(before) if address != after[index]]
        return [invalid(f"{at}[{index}]", shown, _FIXED) for index in changed]
    errors: list[FieldError] = []
    if not after:
        errors.append(invalid(f"{at}[0]", shown, "primary clusterIP can not be unset"))
    elif before and after[0] != before[0]:
        errors.append(invalid(f"{at}[0]", shown, _FIXED))
    if len(before) > len(after) == 1:
        errors += _released_errors(new, "clusterIP")
    return errors


def _released_errors(spec: Document, what: str) -> list[FieldError]:
    policy = spec.get("ipFamilyPolicy")
    if policy == "SingleStack":
        return []
    shown = None if policy is None else TypedString(policy)
    return [invalid("spec.ipFamilyPolicy", shown, f"must be set to 'SingleStack' when releasing the secondary {what}")]


def _families_change_errors(new: Document, old: Document) -> list[FieldError]:
    at, after, before = "spec.ipFamilies[0]", new.get("ipFamilies", []), old.get("ipFamilies", [])
    addresses = new.get("clusterIPs") or None
    if len(after) == len(before):
        return [invalid(at, after, _FIXED) for index, family in enumerate(before) if family != after[index]]
    errors: list[FieldError] = []
    if len(before) > len(after) and not addresses:
        errors.append(invalid(at, after or None, "primary ipFamily can not be unset"))
    if after and before and after[0] != before[0]:
        errors.append(invalid(at, addresses, _FIXED))
    if len(before) > len(after) == 1:
        errors += _released_errors(new, "ipFamily")
    return errors


def service_status_errors(new: Document, old: Document) -> list[FieldError]:
    """Validates an update of a service's status."""
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    at, ingress = "status.loadBalancer.ingress", new["status"]["loadBalancer"].get("ingress", ())
    if ingress and new["spec"]["type"] != "LoadBalancer":
        return [*errors, forbidden(at, "may only be used when `spec.type` is 'LoadBalancer'")]
    known = {each.get("ip") for each in old["status"]["loadBalancer"].get("ingress", ())}
    for index, each in enumerate(ingress):
        errors += _ingress_errors(each, known, f"{at}[{index}]")
    return errors


def _ingress_errors(ingress: Document, known: set[str | None], path: str) -> list[FieldError]:
    address, mode, host = ingress.get("ip", ""), ingress.get("ipMode"), ingress.get("hostname", "")
    errors: list[FieldError] = []
    if address and address not in known:
        errors += each_invalid(f"{path}.ip", address, ip_errors(address))
    if mode is None:
        errors += [required(f"{path}.ipMode", "must be specified when `ip` is set")] if address else []
    elif not address:
        errors.append(forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set"))
    else:
        errors += _IP_MODES.errors(mode, f"{path}.ipMode")
    if host:
        errors += each_invalid(f"{path}.hostname", host, dns1123_subdomain_errors(host))
        if not ip_errors(host):
            errors.append(invalid(f"{path}.hostname", host, "must be a DNS name, not an IP address"))
    return errors
