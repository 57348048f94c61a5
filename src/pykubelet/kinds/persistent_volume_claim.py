"""Complaints about the claim template of an ephemeral volume.

Upstream: ValidatePersistentVolumeClaimTemplate and ValidatePersistentVolumeClaimSpec in
pkg/apis/core/validation/validation.go

Warnings about volumes, claims and amounts of bytes.

Upstream: pkg/api/persistentvolume/util.go, pkg/api/persistentvolumeclaim/util.go
"""

from collections.abc import Mapping
from functools import lru_cache

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    each_invalid,
    forbidden,
    go_quote,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.int64 import MAX_INT64, MIN_INT64
from pykubelet.api.names import dns1123_label_errors, dns1123_subdomain_errors
from pykubelet.api.quantity import Format, parse_quantity
from pykubelet.api.serializer import Document
from pykubelet.kinds.metadata import annotations_errors, label_selector_errors, labels_errors
from pykubelet.kinds.node import selector_term_warnings

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
# Go's names of the fields that a template may not set, in Go's order, with the wire's names.
_FORBIDDEN_METADATA = (
    ("name", "name"),
    ("generateName", "generateName"),
    ("namespace", "namespace"),
    ("selfLink", "selfLink"),
    ("uID", "uid"),
    ("resourceVersion", "resourceVersion"),
    ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"),
    ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
    ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"),
    ("managedFields", "managedFields"),
)


def claim_template_errors(template: Document, path: str) -> list[FieldError]:
    """What is wrong with the template."""
    metadata, at = template.get("metadata", {}), f"{path}.metadata"
    errors = annotations_errors(metadata.get("annotations", {}), f"{at}.annotations")
    errors += labels_errors(metadata.get("labels", {}), f"{at}.labels")
    errors += [forbidden(f"{at}.{shown}", "cannot be set") for shown, wire in _FORBIDDEN_METADATA if wire in metadata]
    return errors + claim_spec_errors(template.get("spec", {}), f"{path}.spec")


def claim_spec_errors(spec: Document, path: str) -> list[FieldError]:
    """What is wrong with the spec of a claim that is to be made."""
    modes = spec.get("accessModes", ())
    errors = [] if modes else [required(f"{path}.accessModes", "at least 1 access mode is required")]
    errors += label_selector_errors(spec.get("selector"), f"{path}.selector")
    errors += [
        not_supported(f"{path}.accessModes", TypedString(mode), _ACCESS_MODES)
        for mode in modes
        if mode not in _ACCESS_MODES
    ]
    known = set(modes) & set(_ACCESS_MODES)
    if "ReadWriteOncePod" in known and len(known) > 1:
        errors.append(forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    errors += _storage_errors(spec.get("resources", {}).get("requests", {}), f"{path}.resources[storage]")
    errors += _class_name_errors(spec.get("storageClassName", ""), f"{path}.storageClassName")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        errors.append(not_supported(f"{path}.volumeMode", TypedString(mode), _VOLUME_MODES))
    errors += _data_sources_errors(spec, path)
    return errors + _class_name_errors(spec.get("volumeAttributesClassName", ""), f"{path}.volumeAttributesClassName")


def _storage_errors(requests: Document, path: str) -> list[FieldError]:
    if "storage" not in requests:
        return [required(path)]
    quantity = parse_quantity(requests["storage"])
    return [] if quantity.sign() > 0 else [invalid(path, str(quantity), "must be greater than zero")]


def _class_name_errors(name: str, path: str) -> list[FieldError]:
    return each_invalid(path, name, dns1123_subdomain_errors(name)) if name else []


def _data_sources_errors(spec: Document, path: str) -> list[FieldError]:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    errors: list[FieldError] = []
    if source is not None:
        errors += _data_source_errors(source, f"{path}.dataSource")
    if reference is not None:
        errors += _data_source_errors(reference, f"{path}.dataSourceRef")
        if namespace := reference.get("namespace", ""):
            errors += each_invalid(f"{path}.dataSourceRef.namespace", namespace, dns1123_label_errors(namespace))
    if source is None or reference is None:
        return errors
    # The bad value is a path there, which Go writes as an empty object.
    if reference.get("namespace"):
        errors.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
    elif any(source.get(name) != reference.get(name) for name in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, {}, "must match dataSourceRef"))
    return errors


