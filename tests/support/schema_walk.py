"""Walks the fields of a kind's schema, and makes documents that have a given value in one of them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pykubelet.api.schema import Field, definitions
from pykubelet.kinds.kind import Kind

SCALARS: dict[str, Any] = {
    "string": "a",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "bytes": "YQ==",
    "time": "2024-01-01T00:00:00.000000Z",
    "quantity": "1",
    "int-or-string": 1,
    "any": {},
}


class SchemaField(NamedTuple):
    """A field of a kind: its path, the definition that has it, and its type."""

    path: tuple[str, ...]
    definition: str
    field: Field

    @property
    def name(self) -> str:
        """The path with dots."""
        return ".".join(self.path)


def fields_of(definition: str, path: tuple[str, ...] = (), outer: tuple[str, ...] = ()) -> Iterator[SchemaField]:
    """Every field below a definition, each recursive definition once per path."""
    for name, field in definitions()[definition].fields.items():
        at = (*path, name)
        yield SchemaField(at, definition, field)
        inner = field if field.type == "ref" else field.items
        if inner is not None and inner.type == "ref" and inner.ref not in outer:
            yield from fields_of(inner.ref, at, (*outer, inner.ref))


def document_with(kind: Kind, path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A document of a kind with this value at a path; lists and maps on the way have one item."""
    document: dict[str, Any] = {
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": {"name": "a"},
    }
    put(document, kind.definition, path, value)
    return document


def put(document: dict[str, Any], definition: str, path: tuple[str, ...], value: Any) -> None:
    """Sets the value at a path; adds the objects on the way, named where they can be."""
    for step in path[:-1]:
        field = definitions()[definition].fields[step]
        inner = field if field.type == "ref" else field.items
        assert inner is not None
        definition = inner.ref
        item = {"name": "a"} if "name" in definitions()[definition].fields else {}
        match field.type:
            case "ref":
                document = document.setdefault(step, {})
            case "array":
                items = document.setdefault(step, [])
                items[:] = items or [item]
                document = items[0]
            case _:
                document = document.setdefault(step, {}).setdefault("a", item)
    document[path[-1]] = value


def item_of(field: Field, number: int) -> Any:
    """A value of this type with its scalar fields set; texts and numbers differ by their number."""
    if field.type == "string":
        return f"a{number}"
    if field.type == "integer":
        return number % 60_000 + 1
    if field.type == "ref":
        fields = definitions()[field.ref].fields
        return {name: item_of(each, number) for name, each in fields.items() if each.type in SCALARS}
    return [] if field.type == "array" else {} if field.type == "map" else SCALARS[field.type]


def items_of(field: Field, count: int, *, equal: bool) -> Any:
    """A list or map with this many items, all equal or all different."""
    assert field.items is not None
    if field.type == "array":
        return [item_of(field.items, 0 if equal else number) for number in range(count)]
    return {f"a{number}": item_of(field.items, 0 if equal else number) for number in range(count)}
