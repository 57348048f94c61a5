"""Whether an applied object fits its type: known fields, right types, no key twice.

Out: what is wrong, in upstream's words, which quote Go's own view of a value.

Upstream: structured-merge-diff/typed/validate.go and helpers.go
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pykubelet.api.patch.json_values import go_text, go_type_name
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.apiserver.fields.elements import FieldsError, json_text, shown
from pykubelet.apiserver.fields.schema_types import FieldType
from pykubelet.apiserver.fields.walk import element_of


class Misfit(NamedTuple):
    """What is wrong, and where: a path such as `.spec.ports[name="http"]`."""

    path: str
    message: str


def misfits(value: Any, type: FieldType, path: str = "") -> Iterator[Misfit]:
    """Everything in the value that its type does not allow."""
    if value is None:
        return
    match type.kind:
        case "map":
            yield from _map_misfits(value, type, path)
        case "list":
            yield from _list_misfits(value, type, path)
        case "scalar":
            if wrong := _scalar_misfit(value, type):
                yield Misfit(path, wrong)
        case _ if isinstance(value, dict) and type.as_map is not None:
            yield from _map_misfits(value, type.as_map, path)


def _map_misfits(value: Any, type: FieldType, path: str) -> Iterator[Misfit]:
    if not isinstance(value, dict):
        yield Misfit(path, f"expected map, got &{{{go_text(value)}}}")
        return
    for name in sorted(value):
        if name not in type.fields and type.others is None:
            yield Misfit(f"{path}.{name}", "field not declared in schema")
            return
        yield from misfits(value[name], type.child(name)[1], f"{path}.{name}")


def _list_misfits(value: Any, type: FieldType, path: str) -> Iterator[Misfit]:
    if not isinstance(value, list):
        yield Misfit(path, f"expected list, got &{{{go_text(value)}}}")
        return
    assert type.items is not None
    seen: set[str] = set()
    for position, item in enumerate(value):
        place = f"[{position}]"
        if not type.is_leaf:
            try:
                element = element_of(item, type)
            except FieldsError as error:
                yield Misfit(path, f"element {position}: {error}")
                return
            place = shown(element)
            if element in seen:
                yield Misfit(path, f"duplicate entries for key {place}")
            seen.add(element)
        yield from misfits(item, type.items, path + place)


def _scalar_misfit(value: Any, type: FieldType) -> str:
    match type.scalar:
        case "numeric" if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected numeric (int or float), got {go_type_name(value.__class__)}"
        case "string" if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got &{{{go_text(value)}}}"
        case "untyped" if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{go_text(value)}}}"
    return ""


def _go_syntax(value: Any) -> str:
    """The value as Go's %#v writes it."""
    match value:
        case dict():
            return (
                "map[string]interface {}{"
                + ", ".join(f"{go_quote(name)}:{_go_syntax(value[name])}" for name in sorted(value))
                + "}"
            )
        case list():
            return "[]interface {}{" + ", ".join(map(_go_syntax, value)) + "}"
        case str():
            return go_quote(value)
        case None:
            return "interface {}(nil)"
        case _:
            return json_text(value)


def described(found: list[Misfit]) -> str:
    """All that is wrong as one text."""
    lines = [f"{path}: {message}" if path else message for path, message in found]
    return lines[0] if len(lines) == 1 else "\n".join(["errors:", *(f"  {line}" for line in lines)])
