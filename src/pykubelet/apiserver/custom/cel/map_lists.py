"""Lists whose items have keys: which item was which before.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/common/maplist.go and equality.go
"""

from typing import Any

from pykubelet.apiserver.custom.schema import Schema

_SCALARS = (str, int, float)


def keys_of(item: Any, schema: Schema) -> tuple[Any, ...] | None:
    """What tells an item of a list from others; None if it has not all keys."""
    if not isinstance(item, dict):
        return None
    found = [item.get(key) for key in schema.map_keys]
    return tuple((type(each), each) for each in found) if all(isinstance(each, _SCALARS) for each in found) else None


def by_keys(items: Any, schema: Schema) -> dict[Any, Any]:
    """The items of a list by their keys; none if they have none."""
    if schema.list_type != "map" or not isinstance(items, list):
        return {}
    found: dict[Any, Any] = {}
    for item in items:
        keys = keys_of(item, schema)
        if keys is not None:
            found.setdefault(keys, item)
    return found


def is_same(new: Any, old: Any, schema: Schema | None) -> bool:
    """Whether a value is what it was; items with keys may have changed places."""
    if new == old:
        return True
    if schema is None or not schema.has_unique_lists or type(new) is not type(old):
        return False
    if isinstance(new, dict):
        return new.keys() == old.keys() and all(is_same(new[key], old[key], schema.field(key)) for key in new)
    if isinstance(new, list) and len(new) == len(old) and schema.list_type == "map":
        before = by_keys(old, schema)
        return all(
            (keys := keys_of(item, schema)) in before and is_same(item, before[keys], schema.items) for item in new
        )
    return False
