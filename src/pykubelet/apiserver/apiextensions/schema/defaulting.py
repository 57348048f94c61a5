"""Applies the defaults of a structural schema, and validates them.

A null in a field that is not nullable becomes the default, or is dropped if there is none. Results share unchanged
parts with the input.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/algorithm.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/prunenulls.go,
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go
"""

from collections.abc import Iterator
from typing import Any

from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.api.serializer import Document
from pykubelet.apiserver.apiextensions.schema.objectmeta import embedded_errors
from pykubelet.apiserver.apiextensions.schema.pruning import prune_value
from pykubelet.apiserver.apiextensions.schema.structural import Structural
from pykubelet.apiserver.apiextensions.schema.validation import value_errors

MAX_DEFAULTS_BYTES = 3 * 1024 * 1024
"""Defaults add no more to an object than a request may have itself."""


def default_errors(schema: Structural, path: str) -> list[FieldError]:
    """Validates the defaults of a schema at any depth."""
    return list(_errors(schema, path)) if schema.has_defaults else []


def _errors(schema: Structural, path: str) -> Iterator[FieldError]:
    if schema.default is not None:
        at = f"{path}.default"
        if prune_value(schema.default, schema) != schema.default:
            yield invalid(at, schema.default, "must not have unknown fields")
        yield from (
            embedded_errors(schema.default, schema, at)
            or value_errors(schema.default, schema, path=at)
            or _rule_errors(schema, at)
        )
    if schema.items is not None:
        yield from _errors(schema.items, f"{path}.items")
    for name, each in schema.properties.items():
        yield from _errors(each, f"{path}.properties[{name}]")


def _rule_errors(schema: Structural, path: str) -> list[FieldError]:
    """Evaluates the CEL rules on a default, both as a new and as an unchanged value."""
    if not schema.has_rules:
        return []
    from pykubelet.apiserver.apiextensions.cel.compilation import compile_rules
    from pykubelet.apiserver.apiextensions.cel.validation import rule_errors

    rules, value = compile_rules(schema, is_resource=schema.embedded), schema.default
    kept = rule_errors(rules, value, value, path=path, ratchets=False)
    return kept or rule_errors(rules, value, None, path=path)


def without_stray_nulls(value: Any, schema: Structural | None) -> Any:
    """Drops nulls from fields that are not nullable and have no default."""
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


class DefaultsBudget:
    """How many bytes of JSON the defaults may still add to an object: a short one must not become a huge one."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_DEFAULTS_BYTES

    @property
    def is_exceeded(self) -> bool:
        """Whether defaults were left out because they did not fit."""
        return self.left < 0

    def take(self, schema: Structural) -> bool:
        """Whether the default of a schema still fits."""
        self.left -= schema.default_bytes
        return self.left >= 0


def with_defaults(value: Any, schema: Structural | None, budget: DefaultsBudget) -> Any:
    """Fills in the defaults of fields that are absent, at any depth, as long as the budget lasts."""
    if schema is None or not schema.has_defaults:
        return value
    if isinstance(value, list):
        items = schema.items
        changed = [with_defaults(_or_default(each, items, budget), items, budget) for each in value]
        return changed if any(new is not old for new, old in zip(changed, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    filled: Document = {}
    is_changed = False
    for key, each in value.items():
        known = schema.field(key)
        filled[key] = with_defaults(_or_default(each, known, budget), known, budget)
        is_changed |= filled[key] is not each
    for key, known in schema.properties.items():
        if known.default is not None and key not in value and budget.take(known):
            filled[key] = with_defaults(known.default, known, budget)
            is_changed = True
    return filled if is_changed else value


def _or_default(value: Any, schema: Structural | None, budget: DefaultsBudget) -> Any:
    if value is not None or schema is None or schema.nullable or not budget.take(schema):
        return value
    return schema.default
