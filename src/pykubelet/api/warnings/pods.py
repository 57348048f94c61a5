"""Warnings about pods and templates of pods.

Upstream: pkg/api/pod/warnings.go, WarningsOnCreate, WarningsOnUpdate and applyAppArmorVersionSkew in
pkg/registry/core/pod/strategy.go
"""

from collections.abc import Iterable

from pykubelet.api.names import dns1123_label_errors
from pykubelet.api.validation.container_walk import containers_with_paths
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.api.validation.profiles import (
    APPARMOR_CONTAINER_PREFIX,
    SECCOMP_POD_ANNOTATION,
    apparmor_errors,
    apparmor_field,
)
from pykubelet.api.warnings.addresses import ip_warnings
from pykubelet.api.warnings.node_labels import DEPRECATED_LABELS, selector_term_warnings
from pykubelet.api.warnings.pod_containers import (
    USE_APPARMOR_FIELD,
    USE_SECCOMP_FIELD,
    container_warnings,
    port_warnings,
)
from pykubelet.api.warnings.pod_volumes import pod_volume_warnings
from pykubelet.api.warnings.storage import fraction_warnings
from pykubelet.api.wire import Document

_DEPRECATED_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_MATCHES_NO_POD = "a null labelSelector results in matching no pod"
_IN_POD = "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended"
_IN_PODS = (
    "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended"
)
# A pod that has nothing of this, as most have not, is asked about its containers only.
_SCHEDULING = frozenset({"nodeSelector", "affinity", "topologySpreadConstraints"})
_REFERENCES = frozenset({"hostAliases", "imagePullSecrets", "overhead"})


def pod_warnings(pod: Document) -> list[str]:
    """About a new pod."""
    return name_warnings(pod, _IN_POD) + _warnings(pod, "")


def template_warnings(template: Document, path: str) -> list[str]:
    """About a template that stands at this path."""
    return _warnings(template, f"{path}.")


def name_warnings(document: Document, why: str = _IN_PODS) -> list[str]:
    """About a name that goes into the names of pods, which are names of hosts."""
    errors = dns1123_label_errors(document["metadata"].get("name", ""))
    return [f"metadata.name: {why}: [{' '.join(errors)}]"] if errors else []


def apparmor_warnings(pod: Document) -> list[str]:
    """About a pod as it was received: annotations become fields, unless they are none or the pod says the same."""
    annotations, spec = pod["metadata"].get("annotations", {}), pod["spec"]
    if not any(key.startswith(APPARMOR_CONTAINER_PREFIX) for key in annotations):
        return []
    if spec.get("os", {}).get("name") == "windows":
        return []
    whole = spec.get("securityContext", {}).get("appArmorProfile")
    warnings: list[str] = []
    for container, _ in containers_with_paths(spec, ""):
        key = f"{APPARMOR_CONTAINER_PREFIX}{container.get('name', '')}"
        if key in annotations and "appArmorProfile" not in container.get("securityContext", {}):
            profile = apparmor_field(annotations[key])
            if profile is None or profile != whole or apparmor_errors(profile, ""):
                warnings.append(f"metadata.annotations[{key}]: {USE_APPARMOR_FIELD}")
    return warnings


def pod_status_warnings(pod: Document, _old: Document) -> list[str]:
    """About the addresses in the status of a pod."""
    status = pod.get("status", {})
    return [
        warning
        for kind in ("podIPs", "hostIPs")
        for index, each in enumerate(status.get(kind, ()))
        for warning in ip_warnings(each.get("ip", ""), f"status.{kind}[{index}].ip")
    ]


