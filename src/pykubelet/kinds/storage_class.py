"""StorageClass: how volumes are provisioned.

Upstream: pkg/registry/storage/storageclass/strategy.go, pkg/apis/storage/v1/defaults.go,
pkg/apis/storage/validation/validation.go
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pykubelet.api.field_errors import FieldError, duplicate, each_invalid, forbidden, invalid, required, too_long
from pykubelet.api.names import byte_length, qualified_name_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, Warnings
from pykubelet.kinds.metadata import label_name_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.node import DEPRECATED_LABELS
from pykubelet.kinds.rules import OneOf, immutable_fields_errors, repeated_indexes

_DEFAULTS = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
_RECLAIM_POLICIES = OneOf(("Delete", "Retain"))
_BINDING_MODES = OneOf(("Immediate", "WaitForFirstConsumer"))
_MAX_PARAMETERS = 512
# Upstream reports each pair of equal terms, n^2 in all; so many of them tell as much.
_MAX_REPEATS = 16
_MAX_PARAMETERS_BYTES = 256 * 1024
_FIXED = ("parameters", "provisioner", "reclaimPolicy")
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _default(document: Document) -> Document:
    return {**_DEFAULTS, **normal_form(document, "storage.v1.StorageClass")}


def _validate_create(document: Document) -> list[FieldError]:
    provisioner, policy, mode = document["provisioner"], document["reclaimPolicy"], document["volumeBindingMode"]
    errors = metadata_errors(document["metadata"], namespaced=False)
    errors += provisioner_errors(provisioner, "provisioner")
    errors += parameters_errors(document.get("parameters", {}), "parameters")
    errors += _RECLAIM_POLICIES.errors(policy or None, "reclaimPolicy")
    errors += _BINDING_MODES.errors(mode, "volumeBindingMode")
    return errors + _topologies_errors(document.get("allowedTopologies", ()), "allowedTopologies")


def provisioner_errors(provisioner: str, path: str) -> list[FieldError]:
    """Validates the name of a driver, in which upper case counts as lower case."""
    lower = provisioner.lower()
    return each_invalid(path, lower, qualified_name_errors(lower)) if provisioner else [required(path)]


def parameters_errors(parameters: dict[str, str], path: str) -> list[FieldError]:
    """Validates the number and the size of a driver's parameters."""
    if len(parameters) > _MAX_PARAMETERS:
        return [too_long(path, _MAX_PARAMETERS)]
    errors = [invalid(path, "", "field can not be empty.")] if "" in parameters else []
    if sum(byte_length(key) + byte_length(value) for key, value in parameters.items()) > _MAX_PARAMETERS_BYTES:
        errors.append(too_long(path, _MAX_PARAMETERS_BYTES))
    return errors


def _topologies_errors(terms: Sequence[Document], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    # Upstream's list of terms starts with empty ones, so an empty term is always a duplicate.
    seen = Counter({frozenset[Any](): len(terms)})
    for index, term in enumerate(terms):
        at = f"{path}[{index}].matchLabelExpressions"
        keys: dict[str, frozenset[str]] = {}
        for number, requirement in enumerate(term.get("matchLabelExpressions", ())):
            key, values = requirement["key"], requirement.get("values", ())
            errors += _requirement_errors(key, values, f"{at}[{number}]")
            if key in keys:
                errors.append(duplicate(f"{at}[{number}].key", key))
            keys[key] = frozenset(values)
        term_key = frozenset(keys.items())
        errors += [duplicate(at, "")] * min(seen[term_key], _MAX_REPEATS)
        seen[term_key] += 1
    return errors


def _requirement_errors(key: str, values: Sequence[str], path: str) -> list[FieldError]:
    errors = [] if values else [required(f"{path}.values")]
    errors += [duplicate(f"{path}.values[{index}]", values[index]) for index in sorted(repeated_indexes(values))]
    return errors + label_name_errors(key, f"{path}.key")


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    errors = _validate_create(new) + metadata_update_errors(new["metadata"], old["metadata"])
    errors += [
        forbidden(name, f"updates to {name} are forbidden.") for name in _FIXED if new.get(name) != old.get(name)
    ]
    return errors + immutable_fields_errors(new, old, ("volumeBindingMode",))


def is_default_class(annotations: Mapping[str, str]) -> bool:
    """Whether the annotations of a class make it the default."""
    return any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)


def storage_class_warnings(document: Document) -> list[str]:
    """Warns about deprecated labels in the allowed topologies."""
    return [
        f"allowedTopologies[{index}].matchLabelExpressions[{place}].key: {text}"
        for index, term in enumerate(document.get("allowedTopologies", ()))
        for place, expression in enumerate(term.get("matchLabelExpressions", ()))
        if (text := DEPRECATED_LABELS.get(expression.get("key", "")))
    ]


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, provisioner, reclaim policy, volume binding mode, allow volume expansion, age."""
    annotations = at(document, "metadata", "annotations")
    return [
        f"{name_of(document)} (default)" if is_default_class(annotations) else name_of(document),
        document.get("provisioner", ""),
        document.get("reclaimPolicy", "Delete"),
        document.get("volumeBindingMode", "Immediate"),
        document.get("allowVolumeExpansion", False),
        created(document, age),
    ]


KIND = Kind(
    resource=Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False),
    definition="storage.v1.StorageClass",
    short_names=("sc",),
    strategy=Strategy(
        default=_default,
        validate_create=_validate_create,
        validate_update=_validate_update,
        warnings=Warnings.always(storage_class_warnings),
    ),
    cells=_cells,
)
