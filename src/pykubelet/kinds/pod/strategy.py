"""Pod: its update rules, and those of its subresources `ephemeralcontainers`, `resize` and `status`.

Upstream: pkg/registry/core/pod/strategy.go
"""

from collections.abc import Mapping
from typing import Any

from pykubelet.api.pod_resources import qos_class
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.kinds.kind import Kind, Strategy, Warnings, metadata_fields, without_fields
from pykubelet.kinds.pod.columns import pod_cells, pod_conditions
from pykubelet.kinds.pod.defaults import default_patched_pod, default_pod
from pykubelet.kinds.pod.features import CONTAINER_LISTS, without_disabled_fields
from pykubelet.kinds.pod.scheduling import PREFERRED, REQUIRED
from pykubelet.kinds.pod.security import APPARMOR_CONTAINER_PREFIX, apparmor_errors, apparmor_field
from pykubelet.kinds.pod.update import (
    STATUS_LISTS,
    ephemeral_containers_update_errors,
    pod_resize_errors,
    pod_status_update_errors,
    pod_update_errors,
)
from pykubelet.kinds.pod.validation import validate_pod_create
from pykubelet.kinds.pod.warnings import apparmor_warnings, pod_status_warnings, pod_warnings

_KEYS = (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
    "lastProbeTime": None,
}
# The metadata that a subresource may not change.
_KEPT_METADATA = (
    "deletionTimestamp",
    "generation",
    "selfLink",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)


def prepare_create(pod: Document) -> Document:
    """Prepares a new pod: phase Pending, its QoS class, generation 1."""
    metadata = pod["metadata"]
    spec = with_label_keys(without_disabled_fields(pod["spec"]), metadata.get("labels", {}))
    annotations = metadata.get("annotations", {})
    if any(key.startswith(APPARMOR_CONTAINER_PREFIX) for key in annotations):
        spec = _with_apparmor_fields(spec, annotations)
    status: Document = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [{**_GATED, "lastTransitionTime": metadata.get("creationTimestamp")}]
    return {**pod, "metadata": {**metadata, "generation": 1}, "spec": spec, "status": status}


def with_label_keys(spec: Document, labels: Mapping[str, str]) -> Document:
    """The spec of a new pod with matchLabelKeys merged into the selectors of affinity and spread constraints."""
    result = spec
    if "topologySpreadConstraints" in spec:
        constraints = [_merged(constraint, labels) for constraint in spec["topologySpreadConstraints"]]
        result = {**result, "topologySpreadConstraints": constraints}
    affinity = spec.get("affinity", {})
    sides = {kind: _affinity(affinity[kind], labels) for kind in ("podAffinity", "podAntiAffinity") if kind in affinity}
    return {**result, "affinity": {**affinity, **sides}} if sides else result


def _merged(term: Document, labels: Mapping[str, str]) -> Document:
    selector = term.get("labelSelector")
    if selector is None:
        return term
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in _KEYS
        for key in term.get(field, ())
        if key in labels
    ]
    if not added:
        return term
    return {**term, "labelSelector": {**selector, "matchExpressions": [*selector.get("matchExpressions", ()), *added]}}


def _affinity(affinity: Document, labels: Mapping[str, str]) -> Document:
    changed: dict[str, Any] = {}
    if REQUIRED in affinity:
        changed[REQUIRED] = [_merged(term, labels) for term in affinity[REQUIRED]]
    if PREFERRED in affinity:
        changed[PREFERRED] = [
            {**weighted, "podAffinityTerm": _merged(weighted["podAffinityTerm"], labels)}
            for weighted in affinity[PREFERRED]
        ]
    return {**affinity, **changed}


def _with_apparmor_fields(spec: Document, annotations: Mapping[str, str]) -> Document:
    """The spec with the AppArmor profiles of the annotations in its fields."""
    if spec.get("os", {}).get("name") == "windows":
        return spec
    pod_profile = spec.get("securityContext", {}).get("appArmorProfile")
    result = dict(spec)
    for kind in CONTAINER_LISTS:
        if kind in spec:
            result[kind] = [_with_apparmor_field(container, annotations, pod_profile) for container in spec[kind]]
    return result


def _with_apparmor_field(container: Document, annotations: Mapping[str, str], pod_profile: Document | None) -> Document:
    text = annotations.get(f"{APPARMOR_CONTAINER_PREFIX}{container['name']}")
    context = container.get("securityContext", {})
    if text is None or "appArmorProfile" in context:
        return container
    profile = apparmor_field(text)
    if profile is None or profile == pod_profile or apparmor_errors(profile, ""):
        return container
    return {**container, "securityContext": {**context, "appArmorProfile": profile}}


def prepare_update(new: Document, old: Document) -> Document:
    """Prepares an update of the pod: restores the status, increments the generation with the spec."""
    return _next_generation({**new, "spec": without_disabled_fields(new["spec"]), "status": old["status"]}, old)


def _next_generation(new: Document, old: Document) -> Document:
    generation = old["metadata"].get("generation", 0) + (new["spec"] != old["spec"])
    return {**new, "metadata": {**new["metadata"], "generation": generation}}


