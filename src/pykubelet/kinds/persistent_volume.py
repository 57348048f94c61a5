"""The rules of persistent volumes and claims of them.

Upstream: pkg/registry/core/{persistentvolume,persistentvolumeclaim}/strategy.go, ValidatePersistentVolume,
ValidatePersistentVolumeClaim and their like in pkg/apis/core/validation/validation.go
"""

from collections.abc import Sequence

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.names import dns1123_subdomain_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.serializer import Document
from pykubelet.kinds.go_values import go_diff, internal_form
from pykubelet.kinds.kind import Strategy, Warnings
from pykubelet.kinds.metadata import immutable_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.persistent_volume_claim import claim_spec_errors, claim_warnings, volume_warnings
from pykubelet.kinds.pod.defaults import default_volume_source
from pykubelet.kinds.pod.references import backstep_errors
from pykubelet.kinds.pod.scheduling import node_selector_errors
from pykubelet.kinds.pod.volume_sources import STORAGE_SYSTEM_RULES
from pykubelet.kinds.pod.volumes import csi_driver_errors, host_path_errors, nfs_errors

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def _local_errors(source: Document, path: str) -> list[FieldError]:
    target = source["path"]
    return backstep_errors(target, f"{path}.path") if target else [required(f"{path}.path")]


def _csi_errors(source: Document, path: str) -> list[FieldError]:
    errors = csi_driver_errors(source["driver"], f"{path}.driver")
    return errors if source["volumeHandle"] else [*errors, required(f"{path}.volumeHandle")]


# In the order in which upstream looks for them.
_SOURCES = {
    "hostPath": host_path_errors,
    **{
        name: STORAGE_SYSTEM_RULES[name]
        for name in ("gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker")
    },
    "nfs": nfs_errors,
    **{
        name: STORAGE_SYSTEM_RULES[name]
        for name in (
            "rbd",
            "quobyte",
            "cephfs",
            "iscsi",
            "cinder",
            "fc",
            "flexVolume",
            "azureFile",
            "vsphereVolume",
            "photonPersistentDisk",
            "portworxVolume",
            "azureDisk",
            "scaleIO",
        )
    },
    "local": _local_errors,
    "storageos": STORAGE_SYSTEM_RULES["storageos"],
    "csi": _csi_errors,
}


