"""Nodes, namespaces, events, configuration, storage and access as rows.

In: a document. Out: its cells, in the order of its columns.

Upstream: pkg/printers/internalversion/printers.go
"""

from collections.abc import Callable, Sequence
from typing import Any

from pykubelet.api.serializer import Document
from pykubelet.api.times import UNKNOWN, Age
from pykubelet.kinds.columns import NONE, UNSET, at, created, joined, name_of, quantity_text

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def node_cells(document: Document, age: Age) -> list[Any]:
    """Name, status, roles, age, version, internal IP, external IP, OS image, kernel version, container runtime."""
    info = at(document, "status", "nodeInfo")
    addresses = at(document, "status").get("addresses") or ()
    return [
        name_of(document),
        _node_status(document),
        _roles(at(document, "metadata", "labels")) or NONE,
        created(document, age),
        info.get("kubeletVersion", ""),
        *(
            next((each.get("address", "") for each in addresses if each.get("type") == type), NONE)
            for type in ("InternalIP", "ExternalIP")
        ),
        *(info.get(key) or UNKNOWN for key in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]


def namespace_cells(document: Document, age: Age) -> list[Any]:
    """Name, status, age."""
    return [name_of(document), at(document, "status").get("phase", ""), created(document, age)]


def event_cells(document: Document, age: Age) -> list[Any]:
    """Last seen, type, reason, object, subobject, source, message, first seen, count, name; of either group's form."""

    def either(old: str, new: str) -> Any:
        return document.get(old) or document.get(new)

    first = age(either("firstTimestamp", "deprecatedFirstTimestamp") or document.get("eventTime"))
    last_time = either("lastTimestamp", "deprecatedLastTimestamp")
    last = age(last_time) if last_time else first
    count = either("count", "deprecatedCount") or 1
    if series := document.get("series"):
        last, count = age(series.get("lastObservedTime")), series.get("count", 0)
    about = either("involvedObject", "regarding") or {}
    kind = about.get("kind", "").lower()
    source = either("source", "deprecatedSource") or {}
    host = source.get("host") or document.get("reportingInstance") or ""
    component = source.get("component") or either("reportingComponent", "reportingController") or ""
    return [
        last,
        document.get("type", ""),
        document.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (either("message", "note") or "").strip(),
        first,
        count,
        name_of(document),
    ]


def config_map_cells(document: Document, age: Age) -> list[Any]:
    """Name, data, age."""
    return [name_of(document), len(at(document, "data")) + len(at(document, "binaryData")), created(document, age)]


def secret_cells(document: Document, age: Age) -> list[Any]:
    """Name, type, data, age."""
    return [name_of(document), document.get("type", ""), len(at(document, "data")), created(document, age)]


def service_account_cells(document: Document, age: Age) -> list[Any]:
    """Name, secrets, age."""
    return [name_of(document), len(document.get("secrets") or ()), created(document, age)]


def volume_cells(document: Document, age: Age) -> list[Any]:
    """Name, capacity, access modes, reclaim policy, status, claim, classes, reason, age, volume mode."""
    spec, status = at(document, "spec"), at(document, "status")
    claim = spec.get("claimRef")
    return [
        name_of(document),
        quantity_text(at(spec, "capacity").get("storage")),
        _access_modes(spec.get("accessModes") or ()),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(document),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim is not None else "",
        _storage_class(document),
        spec.get("volumeAttributesClassName", UNSET),
        status.get("reason", ""),
        created(document, age),
        spec.get("volumeMode", UNSET),
    ]


def claim_cells(document: Document, age: Age) -> list[Any]:
    """Name, status, volume, capacity, access modes, classes, age, volume mode."""
    spec, status = at(document, "spec"), at(document, "status")
    bound = spec.get("volumeName", "")
    return [
        name_of(document),
        _phase(document),
        bound,
        quantity_text(at(status, "capacity").get("storage")) if bound else "",
        _access_modes(status.get("accessModes") or ()) if bound else "",
        _storage_class(document),
        spec.get("volumeAttributesClassName", UNSET),
        created(document, age),
        spec.get("volumeMode", UNSET),
    ]


def storage_class_cells(document: Document, age: Age) -> list[Any]:
    """Name, provisioner, reclaim policy, volume binding mode, allow volume expansion, age."""
    annotations = at(document, "metadata", "annotations")
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return [
        f"{name_of(document)} (default)" if is_default else name_of(document),
        document.get("provisioner", ""),
        document.get("reclaimPolicy", "Delete"),
        document.get("volumeBindingMode", "Immediate"),
        document.get("allowVolumeExpansion", False),
        created(document, age),
    ]


def role_binding_cells(document: Document, age: Age) -> list[Any]:
    """Name, role, age, users, groups, service accounts; for one namespace or the cluster."""
    role = at(document, "roleRef")
    subjects = document.get("subjects") or ()

    def of(kind: str, shown: Callable[[Document], str] = lambda subject: str(subject.get("name", ""))) -> str:
        return joined(shown(subject) for subject in subjects if subject.get("kind") == kind)

    return [
        name_of(document),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        created(document, age),
        of("User"),
        of("Group"),
        of("ServiceAccount", lambda subject: f"{subject.get('namespace', '')}/{subject.get('name', '')}"),
    ]


def lease_cells(document: Document, age: Age) -> list[Any]:
    """Name, holder, age."""
    return [name_of(document), at(document, "spec").get("holderIdentity", ""), created(document, age)]


def priority_class_cells(document: Document, age: Age) -> list[Any]:
    """Name, value, global default, age, preemption policy."""
    return [
        name_of(document),
        document.get("value", 0),
        document.get("globalDefault", False),
        created(document, age),
        document.get("preemptionPolicy", ""),
    ]


def runtime_class_cells(document: Document, age: Age) -> list[Any]:
    """Name, handler, age."""
    return [name_of(document), document.get("handler", ""), created(document, age)]


def quota_cells(document: Document, age: Age) -> list[Any]:
    """Name, request, limit, age: used of hard for each resource."""
    hard, used = at(document, "status", "hard"), at(document, "status", "used")
    texts: dict[bool, list[str]] = {False: [], True: []}
    for resource in sorted(hard):
        is_limit = resource.startswith("limits.")
        texts[is_limit].append(f"{resource}: {quantity_text(used.get(resource))}/{quantity_text(hard[resource])}")
    return [name_of(document), joined(texts[False]), joined(texts[True]), created(document, age)]


def component_status_cells(document: Document, _age: Age) -> list[Any]:
    """Name, status, message, error."""
    found = next((each for each in document.get("conditions") or () if each.get("type") == "Healthy"), None)
    if found is None:
        return [name_of(document), "Unknown", "", ""]
    status = "Healthy" if found.get("status") == "True" else "Unhealthy"
    return [name_of(document), status, found.get("message", ""), found.get("error", "")]


def _node_status(document: Document) -> str:
    conditions = at(document, "status").get("conditions") or ()
    ready = {each.get("type"): each.get("status") for each in conditions}.get("Ready")
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if at(document, "spec").get("unschedulable") else status


def _roles(labels: dict[str, str]) -> str:
    named = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return ",".join(sorted((named | {labels.get(_ROLE_LABEL, "")}) - {""}))


def _phase(document: Document) -> str:
    if at(document, "metadata").get("deletionTimestamp"):
        return "Terminating"
    return str(at(document, "status").get("phase", ""))


def _storage_class(document: Document) -> str:
    annotations = at(document, "metadata", "annotations")
    found = annotations.get(_CLASS_ANNOTATION)
    return str(at(document, "spec").get("storageClassName", "") if found is None else found)


def _access_modes(modes: Sequence[str]) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in modes)
