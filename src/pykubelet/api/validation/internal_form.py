"""An object as Go writes the API server's internal type of it: what messages show as a bad value.

In: an object as it stands in a document, and the name of its internal type (`core.PodTemplateSpec`). Out: the same with
the names, the order and the empty fields that the internal type has. The table `generated/internal_types.json` is read
at the first use.

Upstream: pkg/apis/*/types.go, written by encoding/json in
staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go
"""

from functools import cache
from importlib import resources
from typing import Any

import msgspec

from pykubelet.aio.learned import learned
from pykubelet.api.wire import Document

_EMPTY = {"string": "", "integer": 0, "boolean": False, "quantity": "0", "int-or-string": 0, "time": None, "any": None}
# The internal type keeps these with the security context, the wire beside it.
_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")


@cache
def _types() -> dict[str, list[tuple[str, str, str]]]:
    data = resources.files("pykubelet.api.generated").joinpath("internal_types.json").read_bytes()
    return msgspec.json.decode(data, type=learned(dict[str, list[tuple[str, str, str]]]))


def internal_form(document: Document, name: str) -> Document:
    """The object in the form of the internal type of this name."""
    if name == "core.PodSpec" and "securityContext" in document:
        host = {field: document[field] for field in _HOST_FIELDS if field in document}
        document = {**document, "securityContext": {**document["securityContext"], **host}}
    result: Document = {}
    for shown, wire, kind in _types()[name]:
        if kind.startswith("="):
            # Metadata stands among the other fields in Go, and in a field of its own on the wire.
            part = document.get("metadata") or {} if kind == "=meta.ObjectMeta" else document
            result |= internal_form(part, kind[1:])
            continue
        value = _value(document.get(wire), kind.removeprefix("?"))
        if value or not kind.startswith("?"):
            result[shown] = value
    return result


def label_selector_value(selector: Document | None) -> Document | None:
    """A label selector, or null where there is none."""
    return None if selector is None else internal_form(selector, "meta.LabelSelector")


def map_value(values: Document | None) -> Document | None:
    """A map of texts, such as labels: sorted by key; null where there is none."""
    return dict(sorted(values.items())) if values else None


def _value(value: Any, kind: str) -> Any:
    if kind in _EMPTY:
        return _EMPTY[kind] if value is None else value
    if kind.startswith(("*", "[]", "{}")):
        if value is None:
            return None
        if kind.startswith("*"):
            return _value(value, kind[1:])
        if kind.startswith("[]"):
            return [_value(item, kind[2:]) for item in value]
        return {key: _value(item, kind[2:]) for key, item in sorted(value.items())}
    if value is not None and not isinstance(value, dict):
        # Nobody has looked at the types of managed fields, which stand in templates of claims too.
        return value
    return internal_form(value or {}, kind)
