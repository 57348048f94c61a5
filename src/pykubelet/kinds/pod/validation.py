"""Validation of a pod: its spec, its network settings and the annotations that have a meaning.

The pod must have its defaults. Errors have the order, paths and texts of the API server. Privileged containers are
allowed.

Upstream: pkg/apis/core/validation/validation.go
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pykubelet.api.field_errors import (
    FieldError,
    duplicate,
    each_invalid,
    forbidden,
    invalid,
    items_errors,
    not_found,
    optional_errors,
    required,
    too_long,
)
from pykubelet.api.names import (
    byte_length,
    dns1123_label_errors,
    dns1123_subdomain_errors,
    dns1123_subdomain_with_underscore_errors,
    in_range_errors,
    ip_errors,
)
from pykubelet.api.serializer import Document
from pykubelet.kinds.go_values import internal_form
from pykubelet.kinds.kind import SpecCache
from pykubelet.kinds.metadata import labels_errors, metadata_errors
from pykubelet.kinds.pod.containers import (
    PodParts,
    ephemeral_containers_errors,
    image_space_errors,
    init_containers_errors,
    regular_containers_errors,
)
from pykubelet.kinds.pod.features import API_SERVER_OPTIONS, PodValidationOptions
from pykubelet.kinds.pod.scheduling import (
    affinity_errors,
    readiness_gates_errors,
    scheduling_gates_errors,
    tolerations_errors,
    topology_spread_errors,
)
from pykubelet.kinds.pod.security import (
    APPARMOR_CONTAINER_PREFIX,
    host_process_errors,
    operating_system_errors,
    pod_security_errors,
    profile_annotations_errors,
    profile_match_errors,
    user_namespace_errors,
)
from pykubelet.kinds.pod.visitors import containers_with_paths
from pykubelet.kinds.pod.volumes import volumes_errors
from pykubelet.kinds.resources import claim_names_of, container_resources_errors, pod_resources_errors
from pykubelet.kinds.rules import OneOf

_DNS_POLICIES = OneOf(("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"), required=True)
# Limits of libc resolvers, which cut longer lists silently.
_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_BYTES = 2048
_MAX_HOSTNAME_BYTES = 64
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
TOLERATIONS_ANNOTATION = "scheduler.alpha.kubernetes.io/tolerations"
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
_DELETION_COST = re.compile("0|-[0-9]+|[1-9][0-9]*")
_TOLERATION_FIELDS = ("key", "operator", "value", "effect", "tolerationSeconds")
_RESTART_POLICIES = OneOf(("Always", "OnFailure", "Never"), required=True)
_PREEMPTION_POLICIES = OneOf(("PreemptLowerPriority", "Never"), required=True)
_MAX_DEADLINE_SECONDS = 2**31 - 1
_cache = SpecCache[tuple[FieldError, ...]]()


class _Setting(NamedTuple):
    """What the rules of a spec depend on besides the spec itself."""

    path: str
    options: PodValidationOptions
    pod_name: str
    """Empty if no volume is named after the pod: the result is then the same for all pods of this spec."""
    is_static: bool


def validate_pod_create(document: Document, options: PodValidationOptions = API_SERVER_OPTIONS) -> list[FieldError]:
    """Validates a new pod."""
    spec = document.get("spec", {})
    errors = pod_errors(document, options)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors + profile_match_errors(document.get("metadata", {}).get("annotations", {}), spec, "spec")


def pod_errors(document: Document, options: PodValidationOptions = API_SERVER_OPTIONS) -> list[FieldError]:
    """Validates the metadata and the spec of a pod, new or updated."""
    metadata, spec = document.get("metadata", {}), document.get("spec", {})
    errors = metadata_errors(metadata)
    errors += pod_annotations_errors(metadata.get("annotations", {}), spec, "metadata.annotations")
    errors += validate_pod_spec(spec, metadata, "spec", options)
    if not spec.get("serviceAccountName"):
        errors += _token_without_account_errors(spec.get("volumes", ()))
    for kind in ("containers", "initContainers"):
        errors += items_errors(spec.get(kind, ()), image_space_errors, f"spec.{kind}")
    return errors


def pod_annotations_errors(annotations: Mapping[str, str], spec: Document, path: str) -> list[FieldError]:
    """Validates the annotations that Kubernetes itself reads."""
    errors: list[FieldError] = []
    if MIRROR_ANNOTATION in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{MIRROR_ANNOTATION}]", annotations[MIRROR_ANNOTATION], detail))
    if text := annotations.get(TOLERATIONS_ANNOTATION, ""):
        errors += _tolerations_errors(text, path)
    cost = annotations.get(DELETION_COST_ANNOTATION, "0")
    if not _DELETION_COST.fullmatch(cost) or not -(2**31) <= int(cost[:12]) < 2**31:
        errors.append(invalid(f"{path}[{DELETION_COST_ANNOTATION}]", cost, "must be a 32bit integer"))
    return errors + profile_annotations_errors(annotations, spec, path)


def _tolerations_errors(text: str, path: str) -> list[FieldError]:
    try:
        tolerations = json.loads(text)
    except (ValueError, RecursionError) as error:
        return [invalid(path, TOLERATIONS_ANNOTATION, str(error))]
    if not isinstance(tolerations, list) or not all(isinstance(each, dict) for each in tolerations):
        return [invalid(path, TOLERATIONS_ANNOTATION, "the tolerations are not a list of objects")]
    return tolerations_errors([_toleration(each) for each in tolerations], f"{path}.{TOLERATIONS_ANNOTATION}")


def _toleration(document: dict[str, Any]) -> Document:
    # The API server decodes into a type without JSON tags here, so field names ignore case.
    wire_names = {name.lower(): name for name in _TOLERATION_FIELDS}
    return {wire_names[name.lower()]: value for name, value in document.items() if name.lower() in wire_names}


def validate_pod_spec(spec: Document, metadata: Document, path: str, options: PodValidationOptions) -> list[FieldError]:
    """Validates the spec of a pod, or of a template if there is no metadata."""
    needs_name = any("ephemeral" in volume for volume in spec.get("volumes", ()))
    is_static = MIRROR_ANNOTATION in metadata.get("annotations", {})
    setting = _Setting(path, options, metadata.get("name", "") if needs_name else "", is_static)
    return list(_cache.of(spec, lambda: tuple(_spec_errors(spec, setting)), also=setting))


def _spec_errors(spec: Document, setting: _Setting) -> list[FieldError]:
    path, options, pod_name, is_static = setting
    volumes, volume_errors = volumes_errors(spec.get("volumes", ()), pod_name, f"{path}.volumes", options)
    claims = spec.get("resourceClaims", ())
    parts = PodParts(
        volumes=volumes,
        claim_names=claim_names_of(claims),
        grace_seconds=spec.get("terminationGracePeriodSeconds"),
        os=spec.get("os"),
        restart_policy=spec.get("restartPolicy", ""),
        host_users=spec.get("hostUsers", True),
        options=options,
    )
    regular, init = spec.get("containers", ()), spec.get("initContainers", ())
    ephemeral = spec.get("ephemeralContainers", ())
    errors = [] if parts.grace_seconds is not None else [required(f"{path}.terminationGracePeriodSeconds")]
    errors += volume_errors
    errors += _claims_errors(claims, f"{path}.resourceClaims", is_static=is_static)
    errors += regular_containers_errors(regular, parts, f"{path}.containers")
    errors += init_containers_errors(init, regular, parts, f"{path}.initContainers")
    errors += ephemeral_containers_errors(ephemeral, [*regular, *init], parts, f"{path}.ephemeralContainers")
    if options.pod_level_resources:
        errors += pod_resources_errors(spec, parts.claim_names, f"{path}.resources")
    errors += _placement_errors(spec, path, options)
    errors += _name_fields_errors(spec, path)
    if "overhead" in spec:
        errors += container_resources_errors({"limits": spec["overhead"]}, frozenset(), f"{path}.overhead")
    errors += operating_system_errors(spec, path)
    return errors + _file_key_volumes_errors(spec, path)


def _claims_errors(claims: Sequence[Document], path: str, *, is_static: bool) -> list[FieldError]:
    if is_static:
        # Upstream prints the empty path as an empty index.
        return [forbidden("[]", "static pods do not support resource claims") for _ in claims]
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, claim in enumerate(claims):
        errors += _claim_errors(claim, names, f"{path}[{index}]")
    return errors


def _claim_errors(claim: Document, names: set[str], path: str) -> list[FieldError]:
    """Validates one resource claim, and adds its name to `names`."""
    name = claim.get("name", "")
    errors: list[FieldError] = []
    if not name:
        errors.append(required(f"{path}.name"))
    elif name in names:
        errors.append(duplicate(f"{path}.name", name))
    else:
        errors += each_invalid(f"{path}.name", name, dns1123_label_errors(name))
        names.add(name)
    given = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if field in claim]
    if len(given) != 1:
        detail = (
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            if given
            else "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        )
        errors.append(invalid(path, internal_form(claim, "core.PodResourceClaim"), detail))
    for field in given:
        errors += each_invalid(f"{path}.{field}", claim[field], dns1123_subdomain_errors(claim[field]))
    return errors


def _placement_errors(spec: Document, path: str, options: PodValidationOptions) -> list[FieldError]:
    """Validates scheduling, security and networking fields."""
    context_path, spread_path = f"{path}.securityContext", f"{path}.topologySpreadConstraints"
    spread, selinux = spec.get("topologySpreadConstraints", ()), options.only_recursive_selinux_change
    return [
        *host_network_errors(spec, path, resource_is_pod=options.resource_is_pod),
        *_RESTART_POLICIES.errors(spec.get("restartPolicy", ""), f"{path}.restartPolicy"),
        *_DNS_POLICIES.errors(spec.get("dnsPolicy", ""), f"{path}.dnsPolicy"),
        *labels_errors(spec.get("nodeSelector", {}), f"{path}.nodeSelector"),
        *pod_security_errors(spec, context_path, only_recursive_selinux_change=selinux),
        *affinity_errors(spec.get("affinity", {}), f"{path}.affinity"),
        *dns_config_errors(spec, f"{path}.dnsConfig", relaxed_searches=options.relaxed_dns_searches),
        *readiness_gates_errors(spec.get("readinessGates", ()), f"{path}.readinessGates"),
        *scheduling_gates_errors(spec.get("schedulingGates", ()), f"{path}.schedulingGates"),
        *topology_spread_errors(spread, spread_path, merged_keys=options.merged_spread_keys),
        *host_process_errors(spec, path),
        *user_namespace_errors(spec, path),
        *hostname_override_errors(spec, f"{path}.hostnameOverride"),
    ]


def host_network_errors(spec: Document, path: str, *, resource_is_pod: bool) -> list[FieldError]:
    """Validates that host ports equal container ports in the host network."""
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


def dns_config_errors(spec: Document, path: str, *, relaxed_searches: bool) -> list[FieldError]:
    """Validates the DNS config, which the policy None requires."""
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


def hostname_override_errors(spec: Document, path: str) -> list[FieldError]:
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


def _name_fields_errors(spec: Document, path: str) -> list[FieldError]:
    """Validates the fields that are names, and the few others among them."""
    errors: list[FieldError] = []
    for field in ("serviceAccountName", "nodeName"):
        errors += optional_errors(f"{path}.{field}", spec.get(field), dns1123_subdomain_errors)
    if (seconds := spec.get("activeDeadlineSeconds")) is not None:
        details = in_range_errors(seconds, 1, _MAX_DEADLINE_SECONDS)
        errors += each_invalid(f"{path}.activeDeadlineSeconds", seconds, details)
    for field in ("hostname", "subdomain"):
        errors += optional_errors(f"{path}.{field}", spec.get(field), dns1123_label_errors)
    errors += tolerations_errors(spec.get("tolerations", ()), f"{path}.tolerations")
    errors += host_aliases_errors(spec.get("hostAliases", ()), f"{path}.hostAliases")
    errors += optional_errors(f"{path}.priorityClassName", spec.get("priorityClassName"), dns1123_subdomain_errors)
    if (name := spec.get("runtimeClassName")) is not None:
        errors += each_invalid(f"{path}.runtimeClassName", name, dns1123_subdomain_errors(name))
    return errors + _PREEMPTION_POLICIES.errors(spec.get("preemptionPolicy"), f"{path}.preemptionPolicy")


def host_aliases_errors(aliases: Sequence[Document], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, alias in enumerate(aliases):
        address = alias.get("ip", "")
        errors += each_invalid(f"{path}[{index}].ip", address, ip_errors(address))
        for number, name in enumerate(alias.get("hostnames", ())):
            errors += each_invalid(f"{path}[{index}].hostnames[{number}]", name, dns1123_subdomain_errors(name))
    return errors


def _file_key_volumes_errors(spec: Document, path: str) -> list[FieldError]:
    """Validates that `fileKeyRef` variables refer to emptyDir volumes."""
    volumes = {volume.get("name", ""): volume for volume in spec.get("volumes", ())}
    errors: list[FieldError] = []
    for container, at in containers_with_paths(spec, path):
        for index, variable in enumerate(container.get("env", ())):
            if "valueFrom" not in variable or "fileKeyRef" not in variable["valueFrom"]:
                continue
            reference = variable["valueFrom"]["fileKeyRef"]
            name, where = reference.get("volumeName", ""), f"{at}.env[{index}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                errors.append(not_found(where, name))
            elif "emptyDir" not in volumes[name]:
                errors.append(invalid(where, name, "referenced volume must be of type emptyDir"))
    return errors


def _token_without_account_errors(volumes: Sequence[Document]) -> list[FieldError]:
    detail = "must not be specified when serviceAccountName is not set"
    return [
        forbidden(f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken", detail)
        for index, volume in enumerate(volumes)
        for number, source in enumerate(volume.get("projected", {}).get("sources", ()))
        if "serviceAccountToken" in source
    ]


def pod_annotation_changes_errors(new: Document, old: Document, path: str) -> list[FieldError]:
    """Validates a change of annotations, some of which are immutable."""
    after, before = (pod["metadata"].get("annotations", {}) for pod in (new, old))
    errors: list[FieldError] = []
    for key, value in before.items():
        if after.get(key) != value and (what := _fixed_annotation(key)):
            errors.append(forbidden(f"{path}[{key}]", f"may not remove or update {what}"))
    added = ((key, _fixed_annotation(key)) for key in after if key not in before)
    errors += [forbidden(f"{path}[{key}]", f"may not add {what}") for key, what in added if what]
    return errors + pod_annotations_errors(after, new["spec"], path)


def _fixed_annotation(key: str) -> str:
    if key.startswith(APPARMOR_CONTAINER_PREFIX):
        return "AppArmor annotations"
    return "mirror pod annotation" if key == MIRROR_ANNOTATION else ""
