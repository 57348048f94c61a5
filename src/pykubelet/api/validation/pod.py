"""Complaints about a pod that is to be created.

In: a Pod document after `default_pod`, whose fields have the right types. Out: every complaint, in the order and with
the paths and texts of the API server; none means that the pod is valid. Privileged containers are allowed.

Upstream: ValidatePodCreate and ValidatePodSpec in pkg/apis/core/validation/validation.go
"""

from collections.abc import Sequence
from typing import NamedTuple

from pykubelet.api.families import Families
from pykubelet.api.names import dns1123_label_errors, dns1123_subdomain_errors, in_range_errors
from pykubelet.api.validation.affinity import affinity_errors
from pykubelet.api.validation.container_walk import containers_with_paths
from pykubelet.api.validation.containers import (
    PodParts,
    ephemeral_containers_errors,
    image_space_errors,
    init_containers_errors,
    regular_containers_errors,
)
from pykubelet.api.validation.field_errors import (
    FieldError,
    Named,
    duplicate,
    each_invalid,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from pykubelet.api.validation.go_values import resource_claim_value
from pykubelet.api.validation.metadata import labels_errors, metadata_errors
from pykubelet.api.validation.network import (
    dns_config_errors,
    dns_policy_errors,
    host_aliases_errors,
    host_network_errors,
    hostname_override_errors,
)
from pykubelet.api.validation.options import API_SERVER_OPTIONS, PodValidationOptions
from pykubelet.api.validation.pod_annotations import MIRROR_ANNOTATION, pod_annotations_errors
from pykubelet.api.validation.profiles import profile_match_errors
from pykubelet.api.validation.resources import claim_names_of, container_resources_errors, pod_resources_errors
from pykubelet.api.validation.scheduling import (
    readiness_gates_errors,
    scheduling_gates_errors,
    tolerations_errors,
    topology_spread_errors,
)
from pykubelet.api.validation.security import pod_security_errors, user_namespace_errors
from pykubelet.api.validation.volumes import volumes_errors
from pykubelet.api.validation.windows import host_process_errors, operating_system_errors
from pykubelet.api.wire import Document

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_MAX_DEADLINE_SECONDS = 2**31 - 1


def validate_pod_create(document: Document, options: PodValidationOptions = API_SERVER_OPTIONS) -> list[FieldError]:
    """What is wrong with a pod that is to be created."""
    spec = document.get("spec", {})
    errors = pod_errors(document, options)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors + profile_match_errors(document.get("metadata", {}).get("annotations", {}), spec, "spec")


def pod_errors(document: Document, options: PodValidationOptions = API_SERVER_OPTIONS) -> list[FieldError]:
    """What is wrong with the metadata and the spec of a pod, new or not."""
    metadata, spec = document.get("metadata", {}), document.get("spec", {})
    errors = metadata_errors(metadata)
    errors += pod_annotations_errors(metadata.get("annotations", {}), spec, "metadata.annotations")
    errors += validate_pod_spec(spec, metadata, "spec", options)
    if not spec.get("serviceAccountName"):
        errors += _token_without_account_errors(spec.get("volumes", ()))
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            errors += image_space_errors(container, f"spec.{kind}[{index}]")
    return errors


class _Setting(NamedTuple):
    """What the rules of a spec depend on besides the spec itself."""

    path: str
    options: PodValidationOptions
    pod_name: str
    """Empty where no volume is named after the pod: then all pods of this spec are alike."""
    is_static: bool


_families = Families[tuple[FieldError, ...]]()


def validate_pod_spec(spec: Document, metadata: Document, path: str, options: PodValidationOptions) -> list[FieldError]:
    """What is wrong with the spec of a pod, or of a template if there is no metadata."""
    needs_name = any("ephemeral" in volume for volume in spec.get("volumes", ()))
    is_static = MIRROR_ANNOTATION in metadata.get("annotations", {})
    setting = _Setting(path, options, metadata.get("name", "") if needs_name else "", is_static)
    return list(_families.of(spec, lambda: tuple(_spec_errors(spec, setting)), also=setting))


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
        errors += container_resources_errors({"limits": spec["overhead"]}, set(), f"{path}.overhead")
    errors += operating_system_errors(spec, path)
    return errors + _file_key_volumes_errors(spec, path)


def _placement_errors(spec: Document, path: str, options: PodValidationOptions) -> list[FieldError]:
    """What is wrong with how, where and under which rights the pod runs."""
    context_path, spread_path = f"{path}.securityContext", f"{path}.topologySpreadConstraints"
    spread, selinux = spec.get("topologySpreadConstraints", ()), options.only_recursive_selinux_change
    return [
        *host_network_errors(spec, path, resource_is_pod=options.resource_is_pod),
        *_restart_policy_errors(spec.get("restartPolicy", ""), f"{path}.restartPolicy"),
        *dns_policy_errors(spec.get("dnsPolicy", ""), f"{path}.dnsPolicy"),
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


def _name_fields_errors(spec: Document, path: str) -> list[FieldError]:
    """What is wrong with the fields that are mostly names, and the few among them that are not."""
    errors: list[FieldError] = []
    for field in ("serviceAccountName", "nodeName"):
        if name := spec.get(field, ""):
            errors += each_invalid(f"{path}.{field}", name, dns1123_subdomain_errors(name))
    if (seconds := spec.get("activeDeadlineSeconds")) is not None:
        details = in_range_errors(seconds, 1, _MAX_DEADLINE_SECONDS)
        errors += each_invalid(f"{path}.activeDeadlineSeconds", seconds, details)
    for field in ("hostname", "subdomain"):
        if name := spec.get(field, ""):
            errors += each_invalid(f"{path}.{field}", name, dns1123_label_errors(name))
    errors += tolerations_errors(spec.get("tolerations", ()), f"{path}.tolerations")
    errors += host_aliases_errors(spec.get("hostAliases", ()), f"{path}.hostAliases")
    if name := spec.get("priorityClassName", ""):
        errors += each_invalid(f"{path}.priorityClassName", name, dns1123_subdomain_errors(name))
    if (name := spec.get("runtimeClassName")) is not None:
        errors += each_invalid(f"{path}.runtimeClassName", name, dns1123_subdomain_errors(name))
    if (policy := spec.get("preemptionPolicy")) is not None and policy not in _PREEMPTION_POLICIES:
        at = f"{path}.preemptionPolicy"
        errors.append(not_supported(at, Named(policy), _PREEMPTION_POLICIES) if policy else required(at))
    return errors


def _restart_policy_errors(policy: str, path: str) -> list[FieldError]:
    if not policy:
        return [required(path)]
    return [] if policy in _RESTART_POLICIES else [not_supported(path, Named(policy), _RESTART_POLICIES)]


def _claims_errors(claims: Sequence[Document], path: str, *, is_static: bool) -> list[FieldError]:
    if is_static:
        # Upstream complains about a path without a name, which is written like an empty index.
        return [forbidden("[]", "static pods do not support resource claims") for _ in claims]
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, claim in enumerate(claims):
        errors += _claim_errors(claim, names, f"{path}[{index}]")
    return errors


def _claim_errors(claim: Document, names: set[str], path: str) -> list[FieldError]:
    """Complaints about one claim; its name goes into `names`."""
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
    shown = resource_claim_value(claim)
    if len(given) > 1:
        detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        errors.append(invalid(path, shown, detail))
    if not given:
        detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        errors.append(invalid(path, shown, detail))
    for field in given:
        errors += each_invalid(f"{path}.{field}", claim[field], dns1123_subdomain_errors(claim[field]))
    return errors


def _token_without_account_errors(volumes: Sequence[Document]) -> list[FieldError]:
    detail = "must not be specified when serviceAccountName is not set"
    return [
        forbidden(f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken", detail)
        for index, volume in enumerate(volumes)
        for number, source in enumerate(volume.get("projected", {}).get("sources", ()))
        if "serviceAccountToken" in source
    ]


def _file_key_volumes_errors(spec: Document, path: str) -> list[FieldError]:
    """Whether variables that come from files name volumes that have such files."""
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
