"""Validation of metadata on create and update, and of shared values: selectors, signer names.

Errors are in the API server's order.

Upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go,
staging/src/k8s.io/apimachinery/pkg/api/validation/generic.go,
staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go, pkg/apis/core/validation/names.go
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    each_invalid,
    forbidden,
    go_quote,
    invalid,
    items_errors,
    required,
    too_long,
)
from pykubelet.api.names import (
    DNS1123_LABEL_MAX_LENGTH,
    DNS1123_SUBDOMAIN_MAX_LENGTH,
    byte_length,
    dns1123_label_errors,
    dns1123_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)
from pykubelet.api.serializer import Document

NameRule = Callable[[str], list[str]]
MAX_ANNOTATIONS_BYTES = 256 * 1024
MAX_FIELD_MANAGER_BYTES = 128
MAX_SUBRESOURCE_BYTES = 256
ORPHAN_FINALIZER = "orphan"
FOREGROUND_FINALIZER = "foregroundDeletion"
_STANDARD_FINALIZERS = frozenset({"kubernetes", ORPHAN_FINALIZER, FOREGROUND_FINALIZER})
NOT_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"
# Strings with a type of their own in Go, which messages show as JSON.
_IMMUTABLE_FIELDS = {
    "name": str,
    "namespace": str,
    "uid": TypedString,
    "creationTimestamp": TypedString,
    "deletionTimestamp": TypedString,
    "deletionGracePeriodSeconds": int,
}
# A domain, a slash, and a path with room for a namespace, a dot and a name.
_MAX_LENGTH = DNS1123_SUBDOMAIN_MAX_LENGTH + 1 + DNS1123_LABEL_MAX_LENGTH + 1 + DNS1123_SUBDOMAIN_MAX_LENGTH


def metadata_errors(
    metadata: Document,
    *,
    name_rule: NameRule = dns1123_subdomain_errors,
    namespaced: bool = True,
    path: str = "metadata",
) -> list[FieldError]:
    """Validates the metadata of a new object of a built-in kind."""
    return [
        *generic_metadata_errors(metadata, name_rule=name_rule, namespaced=namespaced, path=path),
        *items_errors(metadata.get("finalizers", ()), _unqualified_finalizer_errors, f"{path}.finalizers"),
    ]


def generic_metadata_errors(
    metadata: Document,
    *,
    name_rule: NameRule = dns1123_subdomain_errors,
    namespaced: bool,
    path: str = "metadata",
) -> list[FieldError]:
    """Validates metadata of any kind; finalizers of custom resources need no domain."""
    return [
        *_name_errors(metadata, name_rule, path),
        *_namespace_errors(metadata.get("namespace", ""), f"{path}.namespace", namespaced=namespaced),
        *nonnegative_errors(metadata.get("generation", 0), f"{path}.generation"),
        *labels_errors(metadata.get("labels", {}), f"{path}.labels"),
        *annotations_errors(metadata.get("annotations", {}), f"{path}.annotations"),
        *owners_errors(metadata.get("ownerReferences", ()), f"{path}.ownerReferences"),
        *_finalizers_errors(metadata.get("finalizers", ()), f"{path}.finalizers"),
        *managed_fields_errors(metadata.get("managedFields", ()), f"{path}.managedFields"),
    ]


def _name_errors(metadata: Document, name_rule: NameRule, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if prefix := metadata.get("generateName", ""):
        errors += each_invalid(f"{path}.generateName", prefix, name_rule(without_trailing_dash(prefix)))
    name = metadata.get("name", "")
    if not name:
        return [*errors, required(f"{path}.name", "name or generateName is required")]
    return errors + each_invalid(f"{path}.name", name, name_rule(name))


def without_trailing_dash(prefix: str) -> str:
    """The prefix with its trailing dash masked: characters follow it in a name, so it is valid there."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _namespace_errors(namespace: str, path: str, *, namespaced: bool) -> list[FieldError]:
    if not namespaced:
        return [forbidden(path, "not allowed on this type")] if namespace else []
    return each_invalid(path, namespace, dns1123_label_errors(namespace)) if namespace else [required(path)]


def nonnegative_errors(value: int, path: str) -> list[FieldError]:
    """Validates that a number is not negative."""
    return [invalid(path, value, NOT_NEGATIVE)] if value < 0 else []


def labels_errors(labels: Mapping[str, str], path: str) -> list[FieldError]:
    """Validates the keys and values of labels."""
    errors: list[FieldError] = []
    for key, value in labels.items():
        if details := qualified_name_errors(key):
            errors += each_invalid(path, key, details)
        if details := label_value_errors(value):
            errors += each_invalid(path, value, details)
    return errors


