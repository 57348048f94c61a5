"""PersistentVolumeClaim, and the claim templates of ephemeral volumes and StatefulSets.

Upstream: pkg/registry/core/persistentvolumeclaim/strategy.go, pkg/apis/core/validation/validation.go,
pkg/api/persistentvolumeclaim/util.go
"""

from collections.abc import Sequence
from typing import Any

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.names import dns1123_label_errors, dns1123_subdomain_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import UNSET, at, created, name_of, quantity_text
from pykubelet.kinds.go_values import go_diff, internal_form
from pykubelet.kinds.kind import Kind, Strategy, Warnings, restore_spec, without_fields
from pykubelet.kinds.metadata import (
    IMMUTABLE,
    annotations_errors,
    label_selector_errors,
    labels_errors,
    metadata_errors,
    metadata_update_errors,
)
from pykubelet.kinds.resources import fraction_warnings
from pykubelet.kinds.rules import OneOf, immutable_fields_errors

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = OneOf(("Block", "Filesystem"))
# Fields that a template may not set, in Go's order.
_FORBIDDEN_METADATA = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
"""The finalizer of a claim that may be in use."""
STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
STORAGE_CLASS_WARNING = 'deprecated since v1.8; use "storageClassName" attribute instead'
_SHORT_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def claim_template_errors(template: Document, path: str) -> list[FieldError]:
    """Validates the claim template of an ephemeral volume."""
    metadata, at = template.get("metadata", {}), f"{path}.metadata"
    errors = annotations_errors(metadata.get("annotations", {}), f"{at}.annotations")
    errors += labels_errors(metadata.get("labels", {}), f"{at}.labels")
    # The message has Go's spelling of uid.
    given = ("uID" if name == "uid" else name for name in _FORBIDDEN_METADATA if name in metadata)
    errors += [forbidden(f"{at}.{name}", "cannot be set") for name in given]
    return errors + claim_spec_errors(template.get("spec", {}), f"{path}.spec")


def claim_spec_errors(spec: Document, path: str) -> list[FieldError]:
    """Validates the spec of a new claim."""
    modes = spec.get("accessModes", ())
    errors = [] if modes else [required(f"{path}.accessModes", "at least 1 access mode is required")]
    errors += label_selector_errors(spec.get("selector"), f"{path}.selector")
    errors += access_modes_errors(modes, f"{path}.accessModes")
    errors += _storage_errors(spec.get("resources", {}).get("requests", {}), f"{path}.resources[storage]")
    errors += _class_name_errors(spec.get("storageClassName", ""), f"{path}.storageClassName")
    errors += VOLUME_MODES.errors(spec.get("volumeMode"), f"{path}.volumeMode")
    errors += _data_sources_errors(spec, path)
    return errors + _class_name_errors(spec.get("volumeAttributesClassName", ""), f"{path}.volumeAttributesClassName")