def _warnings(pod: Document, prefix: str) -> list[str]:
    spec, annotations = pod.get("spec", {}), pod.get("metadata", {}).get("annotations", {})
    path, annotations_at = f"{prefix}spec", f"{prefix}metadata.annotations"
    warnings: list[str] = []
    if not _SCHEDULING.isdisjoint(spec):
        warnings += _node_warnings(spec, path)
    if annotations:
        warnings += [
            f"{annotations_at}[{key}]: {said}" for key, said in _DEPRECATED_ANNOTATIONS.items() if key in annotations
        ]
    if volumes := spec.get("volumes"):
        warnings += pod_volume_warnings(volumes, f"{path}.volumes")
    if not _REFERENCES.isdisjoint(spec):
        warnings += _reference_warnings(spec, path)
    if SECCOMP_POD_ANNOTATION in annotations and "seccompProfile" not in spec.get("securityContext", {}):
        warnings.append(f"{annotations_at}[{SECCOMP_POD_ANNOTATION}]: {USE_SECCOMP_FIELD}")
    warnings += container_warnings(spec, annotations, prefix)
    warnings += port_warnings(spec, path)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        warnings.append(
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        )
    if affinity := spec.get("affinity"):
        warnings += _pod_affinity_warnings(affinity, f"{path}.affinity")
    for index, server in enumerate(spec.get("dnsConfig", {}).get("nameservers", ())):
        warnings += ip_warnings(server, f"{path}.dnsConfig.nameservers[{index}]")
    for index, alias in enumerate(spec.get("hostAliases", ())):
        warnings += ip_warnings(alias.get("ip", ""), f"{path}.hostAliases[{index}].ip")
    return warnings


def _node_warnings(spec: Document, path: str) -> list[str]:
    """About how the pod chooses its node; upstream gives those about the selector in no order."""
    selector = spec.get("nodeSelector", {})
    warnings = [
        f"{path}.nodeSelector[{key}]: {DEPRECATED_LABELS[key]}" for key in sorted(selector) if key in DEPRECATED_LABELS
    ]
    affinity, at = spec.get("affinity", {}).get("nodeAffinity", {}), f"{path}.affinity.nodeAffinity"
    for index, term in enumerate(affinity.get(_REQUIRED, {}).get("nodeSelectorTerms", ())):
        warnings += selector_term_warnings(term, f"{at}.{_REQUIRED}.nodeSelectorTerms[{index}]")
    for index, term in enumerate(affinity.get(_PREFERRED, ())):
        preference = term.get("preference", {})
        warnings += selector_term_warnings(preference, f"{at}.{_PREFERRED}[{index}].preference", checks_values=True)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        at, key = f"{path}.topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        if said := DEPRECATED_LABELS.get(key):
            warnings.append(f"{at}.topologyKey: {key} is {said}")
        if "labelSelector" not in constraint:
            warnings.append(f"{at}.labelSelector: {_MATCHES_NO_POD}")
    return warnings


def _reference_warnings(spec: Document, path: str) -> list[str]:
    secrets = [secret.get("name", "") for secret in spec.get("imagePullSecrets", ())]
    warnings = [
        f"{path}.hostAliases[{index}].ip: duplicate ip {go_quote(ip)}"
        for index, ip in _repeated(alias.get("ip", "") for alias in spec.get("hostAliases", ()))
    ]
    warnings += [
        f"{path}.imagePullSecrets[{index}].name: duplicate name {go_quote(name)}" for index, name in _repeated(secrets)
    ]
    warnings += [
        f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'
        for index, name in enumerate(secrets)
        if not name
    ]
    overhead = spec.get("overhead", {})
    for resource in ("memory", "ephemeral-storage"):
        warnings += fraction_warnings(overhead, resource, f"{path}.overhead")
    return warnings


def _repeated(values: Iterable[str]) -> list[tuple[int, str]]:
    """The values that stood there before, with their places."""
    seen: set[str] = set()
    found: list[tuple[int, str]] = []
    for index, value in enumerate(values):
        if value in seen:
            found.append((index, value))
        seen.add(value)
    return found


def _pod_affinity_warnings(affinity: Document, path: str) -> list[str]:
    warnings: list[str] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        stated = affinity.get(kind, {})
        warnings += [
            f"{path}.{kind}.{_REQUIRED}[{index}].labelSelector: {_MATCHES_NO_POD}"
            for index, term in enumerate(stated.get(_REQUIRED, ()))
            if "labelSelector" not in term
        ]
        warnings += [
            f"{path}.{kind}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector: {_MATCHES_NO_POD}"
            for index, term in enumerate(stated.get(_PREFERRED, ()))
            if "labelSelector" not in term.get("podAffinityTerm", {})
        ]
    return warnings
