"""PersistentVolume: a piece of storage in the cluster.

Upstream: pkg/registry/core/persistentvolume/strategy.go, pkg/apis/core/validation/validation.go,
pkg/api/persistentvolume/util.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError, each_invalid, forbidden, invalid, not_supported, required
from pykubelet.api.names import dns1123_subdomain_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import UNSET, at, created, name_of, quantity_text
from pykubelet.kinds.go_values import go_diff, internal_form
from pykubelet.kinds.kind import Kind, Strategy, Warnings, restore_status, without_fields
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors
from pykubelet.kinds.node import selector_term_warnings
from pykubelet.kinds.persistent_volume_claim import (
    STORAGE_CLASS_ANNOTATION,
    STORAGE_CLASS_WARNING,
    VOLUME_MODES,
    access_modes_errors,
    shown_access_modes,
    shown_phase,
    shown_storage_class,
)
from pykubelet.kinds.pod.defaults import default_volume_source
from pykubelet.kinds.pod.references import backstep_errors
from pykubelet.kinds.pod.scheduling import node_selector_errors
from pykubelet.kinds.pod.volume_sources import REMOVED_STORAGE_WARNINGS, storage_system_rules
from pykubelet.kinds.pod.volumes import csi_driver_errors, host_path_errors, nfs_errors
from pykubelet.kinds.rules import OneOf, immutable_fields_errors

VOLUME_PROTECTION = "kubernetes.io/pv-protection"
"""The finalizer of a volume that may be bound."""
_RECLAIM_POLICIES = OneOf(("Delete", "Recycle", "Retain"))
_DEPRECATED_ANNOTATIONS = {
    STORAGE_CLASS_ANNOTATION: STORAGE_CLASS_WARNING,
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_RECYCLE = (
    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is "
    "to use dynamic provisioning."
)
_REMOVED_SOURCES = ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd")


def _default(document: Document) -> Document:
    volume = normal_form(document, "core.v1.PersistentVolume")
    spec = {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem", **volume["spec"]}
    for name in _SOURCES:
        if name in spec:
            spec[name] = default_volume_source(name, spec[name])
    return {**volume, "spec": spec, "status": {"phase": "Pending", **volume["status"]}}


def _local_errors(source: Document, path: str) -> list[FieldError]:
    target = source["path"]
    return backstep_errors(target, f"{path}.path") if target else [required(f"{path}.path")]


def _csi_errors(source: Document, path: str) -> list[FieldError]:
    errors = csi_driver_errors(source["driver"], f"{path}.driver")
    return errors if source["volumeHandle"] else [*errors, required(f"{path}.volumeHandle")]


# In the order in which upstream validates them.
_SOURCES = {
    "hostPath": host_path_errors,
    **storage_system_rules("gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker"),
    "nfs": nfs_errors,
    **storage_system_rules("rbd", "quobyte", "cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile"),
    **storage_system_rules("vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO"),
    "local": _local_errors,
    **storage_system_rules("storageos"),
    "csi": _csi_errors,
}


def _prepare_create(volume: Document) -> Document:
    status = {"phase": "Pending", "lastPhaseTransitionTime": volume["metadata"].get("creationTimestamp")}
    return {**volume, "status": {name: value for name, value in status.items() if value is not None}}


def _validate(volume: Document) -> list[FieldError]:
    spec = volume["spec"]
    modes = spec.get("accessModes", [])
    errors = metadata_errors(volume["metadata"], namespaced=False)
    errors += [] if modes else [required("spec.accessModes")]
    errors += access_modes_errors(modes, "spec.accessModes")
    errors += _capacity_errors(spec.get("capacity", {}))
    policy = spec["persistentVolumeReclaimPolicy"]
    errors += _RECLAIM_POLICIES.errors(policy, "spec.persistentVolumeReclaimPolicy")
    if "nodeAffinity" in spec:
        errors += _node_affinity_errors(spec["nodeAffinity"])
    errors += _source_errors(spec)
    if spec.get("hostPath", {}).get("path", "").strip("/") == "" and "hostPath" in spec and policy == "Recycle":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy", detail))
    if name := spec.get("storageClassName", ""):
        errors += each_invalid("spec.storageClassName", name, dns1123_subdomain_errors(name))
    errors += VOLUME_MODES.errors(spec["volumeMode"], "spec.volumeMode")
    return errors + _attributes_class_errors(spec)


def _capacity_errors(capacity: Document) -> list[FieldError]:
    at = "spec.capacity"
    errors = [] if capacity else [required(at)]
    if set(capacity) != {"storage"}:
        errors.append(not_supported(at, dict(sorted(capacity.items())) or None, ("storage",)))
    for name, text in capacity.items():
        quantity = parse_quantity(text)
        if quantity.sign() < 0:
            errors.append(invalid(f"{at}[{name}]", quantity.value(), "must be a valid resource quantity"))
        if quantity.sign() <= 0:
            errors.append(invalid(f"{at}[{name}]", str(quantity), "must be greater than zero"))
    return errors


def _node_affinity_errors(affinity: Document) -> list[FieldError]:
    at = "spec.nodeAffinity.required"
    if "required" not in affinity:
        return [required(at, "must specify required node constraints")]
    return node_selector_errors(affinity["required"], at)


def _source_errors(spec: Document) -> list[FieldError]:
    present = [name for name in _SOURCES if name in spec]
    if not present:
        return [required("spec", "must specify a volume type")]
    errors = _SOURCES[present[0]](spec[present[0]], f"spec.{present[0]}")
    if present[0] == "local" and not spec.get("nodeAffinity", {}).get("required"):
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return errors + [forbidden(f"spec.{name}", "may not specify more than 1 volume type") for name in present[1:]]


def _attributes_class_errors(spec: Document) -> list[FieldError]:
    name, at = spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"
    if name is None:
        return []
    errors = each_invalid(at, name, dns1123_subdomain_errors(name)) if name else []
    errors += [] if name else [required(at, "an empty string is disallowed")]
    missing = required("spec.csi", "has to be specified when using volumeAttributesClassName")
    return errors if "csi" in spec else [*errors, missing]


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    spec, before = new["spec"], old["spec"]
    errors = _validate(new) * 2
    source, old_source = ({name: each[name] for name in _SOURCES if name in each} for each in (spec, before))
    if "csi" in source and "csi" in old_source and "controllerExpandSecretRef" not in old_source["csi"]:
        source = {**source, "csi": without_fields(source["csi"], "controllerExpandSecretRef")}
    if source != old_source:
        sides = (internal_form(each, "core.PersistentVolumeSource") for each in (old_source, source))
        detail = f"spec.persistentvolumesource is immutable after creation\n{go_diff(*sides)}"
        errors.append(forbidden("spec.persistentvolumesource", detail))
    errors += immutable_fields_errors(spec, before, ("volumeMode",))
    if "nodeAffinity" in before and spec.get("nodeAffinity") != before["nodeAffinity"]:
        affinity = spec.get("nodeAffinity")
        shown = None if affinity is None else internal_form(affinity, "core.VolumeNodeAffinity")
        errors.append(invalid("nodeAffinity", shown, "field is immutable, except for updating from beta label to GA"))
    if "volumeAttributesClassName" in before and "volumeAttributesClassName" not in spec:
        errors.append(forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden"))
    return errors


def _prepare_status(new: Document, old: Document) -> Document:
    status, before = new["status"], old["status"]
    if status.get("phase") == before.get("phase") and "lastPhaseTransitionTime" in before:
        status = {"lastPhaseTransitionTime": before["lastPhaseTransitionTime"], **status}
    return {**new, "spec": old["spec"], "status": status}


def volume_warnings(document: Document) -> list[str]:
    """Warns about deprecated annotations, policies, labels and volume sources of a PersistentVolume."""
    spec, annotations = document["spec"], document["metadata"].get("annotations", {})
    warnings = [
        f"metadata.annotations[{key}]: {text}" for key, text in _DEPRECATED_ANNOTATIONS.items() if key in annotations
    ]
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        warnings.append(_RECYCLE)
    terms = spec.get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms", ())
    for index, term in enumerate(terms):
        warnings += selector_term_warnings(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]")
    return warnings + [f"spec.{REMOVED_STORAGE_WARNINGS[kind]}" for kind in _REMOVED_SOURCES if kind in spec]


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, capacity, access modes, reclaim policy, status, claim, classes, reason, age, volume mode."""
    spec, status = at(document, "spec"), at(document, "status")
    claim = spec.get("claimRef")
    return [
        name_of(document),
        quantity_text(at(spec, "capacity").get("storage")),
        shown_access_modes(spec.get("accessModes") or ()),
        spec.get("persistentVolumeReclaimPolicy", ""),
        shown_phase(document),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim is not None else "",
        shown_storage_class(document),
        spec.get("volumeAttributesClassName", UNSET),
        status.get("reason", ""),
        created(document, age),
        spec.get("volumeMode", UNSET),
    ]


KIND = Kind(
    resource=Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False),
    definition="core.v1.PersistentVolume",
    short_names=("pv",),
    subresources=("status",),
    strategy=Strategy(
        default=_default,
        prepare_create=_prepare_create,
        validate_create=_validate,
        prepare_update=restore_status,
        validate_update=_validate_update,
        prepare_status=_prepare_status,
        validate_status=lambda new, old: metadata_update_errors(new["metadata"], old["metadata"]),
        warnings=Warnings.always(volume_warnings),
    ),
    cells=_cells,
)
