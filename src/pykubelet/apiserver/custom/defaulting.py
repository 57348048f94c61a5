"""Defaults that a schema states, and nulls where it allows none.

In: a document and its schema. Out: a new document, sharing what is unchanged. A null that may not be is the default if
there is one, and is left out otherwise.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/algorithm.go and prunenulls.go
"""

from typing import Any

from pykubelet.api.wire import Document
from pykubelet.apiserver.custom.schema import Schema


def without_stray_nulls(value: Any, schema: Schema | None) -> Any:
    """The same without nulls in fields that have neither a default nor leave to be null."""
    if isinstance(value, list):
        items = schema.items if schema else None
        changed = [without_stray_nulls(each, items) for each in value]
        return changed if any(new is not old for new, old in zip(changed, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    kept: Document = {}
    is_changed = False
    for key, each in value.items():
        known = schema.field(key) if schema else None
        if each is None and known is not None and not known.nullable and known.default is None:
            is_changed = True
            continue
        kept[key] = without_stray_nulls(each, known)
        is_changed |= kept[key] is not each
    return kept if is_changed else value


def with_defaults(value: Any, schema: Schema | None) -> Any:
    """The same with a default in each place that has one and no value."""
    if schema is None or not schema.has_defaults:
        return value
    if isinstance(value, list):
        items = schema.items
        changed = [with_defaults(_or_default(each, items), items) for each in value]
        return changed if any(new is not old for new, old in zip(changed, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    filled: Document = {}
    is_changed = False
    for key, each in value.items():
        known = schema.field(key)
        filled[key] = with_defaults(_or_default(each, known), known)
        is_changed |= filled[key] is not each
    for key, known in schema.properties.items():
        if known.default is not None and key not in value:
            filled[key] = with_defaults(known.default, known)
            is_changed = True
    return filled if is_changed else value


def _or_default(value: Any, schema: Schema | None) -> Any:
    return schema.default if value is None and schema is not None and not schema.nullable else value
