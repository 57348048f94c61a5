"""Validation of references to fields of the pod and to keys of other objects, and of paths in volumes.

Upstream: pkg/apis/core/validation/validation.go, pkg/apis/core/pods/helpers.go
"""

from collections.abc import Set as AbstractSet

from pykubelet.api.field_errors import FieldError, each_invalid, invalid, not_supported, required
from pykubelet.api.names import (
    config_map_key_errors,
    dns1123_label_errors,
    dns1123_subdomain_errors,
    qualified_name_errors,
    relaxed_env_var_name_errors,
)
from pykubelet.api.quantity import parse_quantity
from pykubelet.api.serializer import Document

ENV_FIELDS = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
VOLUME_FIELDS = frozenset(
    {"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"}
)
_KNOWN_FIELDS = (ENV_FIELDS | VOLUME_FIELDS) | {"spec.restartPolicy", "spec.schedulerName", "status.phase"}
_RESOURCES = frozenset(
    f"{side}.{resource}" for side in ("limits", "requests") for resource in ("cpu", "memory", "ephemeral-storage")
)
_HUGE_PAGES = ("requests.hugepages-", "limits.hugepages-")
_BYTE_DIVISORS = ("1", *(f"1{unit}" for unit in "kMGTPE"), *(f"1{unit}i" for unit in "KMGTPE"))
_RESOURCE_TITLES = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}


def descending_path_errors(target: str, path: str) -> list[FieldError]:
    """Validates a relative path that stays in its directory."""
    errors = [invalid(path, target, "must be a relative path")] if target.startswith("/") else []
    return errors + backstep_errors(target, path)


def backstep_errors(target: str, path: str) -> list[FieldError]:
    """Validates that no part of the path is `..`; reports it once."""
    return [invalid(path, target, "must not contain '..'")] if ".." in target.split("/") else []


def non_reserved_path_errors(target: str, path: str) -> list[FieldError]:
    """Validates a relative path; a leading `..` in a name is reserved for the kubelet's volume writer."""
    errors = descending_path_errors(target, path)
    if target.startswith("..") and not target.startswith("../"):
        errors.append(invalid(path, target, "must not start with '..'"))
    return errors


def mode_errors(mode: int | None, path: str) -> list[FieldError]:
    """Validates a file mode of at most 0777."""
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")]


def field_ref_errors(reference: Document, fields: AbstractSet[str], path: str) -> list[FieldError]:
    """Validates a reference to a field of the pod; `fields` are those allowed here."""
    version, label = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        return [required(f"{path}.apiVersion")]
    if not label:
        return [required(f"{path}.fieldPath")]
    field, subscript = split_subscript(label)
    if problem := _conversion_problem(version, label, field, subscript):
        return [invalid(f"{path}.fieldPath", label, f"error converting fieldPath: {problem}")]
    if subscript is not None:
        key = subscript.lower() if field == "metadata.annotations" else subscript
        return each_invalid(path, key, qualified_name_errors(key))
    # Old clients use the name that the field had before v1.
    internal = "spec.nodeName" if label == "spec.host" else label
    return [] if internal in fields else [not_supported(f"{path}.fieldPath", internal, sorted(fields))]


def split_subscript(label: str) -> tuple[str, str | None]:
    """Splits `metadata.labels['a']` into field and key; a label without subscript has no key."""
    field, bracket, rest = label.partition("['")
    if field and bracket and label.endswith("']"):
        return field, label.removesuffix("']")[len(field) + 2 :] if rest else None
    return label, None


def _conversion_problem(version: str, label: str, field: str, subscript: str | None) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if subscript is not None:
        subscripted = field in {"metadata.annotations", "metadata.labels"}
        return "" if subscripted else f"field label does not support subscript: {label}"
    return "" if label in _KNOWN_FIELDS or label == "spec.host" else f"field label not supported: {label}"


def resource_ref_errors(reference: Document, path: str, *, in_volume: bool) -> list[FieldError]:
    """Validates a reference to a container's requests or limits."""
    resource = reference.get("resource", "")
    errors: list[FieldError] = []
    if in_volume and not reference.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not resource:
        errors.append(required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.append(not_supported(f"{path}.resource", resource, sorted(_RESOURCES)))
    return errors + _divisor_errors(resource, str(reference.get("divisor", "0")), f"{path}.divisor")


def _divisor_errors(resource: str, divisor: str, path: str) -> list[FieldError]:
    quantity = parse_quantity(divisor)
    if not quantity.sign():
        return []
    if resource in {"limits.cpu", "requests.cpu"}:
        detail = "only divisor's values 1m and 1 are supported with the cpu resource"
        return [] if str(quantity) in {"1m", "1"} else [invalid(path, resource, detail)]
    title = _RESOURCE_TITLES.get(resource.partition(".")[2]) if resource in _RESOURCES else None
    if resource.startswith(_HUGE_PAGES):
        title = "hugepages"
    if title is None or str(quantity) in _BYTE_DIVISORS:
        return []
    detail = f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the {title} resource"
    return [invalid(path, resource, detail)]


def key_ref_errors(reference: Document, path: str) -> list[FieldError]:
    """Validates a reference to a key of a ConfigMap or Secret."""
    name, key = reference.get("name", ""), reference.get("key", "")
    errors = each_invalid(f"{path}.name", name, dns1123_subdomain_errors(name))
    if not key:
        return [*errors, required(f"{path}.key")]
    return errors + each_invalid(f"{path}.key", key, config_map_key_errors(key))


def file_key_ref_errors(reference: Document, path: str) -> list[FieldError]:
    """Validates a reference to a variable in a file of a volume."""
    key, volume, file = (reference.get(name, "") for name in ("key", "volumeName", "path"))
    errors = each_invalid(f"{path}.key", key, relaxed_env_var_name_errors(key)) if key else [required(f"{path}.key")]
    if volume:
        errors += each_invalid(f"{path}.volumeName", volume, dns1123_label_errors(volume))
    else:
        errors.append(required(f"{path}.volumeName"))
    return errors + (backstep_errors(file, f"{path}.path") if file else [required(f"{path}.path")])
