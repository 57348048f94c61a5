"""Go's error messages for values of the wrong type, and the unknown fields of a document.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/json/json.go,
staging/src/k8s.io/apimachinery/pkg/runtime/converter.go, staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/time.go,
staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/micro_time.go
"""

import re
from calendar import monthrange
from collections.abc import Sequence
from typing import Any, NamedTuple

from pykubelet.api.field_errors import go_json, go_quote
from pykubelet.api.quantity import QuantityError, parse_quantity
from pykubelet.api.schema import Field, definitions
from pykubelet.api.strict import WIDE_INTEGERS, StrictDecodingError
from pykubelet.api.times import MICRO_TIME_FIELDS
from pykubelet.api.yaml.read import Path

_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
# Each part of a time layout: its pattern and, for numbers whose range Go checks at once, name and bounds.
_PARTS: tuple[tuple[str, str, str, range], ...] = (
    ("2006", r"\d{4}", "", range(0)),
    ("-", "-", "", range(0)),
    ("01", r"\d\d", "month", range(1, 13)),
    ("-", "-", "", range(0)),
    ("02", r"\d\d", "", range(0)),
    ("T", "T", "", range(0)),
    ("15", r"\d\d", "hour", range(24)),
    (":", ":", "", range(0)),
    ("04", r"\d\d", "minute", range(60)),
    (":", ":", "", range(0)),
    ("05", r"\d\d", "second", range(60)),
)
_ZONE = r"Z|[+-]\d\d:\d\d"


def time_error(text: str, *, micro: bool = False) -> str | None:
    """Go's message for a text that is not an RFC 3339 time (with six fractional digits for `micro`); None if it is one."""
    fraction = (".000000", r"[.,]\d{6}") if micro else ("", r"([.,]\d+)?")
    rest, quoted = text, go_quote(text)
    for shown, pattern, name, bounds in (*_PARTS, (*fraction, "", range(0)), ("Z07:00", _ZONE, "", range(0))):
        found = re.match(pattern, rest, re.ASCII)
        if found is None:
            layout = _MICRO_LAYOUT if micro else _LAYOUT
            return f"parsing time {quoted} as {go_quote(layout)}: cannot parse {go_quote(rest)} as {go_quote(shown)}"
        if name and int(found[0]) not in bounds:
            return f"parsing time {quoted}: {name} out of range"
        rest = rest[found.end() :]
    if rest:
        return f"parsing time {quoted}: extra text: {go_quote(rest)}"
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    # The calendar repeats every 400 years; Python has no year 0.
    last = monthrange(year or 400, month)[1]
    return None if 1 <= day <= last else f"parsing time {quoted}: day out of range"


_GO_TYPES = {
    "string": "string",
    "boolean": "bool",
    "number": "float64",
    "bytes": "[]uint8",
    "time": "v1.Time",
    "quantity": "resource.Quantity",
    "int-or-string": "intstr.IntOrString",
    "any": "runtime.RawExtension",
}
# Go parses these with their own functions, whose first error ends decoding.
_IMMEDIATE = frozenset({"time", "quantity", "int-or-string"})
_GO_KINDS = {str: "string", bool: "bool", int: "int64", float: "float64", dict: "map", list: "slice"}
# Go could convert these types, but JSON decoding rejects them.
_NEARLY_FIT = {("int64", "string"), ("float64", "int32"), ("float64", "int64")}
_NO_FIELD = re.compile(r"Go struct field \S+")
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")
_NUMBERS = (int, float)


def fatal_error(document: Any, definition: str, findings: Sequence[StrictDecodingError]) -> str | None:
    """Go's message for the first value of the wrong type; None if there is none."""
    places = [_place(document, definition, found.path) for found in findings if not found.at_key]
    first = next((place for place in places if place.field.type in _IMMEDIATE), places[0] if places else None)
    return None if first is None else first.message()


def conversion_error(document: Any, definition: str, findings: Sequence[StrictDecodingError]) -> str | None:
    """Like `fatal_error`, for the result of a strategic merge, which Go converts value by value."""
    first = next((found for found in findings if not found.at_key), None)
    return None if first is None else _place(document, definition, first.path).unconvertible()


