"""Warnings about unknown string formats in the schemas of a CustomResourceDefinition.

Values are not checked against an unknown format; writing the definition returns a warning instead.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go
"""

from collections.abc import Iterator
from typing import Any

from pykubelet.api.cel.formats import is_known_format
from pykubelet.api.field_errors import go_quote
from pykubelet.api.serializer import Document

# Fields that contain schemas: directly or in a list, and by arbitrary names.
_INNER = ("items", "allOf", "anyOf", "oneOf", "not", "additionalProperties", "additionalItems")
_NAMED = ("properties", "patternProperties", "definitions", "dependencies")


def format_warnings(definition: Document) -> list[str]:
    """Warns about unknown formats of a new definition."""
    return [f"unrecognized format {go_quote(name)}" for name in _unknown_formats(definition)]


def format_change_warnings(new: Document, old: Document) -> list[str]:
    """Warns about unknown formats that an update adds."""
    before = set(format_warnings(old))
    return [warning for warning in format_warnings(new) if warning not in before]


def _unknown_formats(definition: Document) -> Iterator[str]:
    # Iterative, because the depth of a schema is not limited here.
    versions = definition["spec"].get("versions", ())
    left: list[Any] = [version.get("schema", {}).get("openAPIV3Schema") for version in reversed(versions)]
    while left:
        schema = left.pop()
        if isinstance(schema, list):
            left += reversed(schema)
        elif isinstance(schema, dict):
            name = schema.get("format", "")
            if name and schema.get("type") == "string" and not is_known_format(name):
                yield name
            for key in reversed(_NAMED):
                named = schema.get(key, {})
                left += [named[each] for each in sorted(named, reverse=True)]
            left += [schema[key] for key in reversed(_INNER) if key in schema]
