"""Lists of type set and map: unique elements, unique keys, and correlation of items by key.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go,
staging/src/k8s.io/apiserver/pkg/cel/common/maplist.go, staging/src/k8s.io/apiserver/pkg/cel/common/equality.go
"""

from collections.abc import Iterator
from typing import Any

from pykubelet.api.field_errors import FieldError, duplicate, go_json, invalid
from pykubelet.api.serializer import Document
from pykubelet.apiserver.apiextensions.schema.structural import Structural, inner_values

_SCALARS = (str, int, float)


def item_key(item: Any, schema: Structural) -> tuple[Any, ...] | None:
    """Returns the key of a list map item; None if a key field is missing."""
    if not isinstance(item, dict):
        return None
    found = [item.get(key) for key in schema.map_keys]
    return tuple((type(each), each) for each in found) if all(isinstance(each, _SCALARS) for each in found) else None


def items_by_key(items: Any, schema: Structural) -> dict[Any, Any]:
    """Maps keys to items; empty if the list has no keys."""
    if schema.list_type != "map" or not isinstance(items, list):
        return {}
    found: dict[Any, Any] = {}
    for item in items:
        keys = item_key(item, schema)
        if keys is not None:
            found.setdefault(keys, item)
    return found


def is_unchanged(new: Any, old: Any, schema: Structural | None) -> bool:
    """Whether a value is unchanged; items of list maps may be reordered."""
    if new == old:
        return True
    if schema is None or not schema.has_unique_lists or type(new) is not type(old):
        return False
    if isinstance(new, dict):
        return new.keys() == old.keys() and all(is_unchanged(new[key], old[key], schema.field(key)) for key in new)
    if isinstance(new, list) and len(new) == len(old) and schema.list_type == "map":
        before = items_by_key(old, schema)
        return all(
            (keys := item_key(item, schema)) in before and is_unchanged(item, before[keys], schema.items)
            for item in new
        )
    return False


def list_type_errors(value: Any, schema: Structural | None, path: str = "") -> list[FieldError]:
    """Reports duplicates in list sets and list maps."""
    if schema is None or not schema.has_unique_lists:
        return []
    errors: list[FieldError] = []
    if isinstance(value, list) and schema.list_type == "set":
        errors += [duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value)]
    elif isinstance(value, list) and schema.list_type == "map":
        errors += _map_errors(value, schema, path)
    for item, known, at in inner_values(value, schema, path):
        errors += list_type_errors(item, known, at)
    return errors


def _map_errors(value: list[Any], schema: Structural, path: str) -> list[FieldError]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            return [invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
    keys = [_key(item or {}, schema) for item in value]
    return [duplicate(f"{path}[{index}]", keys[index]) for index in _repeated(keys)]


def _key(item: Document, schema: Structural) -> Document:
    return {name: item[name] for name in sorted(schema.map_keys) if name in item}


def _repeated(values: list[Any]) -> Iterator[int]:
    """Yields the index of the second occurrence of each repeated value."""
    seen: dict[str, int] = {}
    for index, value in enumerate(values):
        # As JSON, which distinguishes true from 1 and makes objects comparable.
        text = go_json(value)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            yield index
