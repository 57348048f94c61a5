"""The values that expressions compute with: what they are, when they are equal, which comes first.

Numbers, texts, bytes and truth are Python's own, with a type for unsigned numbers; so are lists and maps that an
expression makes. Objects and lists out of a document are in `documents`.

Upstream: common/types of github.com/google/cel-go

What is wrong with an expression, and what goes wrong when it is evaluated.

Upstream: common/error.go, common/errors.go and common/types/err.go of github.com/google/cel-go
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pykubelet.api.int64 import MAX_INT64, MIN_INT64
from pykubelet.apiserver.apiextensions.cel.types import Type


class CelError(Exception):
    """An evaluation failed; the message is cel-go's. `&&` and `||` can do without the failed side."""

    @property
    def message(self) -> str:
        """What went wrong."""
        return str(self.args[0])


class OutOfBudgetError(Exception):
    """An evaluation takes more steps than it may: no operator absorbs this."""


class Issue(NamedTuple):
    """One complaint about an expression."""

    at: int
    """Which character it is about; negative if none in particular."""
    message: str


class ExpressionError(ValueError):
    """An expression that cannot be compiled; the message shows where, as cel-go does."""

    def __init__(self, source: str, issues: Iterable[Issue]) -> None:
        self.issues = sorted(issues, key=lambda issue: issue.at)
        super().__init__("\n".join(_shown(source, issue) for issue in self.issues))


def no_such_overload(what: str = "") -> CelError:
    """Nothing takes these arguments."""
    return CelError(f"no such overload: {what}" if what else "no such overload")


def _shown(source: str, issue: Issue) -> str:
    if issue.at < 0:
        return f"ERROR: <input>:-1:0: {issue.message}"
    before = source[: issue.at]
    start = before.rfind("\n") + 1
    line, column = before.count("\n") + 1, issue.at - start
    snippet = source[start:].partition("\n")[0].replace("\t", " ")
    # Characters beyond ASCII are taken for wide ones, and so are the marks below them.
    dots = "".join("." if char.isascii() else "\uff0e" for char in snippet[:column])
    mark = "^" if snippet[column : column + 1].isascii() else "\uff3e"
    return f"ERROR: <input>:{line}:{column + 1}: {issue.message}\n | {snippet}\n | {dots}{mark}"


MAX_UINT64 = 2**64 - 1
MISSING: Final = object()
"""What looking for a key gives if there is none."""
NANOSECONDS = 1_000_000_000
Frame = list[Any]
"""What an evaluation works on: first how many steps it may still take, then its variables."""


class Uint(int):
    """An unsigned number of 64 bits."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time."""

    nanoseconds: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment; texts of it show the zone it was given in."""

    nanoseconds: int
    """Since 1970."""
    offset_seconds: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Optional:
    """A value, or none."""

    value: Any = MISSING

    @property
    def has_value(self) -> bool:
        """Whether there is a value."""
        return self.value is not MISSING


NONE: Final = Optional()


_KINDS: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
    Type: "type",
}
_ORDERED = frozenset({bool, str, bytes, Duration, Timestamp})
_NUMBERS = frozenset({int, Uint, float})


def add_kind(cls: type, name: str) -> None:
    """Make a class of values known by the name of its type."""
    _KINDS[cls] = name


def kind_of(cls: type) -> str:
    """The name of the type of values of a class."""
    return _KINDS[cls]


def is_map(value: Any) -> bool:
    """Whether a value is a map, or an object of a document."""
    return _KINDS[type(value)] == "map"


def spend(frame: Frame, steps: int) -> None:
    """Take steps off what an evaluation may take."""
    frame[0] -= steps
    if frame[0] < 0:
        raise OutOfBudgetError


def int64(number: int) -> int:
    """The number if it fits into 64 bits."""
    if MIN_INT64 <= number <= MAX_INT64:
        return number
    raise CelError("integer overflow")


def uint64(number: int) -> Uint:
    """The number if it fits into 64 bits without a sign."""
    if 0 <= number <= MAX_UINT64:
        return Uint(number)
    raise CelError("unsigned integer overflow")


def find(value: Any, key: Any) -> Any:
    """What a map has for a key, or MISSING."""
    if type(value) is not dict:
        return value.find(key)
    if type(key) is bool and not any(type(each) is bool for each in value):
        # To Python true is 1.
        return MISSING
    try:
        return value.get(key, MISSING)
    except TypeError:
        raise no_such_overload() from None


def items(value: Any) -> Iterable[tuple[Any, Any]]:
    """The keys of a map, or the places of a list, with what is there."""
    if isinstance(value, list):
        return enumerate(value)
    if type(value) is dict:
        return list(value.items())
    return [(key, _found(value, key)) for key in value]


def _found(value: Any, key: Any) -> Any:
    found = value.find(key)
    if found is MISSING:
        # A null has a key but is not there.
        raise CelError(f"no such key: {key}")
    return found


def each(value: Any) -> Iterable[Any]:
    """The items of a list, or the keys of a map."""
    if isinstance(value, list):
        return value
    if is_map(value):
        return list(value)
    raise no_such_overload()


def equal(left: Any, right: Any, frame: Frame | None = None) -> bool:
    """Whether two values are equal; values of different types are not, but for numbers. A frame pays for looking."""
    mine, other = type(left), type(right)
    if mine in _NUMBERS and other in _NUMBERS:
        return _compared_numbers(left, right) == 0 if float in (mine, other) else bool(left == right)
    if frame is not None:
        spend(frame, 1)
    if isinstance(left, list):
        return isinstance(right, list) and _equal_lists(left, right, frame)
    if _KINDS[mine] == "map" == _KINDS[other]:
        return _equal_maps(left, right, frame)
    if mine is Optional and other is Optional and left.has_value and right.has_value:
        return equal(left.value, right.value, frame)
    return mine is other and bool(left == right)


def _equal_lists(left: Any, right: list[Any], frame: Frame | None) -> bool:
    if type(left) is not list:
        # One of a document has an equality of its own.
        return bool(left.equals(right, frame))
    return len(left) == len(right) and all(equal(mine, other, frame) for mine, other in zip(left, right, strict=True))


def _equal_maps(left: Any, right: Any, frame: Frame | None) -> bool:
    if type(left) is not dict:
        return bool(left.equals(right, frame))
    if len(left) != len(right):
        return False
    for key, mine in left.items():
        other = find(right, key)
        if other is MISSING or not equal(mine, other, frame):
            return False
    return True


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1 as the left value is less, equal or greater; CelError if there is no order between them."""
    mine, other = type(left), type(right)
    if mine in _NUMBERS and other in _NUMBERS:
        if math.isnan(left) or math.isnan(right):
            raise CelError("NaN values cannot be ordered")
        return _compared_numbers(left, right)
    if mine is not other or mine not in _ORDERED:
        raise no_such_overload()
    return int(left > right) - int(left < right)


def _compared_numbers(left: float, right: float) -> int:
    if type(left) is float or type(right) is float:
        # As upstream: near each other, whole numbers are compared as the doubles they round to.
        if math.isnan(left) or math.isnan(right):
            return 1
        left, right = float(left), float(right)
    return int(left > right) - int(left < right)
