"""Complaints about a pod's place in the network: DNS, host names, host ports.

Upstream: validateDNSPolicy, validatePodDNSConfig, validatePodHostNetworkDeps, validatePodHostName and
ValidateHostAliases in pkg/apis/core/validation/validation.go
"""

from collections.abc import Sequence

from pykubelet.api.names import (
    byte_length,
    dns1123_subdomain_errors,
    dns1123_subdomain_with_underscore_errors,
    ip_errors,
)
from pykubelet.api.validation.field_errors import (
    FieldError,
    Named,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from pykubelet.api.wire import Document

_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
# What the resolvers of C libraries take; longer lists are cut silently there.
_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_BYTES = 2048
_MAX_HOSTNAME_BYTES = 64


def dns_policy_errors(policy: str, path: str) -> list[FieldError]:
    """Whether the policy is one of the known."""
    if not policy:
        return [required(path)]
    return [] if policy in _DNS_POLICIES else [not_supported(path, Named(policy), _DNS_POLICIES)]


def dns_config_errors(spec: Document, path: str, *, relaxed_searches: bool) -> list[FieldError]:
    """What is wrong with the pod's own DNS settings, which the policy None needs."""
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", detail)]
    if config is None:
        return []
    errors = _nameservers_errors(config.get("nameservers", []), f"{path}.nameservers")
    errors += _searches_errors(config.get("searches", []), f"{path}.searches", relaxed=relaxed_searches)
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            errors.append(required(f"{path}.options[{index}]", "must not be empty"))
    return errors


def host_network_errors(spec: Document, path: str, *, resource_is_pod: bool) -> list[FieldError]:
    """Whether ports differ inside and outside although there is no inside."""
    if not spec.get("hostNetwork"):
        return []
    errors: list[FieldError] = []
    for index, container in enumerate(spec.get("containers", ())):
        for number, port in enumerate(container.get("ports", ())):
            host_port = port.get("hostPort", 0)
            if (resource_is_pod or host_port) and host_port != port.get("containerPort", 0):
                at = f"{path}.containers[{index}].ports[{number}].hostPort"
                errors.append(invalid(at, host_port, "must match `containerPort` when `hostNetwork` is true"))
    return errors


def hostname_override_errors(spec: Document, path: str) -> list[FieldError]:
    """What is wrong with a host name that replaces every other."""
    name = spec.get("hostnameOverride")
    if name is None:
        return []
    errors: list[FieldError] = []
    if spec.get("setHostnameAsFQDN"):
        errors.append(forbidden(path, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        errors.append(forbidden(path, "may not be specified when hostNetwork is true"))
    if byte_length(name) > _MAX_HOSTNAME_BYTES:
        errors.append(too_long(path, _MAX_HOSTNAME_BYTES))
    return errors + each_invalid(path, name, dns1123_subdomain_errors(name))


def host_aliases_errors(aliases: Sequence[Document], path: str) -> list[FieldError]:
    """What is wrong with extra lines of the hosts file."""
    errors: list[FieldError] = []
    for index, alias in enumerate(aliases):
        address = alias.get("ip", "")
        errors += each_invalid(f"{path}[{index}].ip", address, ip_errors(address))
        for number, name in enumerate(alias.get("hostnames", ())):
            errors += each_invalid(f"{path}[{index}].hostnames[{number}]", name, dns1123_subdomain_errors(name))
    return errors


def _nameservers_errors(servers: Sequence[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(servers) > _MAX_NAMESERVERS:
        errors.append(invalid(path, servers, f"must not have more than {_MAX_NAMESERVERS} nameservers"))
    for index, server in enumerate(servers):
        errors += each_invalid(f"{path}[{index}]", server, ip_errors(server))
    return errors


def _searches_errors(searches: Sequence[str], path: str, *, relaxed: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(searches) > _MAX_SEARCHES:
        errors.append(invalid(path, searches, f"must not have more than {_MAX_SEARCHES} search paths"))
    if byte_length(" ".join(searches)) > _MAX_SEARCH_BYTES:
        detail = f"must not have more than {_MAX_SEARCH_BYTES} characters (including spaces) in the search list"
        errors.append(invalid(path, searches, detail))
    rule = dns1123_subdomain_with_underscore_errors if relaxed else dns1123_subdomain_errors
    for index, search in enumerate(searches):
        if relaxed and search == ".":
            continue
        domain = search.removesuffix(".")
        errors += each_invalid(f"{path}[{index}]", domain, rule(domain))
    return errors
