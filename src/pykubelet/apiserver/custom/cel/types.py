"""The types of CEL, how complaints name them, and the signatures of functions.

In a signature `list<A>` is a list of anything, `(string).size() -> int` a function called on a text.

Upstream: common/types/types.go and checker/format.go of github.com/google/cel-go
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Type:
    """A type; `kind` is its name for those of CEL itself, else `object`, `param` or `optional`."""

    kind: str
    name: str
    params: tuple["Type", ...] = ()
    fields: Mapping[str, "Type"] = field(default_factory=dict, compare=False, repr=False)
    """Of an object. Types of objects are told apart by their names."""

    def __str__(self) -> str:
        if self.kind == "null_type":
            return "null"
        return f"{self.name}({', '.join(map(str, self.params))})" if self.params else self.name


def _simple(name: str) -> Type:
    return Type(name, name)


BOOL = _simple("bool")
INT = _simple("int")
UINT = _simple("uint")
DOUBLE = _simple("double")
STRING = _simple("string")
BYTES = _simple("bytes")
NULL = _simple("null_type")
DYN = _simple("dyn")
ERROR = Type("error", "!error!")
TIMESTAMP = _simple("timestamp")
DURATION = _simple("duration")
TYPE = _simple("type")
OBJECTS = {
    name: Type("object", name)
    for name in (
        "kubernetes.URL",
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.NamedFormat",
        "net.IP",
        "net.CIDR",
    )
}
_SIMPLE = {each.name: each for each in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, DYN, TIMESTAMP, DURATION, TYPE)}


def list_of(item: Type) -> Type:
    """The type of lists of items."""
    return Type("list", "list", (item,))


def map_of(key: Type, value: Type) -> Type:
    """The type of maps."""
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    """The type of what may have no value."""
    return Type("optional", "optional_type", (value,))


def type_of(value: Type) -> Type:
    """The type of a type."""
    return Type("type", "type", (value,))


def object_type(name: str, fields: Mapping[str, Type]) -> Type:
    """The type of objects with these fields."""
    return Type("object", name, fields=fields)


def param(name: str) -> Type:
    """A type that is to be found out."""
    return Type("param", name)


TYPE_NAMES: dict[str, Type] = {
    **{each.name: each for each in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, TYPE)},
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "optional_type": optional_of(DYN),
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
    "net.IP": OBJECTS["net.IP"],
    "net.CIDR": OBJECTS["net.CIDR"],
}
"""The types that an expression can name."""


class Signature(NamedTuple):
    """What a function takes and gives; the first argument of a member is what it is called on."""

    name: str
    is_member: bool
    args: tuple[Type, ...]
    result: Type


_SIGNATURE = re.compile(r"(?:\((?P<on>[^()]+)\)\.)?(?P<name>[^()]+)\((?P<args>[^()]*)\) -> (?P<result>.+)")
_PIECE = re.compile(r"[\w.]+|[<>,]")


def signature(text: str) -> Signature:
    """The signature that a text states."""
    match = _SIGNATURE.fullmatch(text)
    assert match is not None, text
    args = _types(f"{match['on']},{match['args']}" if match["on"] else match["args"])
    return Signature(match["name"], bool(match["on"]), tuple(args), _types(match["result"])[0])


def _types(text: str) -> list[Type]:
    pieces = _PIECE.findall(text)
    pieces.reverse()
    return _read_types(pieces)


def _read_types(pieces: list[str]) -> list[Type]:
    found: list[Type] = []
    while pieces:
        name = pieces.pop()
        if name == ">":
            break
        if name == ",":
            continue
        inner: Sequence[Type] = ()
        if pieces and pieces[-1] == "<":
            pieces.pop()
            inner = _read_types(pieces)
        found.append(_named(name, inner))
    return found


def _named(name: str, inner: Sequence[Type]) -> Type:
    match name:
        case "list":
            return list_of(*inner)
        case "map":
            return map_of(*inner)
        case "optional":
            return optional_of(*inner)
        case "type":
            return type_of(*inner)
    if name in OBJECTS:
        return OBJECTS[name]
    return _SIMPLE[name] if name in _SIMPLE else param(name)
