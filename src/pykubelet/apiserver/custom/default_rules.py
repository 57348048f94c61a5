"""Whether the defaults of a schema are values that the schema allows.

In: a structural schema, compiled. Out: complaints.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go
"""

from collections.abc import Iterator

from pykubelet.api.validation.field_errors import FieldError, invalid
from pykubelet.apiserver.custom.embedded import embedded_errors
from pykubelet.apiserver.custom.pruning import prune_value
from pykubelet.apiserver.custom.schema import Schema
from pykubelet.apiserver.custom.validation import value_errors


def default_errors(schema: Schema, path: str) -> list[FieldError]:
    """What is wrong with the defaults, here and further inside."""
    return list(_errors(schema, path)) if schema.has_defaults else []


def _errors(schema: Schema, path: str) -> Iterator[FieldError]:
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


def _rule_errors(schema: Schema, path: str) -> list[FieldError]:
    """The rules that a default breaks, both as a value that stays and as one that is new."""
    if not schema.has_rules:
        return []
    from pykubelet.apiserver.custom.cel.rule_checks import rule_errors
    from pykubelet.apiserver.custom.cel.rules import compile_rules

    rules, value = compile_rules(schema, is_resource=schema.embedded), schema.default
    kept = rule_errors(rules, value, value, path=path, ratchets=False)
    return kept or rule_errors(rules, value, None, path=path)
