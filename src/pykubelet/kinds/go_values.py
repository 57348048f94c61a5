"""Values as Go prints them, in validation errors, diffs of objects, table cells and field selectors.

Validation errors show the API server's internal types, which have Go's field names and write every field; documents
have wire names and omit empty fields. `internal_form` translates with the table `generated/internal_types.json`, which
is read at the first use.

Upstream: pkg/apis/core/types.go, staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go,
staging/src/k8s.io/apimachinery/pkg/util/diff/diff.go
"""

import json
import re
from decimal import Decimal
from difflib import unified_diff
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from pykubelet.aio.msgspec_types import register_type
from pykubelet.api.field_errors import go_escaped, go_json
from pykubelet.api.serializer import Document

_HEADER_LINES = 2
_CONTEXT_LINES = 3
# A diff takes time by the square of its lines. So many are those of a pod with eight containers, before and after.
_MAX_COMPARED_LINES = 2000
_LINE_NUMBER = re.compile(r"([-+])(\d+)")
_EMPTY = {"string": "", "integer": 0, "boolean": False, "quantity": "0", "int-or-string": 0, "time": None, "any": None}
# The internal type has these fields in the security context, the wire beside it.
_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
# From here on Go's JSON writes an exponent.
_LONGEST_WHOLE = 1e21


def internal_form(document: Document, name: str) -> Document:
    """Converts an object of a document to the internal type of this name, such as `core.PodTemplateSpec`."""
    if name == "core.PodSpec" and "securityContext" in document:
        host = {field: document[field] for field in _HOST_FIELDS if field in document}
        document = {**document, "securityContext": {**document["securityContext"], **host}}
    result: Document = {}
    for shown, wire, kind in _types()[name]:
        if kind.startswith("="):
            # Go inlines the metadata; the wire has a field for it.
            part = document.get("metadata") or {} if kind == "=meta.ObjectMeta" else document
            result |= internal_form(part, kind[1:])
            continue
        value = _value(document.get(wire), kind.removeprefix("?"))
        if value or not kind.startswith("?"):
            result[shown] = value
    return result


@cache
def _types() -> dict[str, list[tuple[str, str, str]]]:
    data = resources.files("pykubelet.api.generated").joinpath("internal_types.json").read_bytes()
    return msgspec.json.decode(data, type=register_type(dict[str, list[tuple[str, str, str]]]))


def _value(value: Any, kind: str) -> Any:
    if kind in _EMPTY:
        return _EMPTY[kind] if value is None else value
    if kind.startswith(("*", "[]", "{}")):
        if value is None:
            return None
        if kind.startswith("*"):
            return _value(value, kind[1:])
        if kind.startswith("[]"):
            return [_value(item, kind[2:]) for item in value]
        return {key: _value(item, kind[2:]) for key, item in sorted(value.items())}
    if value is not None and not isinstance(value, dict):
        # The types of managed fields were not checked; templates of claims can have some.
        return value
    return internal_form(value or {}, kind)


def go_diff(old: Document, new: Document) -> str:
    """A unified diff of the JSON of two objects in internal form, with three lines of context and no header."""
    before, after = _lines(old), _lines(new)
    first = 0
    if len(before) + len(after) > _MAX_COMPARED_LINES:
        first, before, after = _changed_part(before, after)
    lines = list(unified_diff(before, after, n=_CONTEXT_LINES))[_HEADER_LINES:]
    return "".join(_renumbered(line, first) if first and line.startswith("@@") else line for line in lines)


def _renumbered(header: str, first: int) -> str:
    """The header of a hunk, such as `@@ -1,7 +1,7 @@`, with the line numbers of the whole texts."""
    return _LINE_NUMBER.sub(lambda found: f"{found[1]}{int(found[2]) + first}", header)


def _changed_part(before: list[str], after: list[str]) -> tuple[int, list[str], list[str]]:
    """The start of the lines that differ, with their context, and the index of the first of them."""
    shortest = min(len(before), len(after))
    same = next((index for index in range(shortest) if before[index] != after[index]), shortest)
    first = max(same - _CONTEXT_LINES, 0)
    last = first + _MAX_COMPARED_LINES // 2
    return first, before[first:last], after[first:last]


def _lines(value: Document) -> list[str]:
    text = go_escaped(json.dumps(value, indent=1, ensure_ascii=False))
    return [f"{line}\n" for line in text.split("\n")]


def label_selector_value(selector: Document | None) -> Document | None:
    """A label selector in internal form; null if there is none."""
    return None if selector is None else internal_form(selector, "meta.LabelSelector")


def map_value(values: Document | None) -> Document | None:
    """A map of strings, such as labels, sorted by key; null if it is empty."""
    return dict(sorted(values.items())) if values else None


def printed(value: Any) -> str:
    """Any value as text: scalars as they are, objects and lists as JSON."""
    match value:
        case None:
            return "<no value>"
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return go_float(value)
        case dict() | list():
            return go_json(_ordered(value))
        case _:
            return str(value)


def go_float(value: float) -> str:
    """The shortest digits of a number, as Go prints them: with an exponent below 1e-4 and from 1e6 on."""
    digits, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    if -5 < int(exponent) < 6:
        return repr(value).removesuffix(".0")
    return f"{digits}e{exponent[0]}{exponent[1:]:0>2}"


def _ordered(value: Any) -> Any:
    """The value with sorted keys and whole numbers without a fraction, as Go writes them."""
    match value:
        case dict():
            return {key: _ordered(value[key]) for key in sorted(value)}
        case list():
            return [_ordered(item) for item in value]
        case float() if value.is_integer() and abs(value) < _LONGEST_WHOLE:
            return int(value)
        case _:
            return value