def access_modes_errors(modes: Sequence[str], path: str) -> list[FieldError]:
    errors = [not_supported(path, TypedString(mode), ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    known = set(modes) & set(ACCESS_MODES)
    if "ReadWriteOncePod" in known and len(known) > 1:
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


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
    # Upstream passes the path as the bad value, which prints as an empty object.
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
        errors.append(invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
    return errors


def _default(document: Document) -> Document:
    claim = normal_form(document, "core.v1.PersistentVolumeClaim")
    spec = {"volumeMode": "Filesystem", **claim["spec"]}
    return {**claim, "spec": spec, "status": {"phase": "Pending", **claim["status"]}}


def _prepare_create(claim: Document) -> Document:
    return {**claim, "spec": _with_data_sources(claim["spec"], {}), "status": {"phase": "Pending"}}


def _with_data_sources(spec: Document, old: Document) -> Document:
    """The spec with its data source in both fields; `dataSource` allows only claims and snapshots."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        known = {("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")}
        if (source.get("apiGroup", ""), source["kind"]) in known or "dataSource" in old or "dataSourceRef" in old:
            return {**spec, "dataSourceRef": source}
        return without_fields(spec, "dataSource")
    if reference is not None and source is None and not reference.get("namespace"):
        return {**spec, "dataSource": without_fields(reference, "namespace")}
    return spec


def _validate(claim: Document) -> list[FieldError]:
    return metadata_errors(claim["metadata"]) + claim_spec_errors(claim["spec"], "spec")


def _prepare_update(new: Document, old: Document) -> Document:
    return {**new, "spec": _with_data_sources(new["spec"], old["spec"]), "status": old["status"]}


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    spec, before, is_bound = new["spec"], old["spec"], old["status"].get("phase") == "Bound"
    errors = [*_validate(new), *metadata_update_errors(new["metadata"], old["metadata"]), *_validate(new)]
    annotations, old_annotations = (each["metadata"].get("annotations", {}) for each in (new, old))
    if annotations.get(STORAGE_CLASS_ANNOTATION, "") != old_annotations.get(STORAGE_CLASS_ANNOTATION, ""):
        at = f"metadata.annotations.{STORAGE_CLASS_ANNOTATION}"
        errors.append(invalid(at, annotations.get(STORAGE_CLASS_ANNOTATION, ""), IMMUTABLE))
    kept = _comparable(spec, before, is_bound=is_bound)
    fixed = {**before, "volumeName": spec["volumeName"]} if "volumeName" in spec.keys() - before.keys() else before
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
    return errors + immutable_fields_errors(spec, before, ("volumeMode",))


def _comparable(spec: Document, before: Document, *, is_bound: bool) -> Document:
    """The new spec with all allowed changes reverted."""
    kept = dict(spec)
    if "storageClassName" not in before:
        # The default class may be set on an existing claim.
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


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    errors = metadata_update_errors(new["metadata"], old["metadata"])
    for field in ("capacity", "allocatedResources"):
        for name, text in new["status"].get(field, {}).items():
            if (amount := parse_quantity(text).value()) < 0:
                errors.append(invalid(f"status.{field}[{name}]", amount, "must be a valid resource quantity"))
    return errors


def claim_warnings(document: Document) -> list[str]:
    warnings = claim_spec_warnings(document["spec"], "spec")
    if STORAGE_CLASS_ANNOTATION not in document["metadata"].get("annotations", {}):
        return warnings
    return [f"metadata.annotations[{STORAGE_CLASS_ANNOTATION}]: {STORAGE_CLASS_WARNING}", *warnings]


def claim_spec_warnings(spec: Document, path: str) -> list[str]:
    """Warns about the spec of a claim or of a claim template."""
    resources = spec.get("resources", {})
    return [
        warning
        for kind in ("requests", "limits")
        for warning in fraction_warnings(resources.get(kind, {}), "storage", f"{path}.resources.{kind}")
    ]


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, status, volume, capacity, access modes, classes, age, volume mode."""
    spec, status = at(document, "spec"), at(document, "status")
    bound = spec.get("volumeName", "")
    return [
        name_of(document),
        shown_phase(document),
        bound,
        quantity_text(at(status, "capacity").get("storage")) if bound else "",
        shown_access_modes(status.get("accessModes") or ()) if bound else "",
        shown_storage_class(document),
        spec.get("volumeAttributesClassName", UNSET),
        created(document, age),
        spec.get("volumeMode", UNSET),
    ]


def shown_phase(document: Document) -> str:
    """The phase as tables show it."""
    if at(document, "metadata").get("deletionTimestamp"):
        return "Terminating"
    return str(at(document, "status").get("phase", ""))


def shown_access_modes(modes: Sequence[str]) -> str:
    """The access modes abbreviated, as tables show them."""
    return ",".join(short for mode, short in _SHORT_ACCESS_MODES.items() if mode in modes)


def shown_storage_class(document: Document) -> str:
    """The storage class of a claim or a volume, which the beta annotation overrides."""
    annotations = at(document, "metadata", "annotations")
    found = annotations.get(STORAGE_CLASS_ANNOTATION)
    return str(at(document, "spec").get("storageClassName", "") if found is None else found)


KIND = Kind(
    resource=Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    definition="core.v1.PersistentVolumeClaim",
    short_names=("pvc",),
    subresources=("status",),
    strategy=Strategy(
        default=_default,
        prepare_create=_prepare_create,
        validate_create=_validate,
        prepare_update=_prepare_update,
        validate_update=_validate_update,
        prepare_status=restore_spec,
        validate_status=_validate_status,
        warnings=Warnings.always(claim_warnings),
    ),
    cells=_cells,
)
