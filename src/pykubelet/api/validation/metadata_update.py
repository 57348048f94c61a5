"""Complaints about the metadata of an object that is to be changed.

In: the metadata after and before the change. Out: complaints, in the API server's order.

Upstream: ValidateObjectMetaAccessorUpdate and ValidateImmutableField in
staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go
"""

from typing import Any

from pykubelet.api.validation.field_errors import FieldError, Named, forbidden, go_quote, invalid
from pykubelet.api.validation.metadata import (
    annotations_errors,
    labels_errors,
    managed_fields_errors,
    owners_errors,
)
from pykubelet.api.wire import Document

IMMUTABLE = "field is immutable"
# Texts of which Go has types of its own, so that messages show them as JSON.
_IMMUTABLE_FIELDS = {
    "name": str,
    "namespace": str,
    "uid": Named,
    "creationTimestamp": Named,
    "deletionTimestamp": Named,
    "deletionGracePeriodSeconds": int,
}
_EMPTY_WHEN_ABSENT = frozenset({"name", "namespace", "uid"})


def metadata_update_errors(new: Document, old: Document, path: str = "metadata") -> list[FieldError]:
    """What is wrong with the new metadata of an object that had the old."""
    errors: list[FieldError] = []
    if old.get("deletionTimestamp") is not None:
        errors += _new_finalizers_errors(new.get("finalizers", ()), old.get("finalizers", ()), f"{path}.finalizers")
    if not new.get("resourceVersion"):
        errors.append(invalid(f"{path}.resourceVersion", "", "must be specified for an update"))
    if new.get("generation", 0) < old.get("generation", 0):
        errors.append(invalid(f"{path}.generation", new.get("generation", 0), "must not be decremented"))
    for name, kind in _IMMUTABLE_FIELDS.items():
        absent = "" if name in _EMPTY_WHEN_ABSENT else None
        value = new.get(name, absent)
        if value != old.get(name, absent):
            errors.append(invalid(f"{path}.{name}", None if value is None else kind(value), IMMUTABLE))
    errors += labels_errors(new.get("labels", {}), f"{path}.labels")
    errors += annotations_errors(new.get("annotations", {}), f"{path}.annotations")
    errors += owners_errors(new.get("ownerReferences", ()), f"{path}.ownerReferences")
    return errors + managed_fields_errors(new.get("managedFields", ()), f"{path}.managedFields")


def immutable_errors(new: Any, old: Any, path: str, *, shown: Any = None) -> list[FieldError]:
    """Whether a value that must stay was changed; `shown` is how the message writes it, if not as it is."""
    return [] if new == old else [invalid(path, new if shown is None else shown, IMMUTABLE)]


def _new_finalizers_errors(new: list[str], old: list[str], path: str) -> list[FieldError]:
    added = sorted(set(new) - set(old))
    if not added:
        return []
    shown = ", ".join(map(go_quote, added))
    detail = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
    return [forbidden(path, detail)]