def annotations_errors(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    """Validates the keys of annotations and their total size."""
    errors = [error for key in annotations for error in each_invalid(path, key, qualified_name_errors(key.lower()))]
    if sum(byte_length(key) + byte_length(value) for key, value in annotations.items()) > MAX_ANNOTATIONS_BYTES:
        errors.append(too_long(path, MAX_ANNOTATIONS_BYTES))
    return errors


def owners_errors(owners: Sequence[Document], path: str) -> list[FieldError]:
    """Validates the owner references."""
    errors: list[FieldError] = []
    first_controller = ""
    shown = [_owner_value(each) for each in owners] if len(owners) > 1 else []
    for owner in owners:
        errors += _owner_errors(owner, path)
        if not owner.get("controller"):
            continue
        controller = f"{owner.get('kind', '')}/{owner.get('name', '')}"
        if first_controller:
            detail = f'Only one reference can have Controller set to true. Found "true" in references for {first_controller} and {controller}'
            errors.append(invalid(path, shown, detail))
        else:
            first_controller = controller
    return errors


def _owner_errors(owner: Document, path: str) -> list[FieldError]:
    api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
    group, version = _group_version(api_version)
    errors: list[FieldError] = []
    if not version:
        errors.append(invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
    if not kind:
        errors.append(invalid(f"{path}.kind", kind, "must not be empty"))
    if not owner.get("name"):
        errors.append(invalid(f"{path}.name", "", "must not be empty"))
    if not owner.get("uid"):
        errors.append(invalid(f"{path}.uid", TypedString(""), "must not be empty"))
    if (group, version, kind) == ("", "v1", "Event"):
        errors.append(invalid(path, _owner_value(owner), "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def _group_version(api_version: str) -> tuple[str, str]:
    parts = api_version.split("/")
    if len(parts) == 1:
        return "", api_version
    return (parts[0], parts[1]) if len(parts) == 2 else ("", "")


def _owner_value(owner: Document) -> Document:
    value = {name: owner.get(name, "") for name in ("apiVersion", "kind", "name", "uid")}
    return value | {name: owner[name] for name in ("controller", "blockOwnerDeletion") if name in owner}


def _finalizers_errors(finalizers: Sequence[str], path: str) -> list[FieldError]:
    errors = [error for name in finalizers for error in each_invalid(path, name, qualified_name_errors(name))]
    if ORPHAN_FINALIZER in finalizers and FOREGROUND_FINALIZER in finalizers:
        detail = f"finalizer {ORPHAN_FINALIZER} and {FOREGROUND_FINALIZER} cannot be both set"
        errors.append(invalid(path, list(finalizers), detail))
    return errors


def managed_fields_errors(entries: Sequence[Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, entry in enumerate(entries):
        at = f"{path}[{index}]"
        operation, fields_type, manager, subresource = (
            _text(entry, name) for name in ("operation", "fieldsType", "manager", "subresource")
        )
        if operation not in {"Apply", "Update"}:
            errors.append(invalid(f"{at}.operation", TypedString(operation), "must be `Apply` or `Update`"))
        if fields_type not in {"", "FieldsV1"}:
            errors.append(invalid(f"{at}.fieldsType", fields_type, "must be `FieldsV1`"))
        errors += _field_manager_errors(manager, f"{at}.manager")
        if byte_length(subresource) > MAX_SUBRESOURCE_BYTES:
            errors.append(too_long(f"{at}.subresource", MAX_SUBRESOURCE_BYTES))
    return errors


def _text(entry: Any, name: str) -> str:
    """A string of an entry; any other type reads as empty, because these types were not checked before."""
    value = entry.get(name) if isinstance(entry, dict) else None
    return value if isinstance(value, str) else ""


def _field_manager_errors(manager: str, path: str) -> list[FieldError]:
    errors = [too_long(path, MAX_FIELD_MANAGER_BYTES)] if byte_length(manager) > MAX_FIELD_MANAGER_BYTES else []
    if manager.isprintable():
        return errors
    where = 0
    for char in manager:
        if not char.isprintable():
            errors.append(invalid(path, manager, f"invalid character U+{ord(char):04X} (at position {where})"))
        where += byte_length(char)
    return errors


def _unqualified_finalizer_errors(name: str, path: str) -> list[FieldError]:
    if "/" in name or name in _STANDARD_FINALIZERS:
        return []
    return [invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")]


def metadata_update_errors(new: Document, old: Document, path: str = "metadata") -> list[FieldError]:
    """Validates the new metadata of an update against the old."""
    errors: list[FieldError] = []
    if old.get("deletionTimestamp") is not None:
        errors += _new_finalizers_errors(new.get("finalizers", ()), old.get("finalizers", ()), f"{path}.finalizers")
    if not new.get("resourceVersion"):
        errors.append(invalid(f"{path}.resourceVersion", "", "must be specified for an update"))
    if new.get("generation", 0) < old.get("generation", 0):
        errors.append(invalid(f"{path}.generation", new.get("generation", 0), "must not be decremented"))
    for name, kind in _IMMUTABLE_FIELDS.items():
        absent = "" if name in {"name", "namespace", "uid"} else None
        value = new.get(name, absent)
        if value != old.get(name, absent):
            errors.append(invalid(f"{path}.{name}", None if value is None else kind(value), IMMUTABLE))
    errors += labels_errors(new.get("labels", {}), f"{path}.labels")
    errors += annotations_errors(new.get("annotations", {}), f"{path}.annotations")
    errors += owners_errors(new.get("ownerReferences", ()), f"{path}.ownerReferences")
    return errors + managed_fields_errors(new.get("managedFields", ()), f"{path}.managedFields")


def _new_finalizers_errors(new: list[str], old: list[str], path: str) -> list[FieldError]:
    added = sorted(set(new) - set(old))
    if not added:
        return []
    shown = ", ".join(map(go_quote, added))
    detail = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
    return [forbidden(path, detail)]


def immutable_errors(new: Any, old: Any, path: str, *, shown: Any = None) -> list[FieldError]:
    """Validates that a value did not change; `shown` replaces it in the message."""
    return [] if new == old else [invalid(path, new if shown is None else shown, IMMUTABLE)]


def label_name_errors(name: str, path: str) -> list[FieldError]:
    """Validates the key of a label."""
    return each_invalid(path, name, qualified_name_errors(name))


def label_selector_errors(selector: Document | None, path: str) -> list[FieldError]:
    if selector is None:
        return []
    errors = labels_errors(selector.get("matchLabels", {}), f"{path}.matchLabels")
    return errors + items_errors(
        selector.get("matchExpressions", ()), _selector_requirement_errors, f"{path}.matchExpressions"
    )


def _selector_requirement_errors(requirement: Document, path: str) -> list[FieldError]:
    return [
        *operator_errors(requirement, path),
        *label_name_errors(requirement.get("key", ""), f"{path}.key"),
        *label_values_errors(requirement.get("values", ()), f"{path}.values"),
    ]


def operator_errors(requirement: Document, path: str) -> list[FieldError]:
    """Validates the operator of a requirement, and whether it may have values."""
    operator, values = requirement.get("operator", ""), requirement.get("values", ())
    if operator in {"In", "NotIn"}:
        return [] if values else [required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")]
    if operator in {"Exists", "DoesNotExist"}:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        return [forbidden(f"{path}.values", detail)] if values else []
    return [invalid(f"{path}.operator", TypedString(operator), "not a valid selector operator")]


def label_values_errors(values: Sequence[str], path: str) -> list[FieldError]:
    """Validates the values of a requirement."""
    return [
        error
        for index, value in enumerate(values)
        for error in each_invalid(f"{path}[{index}]", value, label_value_errors(value))
    ]


def finalizer_name_errors(name: str, path: str) -> list[FieldError]:
    return each_invalid(path, name, qualified_name_errors(name)) + _unqualified_finalizer_errors(name, path)


def is_kubernetes_signer(name: str) -> bool:
    """Whether the signer is one of Kubernetes' own."""
    return f".{name.partition('/')[0]}".endswith(".kubernetes.io")


def signer_name_errors(name: str, path: str) -> list[FieldError]:
    """Validates the name of a certificate signer, such as `example.com/signer`."""
    if not name:
        return [required(path)]
    if name.count("/") != 1:
        return [invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")]
    domain, _, own_path = name.partition("/")
    errors: list[FieldError] = []
    if byte_length(domain) > DNS1123_SUBDOMAIN_MAX_LENGTH:
        errors.append(too_long(path, DNS1123_SUBDOMAIN_MAX_LENGTH))
    errors += each_invalid(path, domain, _first_bad_part(domain, dns1123_label_errors))
    if "." not in domain:
        errors.append(invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    errors += each_invalid(path, own_path, _first_bad_part(own_path, dns1123_subdomain_errors))
    return [*errors, too_long(path, _MAX_LENGTH)] if byte_length(name) > _MAX_LENGTH else errors


def _first_bad_part(text: str, rule: NameRule) -> list[str]:
    for part in text.split("."):
        if found := rule(part):
            return [f"validating label {go_quote(part)}: {error}" for error in found]
    return []