def _data_source_errors(source: Document, path: str) -> list[FieldError]:
    errors = [required(f"{path}.{name}") for name in ("name", "kind") if not source.get(name)]
    group, kind = source.get("apiGroup", ""), source.get("kind", "")
    if group:
        return errors + each_invalid(f"{path}.apiGroup", group, dns1123_subdomain_errors(group))
    if kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, kind, detail))
    return errors


_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEPRECATED_ANNOTATIONS = {
    _STORAGE_CLASS: 'deprecated since v1.8; use "storageClassName" attribute instead',
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_RECYCLE = (
    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is "
    "to use dynamic provisioning."
)
GONE_SYSTEMS = {
    "photonPersistentDisk": "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "scaleIO: deprecated in v1.16, non-functional in v1.22+",
    "flocker": "flocker: deprecated in v1.22, non-functional in v1.25+",
    # The warning names the field of the Go type.
    "storageos": "storageOS: deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "quobyte: deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "glusterfs: deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "cephfs: deprecated in v1.28, non-functional in v1.31+",
    "rbd": "rbd: deprecated in v1.28, non-functional in v1.31+",
}
"""Storage that is supported no more, by the field of a volume that asks for it."""
_OF_VOLUMES = ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd")
# Numbers of so many digits upstream multiplies by powers of ten one by one, but for these powers.
_FEW_DIGITS = 18
_POWERS_AT_ONCE = frozenset({1, 2, 3, 6, 9})


def volume_warnings(document: Document) -> list[str]:
    """About a PersistentVolume."""
    spec, annotations = document["spec"], document["metadata"].get("annotations", {})
    warnings = [
        f"metadata.annotations[{key}]: {said}" for key, said in _DEPRECATED_ANNOTATIONS.items() if key in annotations
    ]
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        warnings.append(_RECYCLE)
    terms = spec.get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms", ())
    for index, term in enumerate(terms):
        warnings += selector_term_warnings(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]")
    return warnings + [f"spec.{GONE_SYSTEMS[kind]}" for kind in _OF_VOLUMES if kind in spec]


def claim_warnings(document: Document) -> list[str]:
    """About a PersistentVolumeClaim."""
    annotations = document["metadata"].get("annotations", {})
    warnings = claim_spec_warnings(document["spec"], "spec")
    if _STORAGE_CLASS not in annotations:
        return warnings
    return [f"metadata.annotations[{_STORAGE_CLASS}]: {_DEPRECATED_ANNOTATIONS[_STORAGE_CLASS]}", *warnings]


def claim_spec_warnings(spec: Document, path: str) -> list[str]:
    """About the spec of a claim, or of a template of claims."""
    resources = spec.get("resources", {})
    return [
        warning
        for kind in ("requests", "limits")
        for warning in fraction_warnings(resources.get(kind, {}), "storage", f"{path}.resources.{kind}")
    ]


def fraction_warnings(amounts: Mapping[str, str], resource: str, path: str) -> list[str]:
    """About the amount of a resource that is counted in bytes."""
    text = amounts.get(resource)
    if text is None or not _is_fractional(text):
        return []
    shown = go_quote(str(parse_quantity(text)))
    return [f"{path}[{resource}]: fractional byte value {shown} is invalid, must be an integer"]


@lru_cache(maxsize=1024)
def _is_fractional(text: str) -> bool:
    quantity = parse_quantity(text)
    thousandths = quantity.milli_value()
    if MIN_INT64 < thousandths < MAX_INT64:
        return thousandths % 1000 != 0
    # Upstream counts thousandths in 64 bits: those of larger amounts (10Pi) wrap around, or count as none (10P).
    power = quantity.scale + 3
    has_few_digits = quantity.format is not Format.BINARY_SI and len(str(abs(quantity.unscaled))) <= _FEW_DIGITS
    if power > _FEW_DIGITS or (has_few_digits and power not in _POWERS_AT_ONCE):
        return False
    return bool(((quantity.unscaled * 10**power - MIN_INT64) % 2**64 + MIN_INT64) % 1000)
