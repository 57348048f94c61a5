"""Types of CEL, their names in messages, function signatures and type unification.

Signatures are written as text: `list<A>` is a list of any type, `(string).size() -> int` a member function.

Upstream: vendor/github.com/google/cel-go/common/types/types.go, vendor/github.com/google/cel-go/checker/format.go,
vendor/github.com/google/cel-go/checker/types.go
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Type:
    """A type; `kind` is the name of a built-in type, or `object`, `param` or `optional`."""

    kind: str
    name: str
    params: tuple["Type", ...] = ()
    fields: Mapping[str, "Type"] = field(default_factory=dict, compare=False, repr=False)
    """Fields of an object type. Object types are identified by name."""

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
        "kubernetes.authorization.Authorizer",
        "kubernetes.authorization.PathCheck",
        "kubernetes.authorization.GroupCheck",
        "kubernetes.authorization.ResourceCheck",
        "kubernetes.authorization.Decision",
    )
}
_SIMPLE = {each.name: each for each in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, DYN, TIMESTAMP, DURATION, TYPE)}


def list_of(item: Type) -> Type:
    return Type("list", "list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional", "optional_type", (value,))


def type_of(value: Type) -> Type:
    return Type("type", "type", (value,))


def object_type(name: str, fields: Mapping[str, Type]) -> Type:
    return Type("object", name, fields=fields)


def param(name: str) -> Type:
    """Creates a type parameter, resolved by unification."""
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
    """Argument and result types of a function; the first argument of a member is the receiver."""

    name: str
    is_member: bool
    args: tuple[Type, ...]
    result: Type


_SIGNATURE = re.compile(r"(?:\((?P<on>[^()]+)\)\.)?(?P<name>[^()]+)\((?P<args>[^()]*)\) -> (?P<result>.+)")
_PIECE = re.compile(r"[\w.]+|[<>,]")


def signature(text: str) -> Signature:
    """Parses a signature such as `(string).size() -> int`."""
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


Bindings = dict[str, Type]
RUNTIME_NAMES = {"timestamp": "google.protobuf.Timestamp", "duration": "google.protobuf.Duration"}
_NULLABLE = frozenset({"object", "optional", "timestamp", "duration"})
_WITH_PARAMS = frozenset({"list", "map", "optional"})


def runtime_name(given: Type) -> str:
    """The name of a type at run time, as Go prints it."""
    name = RUNTIME_NAMES.get(given.name, given.name)
    return f"{name}({', '.join(map(runtime_name, given.params))})" if given.params else name


def is_dyn_or_error(given: Type) -> bool:
    """Whether the type is dyn, an error or otherwise unknown."""
    return given.kind in {"dyn", "error"}


def unify(known: Mapping[str, Type], left: Sequence[Type], right: Sequence[Type]) -> Bindings | None:
    """Unifies two lists of types; returns the extended bindings, or None if they do not match."""
    bindings = dict(known)
    return bindings if _fit_all(bindings, left, right) else None


def substitute(known: Mapping[str, Type], given: Type, *, unknown_as_dyn: bool = False) -> Type:
    """Substitutes type parameters by their bindings."""
    if given.kind == "param":
        if given.name in known:
            return substitute(known, known[given.name], unknown_as_dyn=unknown_as_dyn)
        return DYN if unknown_as_dyn else given
    if not given.params:
        return given
    params = tuple(substitute(known, each, unknown_as_dyn=unknown_as_dyn) for each in given.params)
    return Type(given.kind, given.name, params)


def most_general(first: Type, second: Type) -> Type:
    """Returns the more general of two matching types."""
    return first if _is_at_least_as_general(first, second) else second


def _fit_all(bindings: Bindings, left: Sequence[Type], right: Sequence[Type]) -> bool:
    return len(left) == len(right) and all(_fit(bindings, *pair) for pair in zip(left, right, strict=True))


def _fit(bindings: Bindings, left: Type, right: Type) -> bool:
    if right.kind == "param":
        fits, was_known = _bind(bindings, left, right)
        if fits or was_known:
            return fits
    if left.kind == "param":
        return _bind(bindings, right, left)[0]
    if is_dyn_or_error(left) or is_dyn_or_error(right):
        return True
    if "null_type" in {left.kind, right.kind}:
        other = right if left.kind == "null_type" else left
        return other.kind in _NULLABLE or other.kind == "null_type"
    if left.kind == "type":
        return right.kind == "type"
    if left.kind in _WITH_PARAMS:
        return left.name == right.name and _fit_all(bindings, left.params, right.params)
    return left == right


def _bind(bindings: Bindings, given: Type, parameter: Type) -> tuple[bool, bool]:
    """Binds a parameter to a type, if that is consistent with an earlier binding."""
    if given == parameter:
        return True, True
    known = bindings.get(parameter.name)
    if known is not None:
        if given == known:
            return True, True
        if not _fit(bindings, given, known):
            return False, True
        general = most_general(given, known)
        if not _occurs(bindings, parameter, general):
            bindings[parameter.name] = general
        return True, True
    if _occurs(bindings, parameter, given):
        return False, False
    bindings[parameter.name] = given
    return True, False


def _occurs(bindings: Bindings, parameter: Type, within: Type) -> bool:
    if within == parameter:
        return True
    if within.kind == "param":
        return within.name in bindings and _occurs(bindings, parameter, bindings[within.name])
    return any(_occurs(bindings, parameter, each) for each in within.params)


def _is_at_least_as_general(first: Type, second: Type) -> bool:
    if first.kind in {"dyn", "param"}:
        return True
    if second.kind in {"dyn", "param"} or first.kind != second.kind:
        return False
    if first.kind in _WITH_PARAMS:
        pairs = zip(first.params, second.params, strict=True)
        return first.name == second.name and all(_is_at_least_as_general(*pair) for pair in pairs)
    return first.kind == "type" or first == second
