"""Lists that are sets or maps: no element, or no key, twice.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go
"""

from collections.abc import Iterator
from typing import Any

from pykubelet.api.validation.field_errors import FieldError, duplicate, go_json, invalid
from pykubelet.api.wire import Document
from pykubelet.apiserver.custom.schema import Schema


def list_type_errors(value: Any, schema: Schema | None, path: str = "") -> list[FieldError]:
    """What stands twice in lists where it may not."""
    if schema is None or not schema.has_unique_lists:
        return []
    errors: list[FieldError] = []
    if isinstance(value, dict):
        for key, item in value.items():
            if (known := schema.properties.get(key)) is not None:
                errors += list_type_errors(item, known, f"{path}.{key}" if path else key)
            else:
                errors += list_type_errors(item, schema.additional_schema, f"{path}[{key}]")
    elif isinstance(value, list):
        if schema.list_type == "set":
            errors += [duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value)]
        elif schema.list_type == "map":
            errors += _map_errors(value, schema, path)
        for index, item in enumerate(value):
            errors += list_type_errors(item, schema.items, f"{path}[{index}]")
    return errors


def _map_errors(value: list[Any], schema: Schema, path: str) -> list[FieldError]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            return [invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
    keys = [_key(item or {}, schema) for item in value]
    return [duplicate(f"{path}[{index}]", keys[index]) for index in _repeated(keys)]


def _key(item: Document, schema: Schema) -> Document:
    return {name: item[name] for name in sorted(schema.map_keys) if name in item}


def _repeated(values: list[Any]) -> Iterator[int]:
    """Where each value that stands more than once stands for the second time."""
    seen: dict[str, int] = {}
    for index, value in enumerate(values):
        # As JSON, so that true is not 1 and objects can be compared.
        text = go_json(value)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            yield index
