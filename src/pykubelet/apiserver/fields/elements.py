"""One step of a field's path, as FieldsV1 spells it: `f:name`, `k:{"name":"c"}`, `v:"x"`, `i:0`.

In: names and values. Out: the text of the step, its place among its neighbours, and the words a person reads.

Upstream: structured-merge-diff/fieldpath/element.go and serialize-pe.go
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from pykubelet.api.validation.field_errors import go_quote

ANY_STEP = "*"
"""In a pattern of fields: every step."""

# jsoniter escapes for HTML inside keys and values; a text without these needs no second look.
_SPECIAL = re.compile('[\x00-\x1f"\\\\<>&\u2028\u2029]')
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(32), *map(ord, "<>&\u2028\u2029"))} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}
# Go writes floats plainly up to here, and never a point behind a whole number.
_PLAIN_FLOATS = 1e21
_INDEX = re.compile(r"[+-]?\d+", re.ASCII)


class FieldsError(ValueError):
    """These are no managed fields, or the object has no place for them; says why, as upstream does."""


def is_plain(text: str) -> bool:
    """Whether JSON needs no escapes for the text."""
    return _SPECIAL.search(text) is None


def json_text(value: Any) -> str:
    """The value as Go's JSON writer puts it into a key."""
    if isinstance(value, str):
        return f'"{value}"' if is_plain(value) else f'"{value.translate(_ESCAPES)}"'
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(name)}:{json_text(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) < _PLAIN_FLOATS:
        return str(int(value))
    return msgspec.json.encode(value).decode()


def key_element(keys: Iterable[tuple[str, Any]]) -> str:
    """The item of a list that has these values in its key fields, which come in the order of their names."""
    return "k:{" + ",".join(f'"{name}":{json_text(value)}' for name, value in keys) + "}"


def value_element(value: Any) -> str:
    """The item of a list that is a set."""
    return "v:" + json_text(value)


def parsed(element: str) -> Any:
    """What is behind the two letters of a key, value or index; FieldsError if it does not read."""
    try:
        if element[0] == "i":
            if _INDEX.fullmatch(element, 2) is None:
                raise FieldsError(f'strconv.Atoi: parsing "{element[2:]}": invalid syntax')
            return int(element[2:])
        return msgspec.json.decode(element[2:])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise FieldsError(f"parsing key as path element: {error}") from error


def canonical(element: str) -> str | None:
    """The one spelling of an element somebody else wrote; None for a kind of element that is not known."""
    if len(element) < 2:
        raise FieldsError("key must be 2 characters long:")
    if element[1] != ":":
        raise FieldsError(f"missing colon: {element}")
    if element[0] == "f":
        return element
    if element[0] == "v":
        return value_element(parsed(element))
    if element[0] == "i":
        return f"i:{parsed(element)}"
    if element[0] != "k":
        return None
    keys = parsed(element)
    if not isinstance(keys, dict):
        raise FieldsError(f"parsing key as path element: expected an object: {element}")
    return key_element(sorted(keys.items()))


def order(element: str) -> tuple[Any, ...]:
    """Sorts elements as Go does: names, then keys, values and indices, numbers by size and before texts."""
    match element[0]:
        case "f":
            return (0, element)
        case "k":
            return (1, tuple((name, _rank(value)) for name, value in parsed(element).items()))
        case "v":
            return (2, _rank(parsed(element)))
        case _:
            return (3, parsed(element))


def _rank(value: Any) -> tuple[int, Any]:
    match value:
        case bool():
            return (2, value)
        case int() | float():
            return (0, value)
        case str():
            return (1, value)
        case None:
            return (5, 0)
        case _:
            return (3 if isinstance(value, list) else 4, json_text(value))


def shown(element: str) -> str:
    """The element for people: `.name`, `[name="c"]`, `[="x"]`, `[0]`."""
    match element[0]:
        case "f":
            return f".{element[2:]}"
        case "k":
            return "[" + ",".join(f"{name}={_shown_value(value)}" for name, value in parsed(element).items()) + "]"
        case "v":
            return f"[={_shown_value(parsed(element))}]"
        case _:
            return f"[{element[2:]}]"


def _shown_value(value: Any) -> str:
    return go_quote(value) if isinstance(value, str) else json_text(value)