def unknown_fields(findings: Sequence[StrictDecodingError]) -> list[str]:
    """Go's messages for unknown fields, in the order of the document."""
    return [f'unknown field "{path_text(found.path)}"' for found in findings if found.at_key]


def path_text(path: Path) -> str:
    """The path as text: `spec.containers[0].image`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


class _FieldPosition(NamedTuple):
    """A value, its field, and Go's name for the field: the innermost struct and the path within it."""

    value: Any
    field: Field
    name: str
    struct: str
    stack: tuple[str, ...]

    def message(self) -> str:
        value, kind = self.value, self.field.type
        if kind == "bytes" and type(value) is str:
            return f"illegal base64 data at input byte {_bad_base64(value)}"
        if kind == "time" and type(value) is str:
            # A text that Go would accept and we do not is reported from its start.
            return time_error(value, micro=self.name in MICRO_TIME_FIELDS) or f"parsing time {go_quote(value)}"
        if kind == "quantity":
            return _quantity_error(value)
        if kind == "time":
            return self._unfit("string")
        return self._unfit("int32" if kind == "int-or-string" else _go_type(self.field, self.name))

    def unconvertible(self) -> str:
        value, kind = self.value, self.field.type
        if kind in _IMMEDIATE:
            return _NO_FIELD.sub("Go value", self.message())
        if kind == "bytes" and type(value) is str:
            return f"error decoding from json: {self.message()}"
        shown = _GO_KINDS[type(value)]
        match kind:
            case "ref":
                return f"cannot restore struct from: {shown}"
            case "map":
                return f"cannot restore map from {shown}"
            case "array" | "bytes":
                return f"cannot restore slice from {shown}"
        wanted = _go_type(self.field, self.name)
        if (shown, wanted) in _NEARLY_FIT:
            return f"cannot convert {shown} to {wanted}"
        return f"unrecognized type: {wanted}"

    def _unfit(self, go_type: str) -> str:
        shown = _shown(self.value)
        if type(self.value) in _NUMBERS and go_type in {"int32", "int64", "float64"}:
            shown = f"number {go_json(self.value)}"
        return f"json: cannot unmarshal {shown} into Go struct field {self.struct}.{'.'.join(self.stack)} of type {go_type}"


def _place(document: Any, definition: str, path: Path) -> _FieldPosition:
    """Follows a path through a document and its definition. List indices and map keys are not fields in Go's names."""
    known = definitions()[definition]
    struct = definition.rpartition(".")[2]
    place = _FieldPosition(document, Field("ref", definition), "", struct, ())
    for step in path:
        value = place.value[step]
        if place.field.type == "ref":
            known = definitions()[place.field.ref]
            struct = place.field.ref.rpartition(".")[2]
            place = _FieldPosition(value, known.fields[str(step)], str(step), struct, (*place.stack, str(step)))
        else:
            assert place.field.items is not None
            place = place._replace(value=value, field=place.field.items)
    return place


def _go_type(field: Field, name: str) -> str:
    match field.type:
        case "integer":
            return "int64" if name in WIDE_INTEGERS else "int32"
        case "ref":
            return f"v1.{field.ref.rpartition('.')[2]}"
        case "array":
            assert field.items is not None
            return f"[]{_go_type(field.items, name)}"
        case "map":
            assert field.items is not None
            return f"map[string]{_go_type(field.items, name)}"
        case kind:
            return _GO_TYPES[kind]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, _NUMBERS):
        return "number"
    return "string" if isinstance(value, str) else "object" if isinstance(value, dict) else "array"


def _bad_base64(text: str) -> int:
    """Where Go's base64 decoder stops: at the first invalid character, or at the incomplete last group of four."""
    strange = _NOT_BASE64.search(text.rstrip("=") if len(text) % 4 == 0 else text)
    return strange.start() if strange else len(text) // 4 * 4


def _quantity_error(value: Any) -> str:
    try:
        parse_quantity(value if isinstance(value, str) else "x")
    except QuantityError as error:
        return str(error)
    return ""
