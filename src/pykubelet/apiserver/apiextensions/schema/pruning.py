"""Prunes fields that the schema does not specify, and lists their paths.

apiVersion, kind and metadata of the object and of embedded resources are always kept. Results share unchanged parts
with the input.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning/algorithm.go
"""

from typing import Any

from pykubelet.api.serializer import Document
from pykubelet.apiserver.apiextensions.schema.structural import Structural

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


def prune(document: Document, schema: Structural) -> Document:
    """Drops the fields of an object that its schema does not specify."""
    pruned: Document = _prune(document, schema, "", None, is_resource=True)
    return pruned


def prune_value(value: Any, schema: Structural) -> Any:
    return _prune(value, schema, "", None)


def unknown_fields(document: Document, schema: Structural) -> list[str]:
    """Returns the paths of fields that pruning would drop, in order."""
    found: list[str] = []
    _prune(document, schema, "", found, is_resource=True)
    return sorted(found)


def _prune(
    value: Any, schema: Structural | None, path: str, found: list[str] | None, *, is_resource: bool = False
) -> Any:
    if isinstance(value, dict):
        return _prune_object(
            value, schema, path, found, is_resource=is_resource or (schema is not None and schema.embedded)
        )
    if isinstance(value, list):
        items = schema.items if schema else None
        if items is None and schema is not None and schema.preserves:
            return value
        kept = [
            _prune(each, items, f"{path}[{index}]" if found is not None else "", found)
            for index, each in enumerate(value)
        ]
        return kept if any(new is not old for new, old in zip(kept, value, strict=True)) else value
    return value


def _prune_object(
    value: Document, schema: Structural | None, path: str, found: list[str] | None, *, is_resource: bool
) -> Document:
    if schema is None:
        if found is not None:
            found += [_at(path, key) for key in value]
        return {} if value else value
    changed = False
    kept: Document = {}
    for key, each in value.items():
        if is_resource and key in META_FIELDS:
            kept[key] = each
            continue
        known = schema.properties.get(key)
        if known is not None or schema.additional is not None:
            inner = known if known is not None else schema.additional_schema
            new = _prune(each, inner, _at(path, key) if found is not None else "", found)
            changed |= new is not each
            kept[key] = new
        elif schema.preserves:
            kept[key] = each
        else:
            changed = True
            if found is not None and (path or key not in META_FIELDS):
                found.append(_at(path, key))
    return kept if changed else value


def _at(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