def prepare_status(new: Document, old: Document) -> Document:
    """Prepares an update of the status: restores everything but labels, annotations and finalizers."""
    before = old["metadata"]
    kept = without_fields(new["metadata"], "deletionTimestamp", "ownerReferences")
    for name in ("ownerReferences", "generation"):
        if name in before:
            kept[name] = before[name]
    status = {"qosClass": old["status"].get("qosClass", ""), **new["status"]}
    if not status["qosClass"]:
        del status["qosClass"]
    status.pop("extendedResourceClaimStatus", None)
    for kind in STATUS_LISTS:
        if any("allocatedResourcesStatus" in each for each in status.get(kind, ())):
            status[kind] = [without_fields(each, "allocatedResourcesStatus") for each in status[kind]]
    return {**new, "metadata": kept, "spec": old["spec"], "status": _with_generations(status, old["status"])}


def _with_generations(status: Document, old: Document) -> Document:
    """The status with the old observed generations where the new status has none."""
    if "observedGeneration" in old:
        status.setdefault("observedGeneration", old["observedGeneration"])
    seen: dict[str, list[int]] = {}
    for condition in old.get("conditions", ()):
        seen.setdefault(condition["type"], []).append(condition.get("observedGeneration", 0))
    if not any(map(any, seen.values())):
        return status
    conditions: list[Document] = []
    for condition in status.get("conditions", ()):
        known = seen.get(condition["type"])
        generation = known.pop(0) if known else 0
        conditions.append({"observedGeneration": generation, **condition} if generation else condition)
    return {**status, "conditions": conditions} if conditions else status


def fields(pod: Document) -> Mapping[str, str]:
    """The values that field selectors match; as upstream, `status.podIPs` is always empty."""
    spec, status = pod["spec"], pod["status"]
    names = ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName")
    return {
        **metadata_fields(pod),
        **{f"spec.{name}": spec.get(name, "") for name in names},
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase", ""),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": "",
        "status.nominatedNodeName": status.get("nominatedNodeName", ""),
    }


def grace_seconds(pod: Document, requested: int | None) -> int:
    """The grace period of a deletion: 0 if the pod is not scheduled or has ended."""
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in {"Failed", "Succeeded"}:
        return 0
    period = pod["spec"].get("terminationGracePeriodSeconds", 0) if requested is None else requested
    return period if period >= 0 else 1


def prepare_ephemeral_containers(new: Document, old: Document) -> Document:
    """Prepares an update that may change only the ephemeral containers."""
    spec = without_fields(old["spec"], "ephemeralContainers")
    if containers := new["spec"].get("ephemeralContainers"):
        spec["ephemeralContainers"] = containers
    return _next_generation(_with_spec(new, old, without_disabled_fields(spec)), old)


def _with_spec(new: Document, old: Document, spec: Document) -> Document:
    before = old["metadata"]
    metadata = without_fields(new["metadata"], *_KEPT_METADATA)
    kept = {name: before[name] for name in _KEPT_METADATA if name in before}
    return {**new, "metadata": {**metadata, **kept}, "spec": spec, "status": old["status"]}


def prepare_resize(new: Document, old: Document) -> Document:
    """Prepares an update that may change only resources and resize policies."""
    spec = dict(old["spec"])
    for kind in ("containers", "initContainers"):
        after, before = new["spec"].get(kind, ()), spec.get(kind, ())
        if len(after) != len(before):
            # Validation reports the error.
            return new
        if after:
            same = [each["name"] for each in after] == [each["name"] for each in before]
            spec[kind] = [_resized(*pair) for pair in zip(after, before, strict=True)] if same else after
    return _next_generation(_with_spec(new, old, spec), old)


def _resized(new: Document, old: Document) -> Document:
    result = {**without_fields(old, "resizePolicy"), "resources": new["resources"]}
    return {**result, "resizePolicy": new["resizePolicy"]} if "resizePolicy" in new else result


KIND = Kind(
    resource=Resource("", "v1", "pods", "Pod"),
    definition="core.v1.Pod",
    short_names=("po",),
    categories=("all",),
    subresources=(
        "attach",
        "binding",
        "ephemeralcontainers",
        "eviction",
        "exec",
        "log",
        "portforward",
        "proxy",
        "resize",
        "status",
    ),
    strategy=Strategy(
        default=default_pod,
        default_patched=default_patched_pod,
        prepare_create=prepare_create,
        validate_create=validate_pod_create,
        prepare_update=prepare_update,
        validate_update=pod_update_errors,
        prepare_status=prepare_status,
        validate_status=pod_status_update_errors,
        warnings=Warnings(received=apparmor_warnings, create=pod_warnings, status=pod_status_warnings),
        fields=fields,
        grace_seconds=grace_seconds,
    ),
    subresource_strategies={
        "ephemeralcontainers": Strategy(
            default=default_pod,
            prepare_update=prepare_ephemeral_containers,
            validate_update=ephemeral_containers_update_errors,
        ),
        "resize": Strategy(default=default_pod, prepare_update=prepare_resize, validate_update=pod_resize_errors),
    },
    cells=pod_cells,
    row_conditions=pod_conditions,
)
BINDING = Kind(resource=Resource("", "v1", "bindings", "Binding"), definition="core.v1.Binding", verbs=("create",))
