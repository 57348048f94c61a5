"""Complaints about the claim template of an ephemeral volume.

Upstream: ValidatePersistentVolumeClaimTemplate and ValidatePersistentVolumeClaimSpec in
pkg/apis/core/validation/validation.go
"""

from pykubelet.api.names import dns1123_label_errors, dns1123_subdomain_errors
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.validation.field_errors import (
    FieldError,
    Named,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.validation.metadata import annotations_errors, label_selector_errors, labels_errors
from pykubelet.api.wire import Document

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
        not_supported(f"{path}.accessModes", Named(mode), _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES
    ]
    known = set(modes) & set(_ACCESS_MODES)
    if "ReadWriteOncePod" in known and len(known) > 1:
        errors.append(forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    errors += _storage_errors(spec.get("resources", {}).get("requests", {}), f"{path}.resources[storage]")
    errors += _class_name_errors(spec.get("storageClassName", ""), f"{path}.storageClassName")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        errors.append(not_supported(f"{path}.volumeMode", Named(mode), _VOLUME_MODES))
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
