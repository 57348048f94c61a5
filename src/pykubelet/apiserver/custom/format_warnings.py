"""Warnings about formats that a definition asks of strings and nobody checks.

Upstream: WarningsOnCreate and WarningsOnUpdate in apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go
"""

from collections.abc import Iterator
from typing import Any

from pykubelet.api.validation.field_errors import go_quote
from pykubelet.api.wire import Document
from pykubelet.apiserver.custom.formats import is_known_format

# Where schemas lie within a schema: alone or in a list, or by names of somebody's choice.
_INNER = ("items", "allOf", "anyOf", "oneOf", "not", "additionalProperties", "additionalItems")
_NAMED = ("properties", "patternProperties", "definitions", "dependencies")


def format_warnings(definition: Document) -> list[str]:
    """About a new definition."""
    return [f"unrecognized format {go_quote(name)}" for name in _unknown_formats(definition)]


def format_change_warnings(new: Document, old: Document) -> list[str]:
    """About the formats that a change brings."""
    before = set(format_warnings(old))
    return [warning for warning in format_warnings(new) if warning not in before]


def _unknown_formats(definition: Document) -> Iterator[str]:
    # Not by recursion: how deep a schema may be is nobody's business here.
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