def _default_volume(document: Document) -> Document:
    volume = normal_form(document, "core.v1.PersistentVolume")
    spec = {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem", **volume["spec"]}
    for name in _SOURCES:
        if name in spec:
            spec[name] = default_volume_source(name, spec[name])
    return {**volume, "spec": spec, "status": {"phase": "Pending", **volume["status"]}}


def _prepare_volume_create(volume: Document) -> Document:
    status = {"phase": "Pending", "lastPhaseTransitionTime": volume["metadata"].get("creationTimestamp")}
    return {**volume, "status": {name: value for name, value in status.items() if value is not None}}


def _keep_status(new: Document, old: Document) -> Document:
    return {**new, "status": old["status"]}


def _keep_spec(new: Document, old: Document) -> Document:
    return {**new, "spec": old["spec"]}


def _prepare_volume_status(new: Document, old: Document) -> Document:
    status, before = new["status"], old["status"]
    if status.get("phase") == before.get("phase") and "lastPhaseTransitionTime" in before:
        status = {"lastPhaseTransitionTime": before["lastPhaseTransitionTime"], **status}
    return {**new, "spec": old["spec"], "status": status}


def _validate_volume(volume: Document) -> list[FieldError]:
    spec = volume["spec"]
    modes = spec.get("accessModes", [])
    errors = metadata_errors(volume["metadata"], namespaced=False)
    errors += [] if modes else [required("spec.accessModes")]
    errors += _modes_errors(modes)
    errors += _capacity_errors(spec.get("capacity", {}))
    policy = spec["persistentVolumeReclaimPolicy"]
    if policy not in _RECLAIM_POLICIES:
        errors.append(not_supported("spec.persistentVolumeReclaimPolicy", TypedString(policy), _RECLAIM_POLICIES))
    if "nodeAffinity" in spec:
        errors += _node_affinity_errors(spec["nodeAffinity"])
    errors += _source_errors(spec)
    if spec.get("hostPath", {}).get("path", "").strip("/") == "" and "hostPath" in spec and policy == "Recycle":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy", detail))
    if name := spec.get("storageClassName", ""):
        errors += each_invalid("spec.storageClassName", name, dns1123_subdomain_errors(name))
    if spec["volumeMode"] not in _VOLUME_MODES:
        errors.append(not_supported("spec.volumeMode", TypedString(spec["volumeMode"]), _VOLUME_MODES))
    return errors + _attributes_class_errors(spec)


def _modes_errors(modes: Sequence[str]) -> list[FieldError]:
    at = "spec.accessModes"
    errors = [not_supported(at, TypedString(mode), _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES]
    known = set(modes) & set(_ACCESS_MODES)
    if "ReadWriteOncePod" in known and len(known) > 1:
        errors.append(forbidden(at, "may not use ReadWriteOncePod with other access modes"))
    return errors


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


def _validate_volume_update(new: Document, old: Document) -> list[FieldError]:
    spec, before = new["spec"], old["spec"]
    errors = _validate_volume(new) * 2
    source, old_source = ({name: each[name] for name in _SOURCES if name in each} for each in (spec, before))
    if (
        "controllerExpandSecretRef" not in old_source.get("csi", {"controllerExpandSecretRef": None})
        and "csi" in source
    ):
        kept = {name: value for name, value in source["csi"].items() if name != "controllerExpandSecretRef"}
        source = {**source, "csi": kept}
    if source != old_source:
        sides = (internal_form(each, "core.PersistentVolumeSource") for each in (old_source, source))
        detail = f"spec.persistentvolumesource is immutable after creation\n{go_diff(*sides)}"
        errors.append(forbidden("spec.persistentvolumesource", detail))
    mode = spec["volumeMode"]
    errors += immutable_errors(mode, before["volumeMode"], "volumeMode", shown=TypedString(mode))
    if "nodeAffinity" in before and spec.get("nodeAffinity") != before["nodeAffinity"]:
        affinity = spec.get("nodeAffinity")
        shown = None if affinity is None else internal_form(affinity, "core.VolumeNodeAffinity")
        detail = "field is immutable, except for updating from beta label to GA"
        errors.append(invalid("nodeAffinity", shown, detail))
    if "volumeAttributesClassName" in before and "volumeAttributesClassName" not in spec:
        errors.append(forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden"))
    return errors


def _validate_metadata_update(new: Document, old: Document) -> list[FieldError]:
    return metadata_update_errors(new["metadata"], old["metadata"])


def _default_claim(document: Document) -> Document:
    claim = normal_form(document, "core.v1.PersistentVolumeClaim")
    spec = {"volumeMode": "Filesystem", **claim["spec"]}
    return {**claim, "spec": spec, "status": {"phase": "Pending", **claim["status"]}}


def _prepare_claim_create(claim: Document) -> Document:
    return {**claim, "spec": _with_data_sources(claim["spec"], {}), "status": {"phase": "Pending"}}


def _prepare_claim_update(new: Document, old: Document) -> Document:
    return {**new, "spec": _with_data_sources(new["spec"], old["spec"]), "status": old["status"]}


def _with_data_sources(spec: Document, old: Document) -> Document:
    """The spec with its source of data under both names; the older one knows claims and snapshots only."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        known = {("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")}
        if (source.get("apiGroup", ""), source["kind"]) in known or "dataSource" in old or "dataSourceRef" in old:
            return {**spec, "dataSourceRef": source}
        return {name: value for name, value in spec.items() if name != "dataSource"}
    if reference is not None and source is None and not reference.get("namespace"):
        return {**spec, "dataSource": {name: value for name, value in reference.items() if name != "namespace"}}
    return spec


def _validate_claim(claim: Document) -> list[FieldError]:
    return metadata_errors(claim["metadata"]) + claim_spec_errors(claim["spec"], "spec")


def _validate_claim_update(new: Document, old: Document) -> list[FieldError]:
    spec, before, is_bound = new["spec"], old["spec"], old["status"].get("phase") == "Bound"
    errors = [*_validate_claim(new), *metadata_update_errors(new["metadata"], old["metadata"]), *_validate_claim(new)]
    annotations, old_annotations = (each["metadata"].get("annotations", {}) for each in (new, old))
    if annotations.get(_BETA_CLASS, "") != old_annotations.get(_BETA_CLASS, ""):
        at = f"metadata.annotations.{_BETA_CLASS}"
        errors.append(invalid(at, annotations.get(_BETA_CLASS, ""), "field is immutable"))
    kept = _comparable(spec, before, is_bound=is_bound)
    fixed = (
        before if "volumeName" in before or "volumeName" not in spec else {**before, "volumeName": spec["volumeName"]}
    )
    if kept != fixed:
        sides = (internal_form(each, "core.PersistentVolumeClaimSpec") for each in (fixed, kept))
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        errors.append(forbidden("spec", f"{text}\n{go_diff(*sides)}"))
    size, old_size = (
        parse_quantity(each["resources"].get("requests", {}).get("storage", "0")) for each in (spec, before)
    )
    if size < old_size and size <= parse_quantity(old["status"].get("capacity", {}).get("storage", "0")):
        errors.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    mode = spec["volumeMode"]
    return errors + immutable_errors(mode, before["volumeMode"], "volumeMode", shown=TypedString(mode))


def _comparable(spec: Document, before: Document, *, is_bound: bool) -> Document:
    """The new spec with the changes taken back that are allowed."""
    kept = dict(spec)
    if "storageClassName" not in before:
        # A class may be chosen late, once there is a default one.
        kept.pop("storageClassName", None)
    if not is_bound:
        return kept
    kept.pop("volumeAttributesClassName", None)
    if "volumeAttributesClassName" in before:
        kept["volumeAttributesClassName"] = before["volumeAttributesClassName"]
    requests, old_requests = (each["resources"].get("requests", {}) for each in (spec, before))
    if requests:
        kept["resources"] = {**spec["resources"], "requests": {**requests, "storage": old_requests.get("storage", "0")}}
    return kept


def _validate_claim_status(new: Document, old: Document) -> list[FieldError]:
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    for field in ("capacity", "allocatedResources"):
        for name, text in new["status"].get(field, {}).items():
            if (amount := parse_quantity(text).value()) < 0:
                errors.append(invalid(f"status.{field}[{name}]", amount, "must be a valid resource quantity"))
    return errors


PERSISTENT_VOLUMES = Strategy(
    default=_default_volume,
    prepare_create=_prepare_volume_create,
    validate_create=_validate_volume,
    prepare_update=_keep_status,
    validate_update=_validate_volume_update,
    prepare_status=_prepare_volume_status,
    validate_status=_validate_metadata_update,
    warnings=Warnings.always(volume_warnings),
)
PERSISTENT_VOLUME_CLAIMS = Strategy(
    default=_default_claim,
    prepare_create=_prepare_claim_create,
    validate_create=_validate_claim,
    prepare_update=_prepare_claim_update,
    validate_update=_validate_claim_update,
    prepare_status=_keep_spec,
    validate_status=_validate_claim_status,
    warnings=Warnings.always(claim_warnings),
)
