"""Runtime values and errors of CEL: equality, order, lookup and step accounting.

Numbers, strings, bytes, booleans, lists and maps are Python's own, with a subclass for unsigned integers.
`unstructured` has the objects and lists of documents.

Upstream: vendor/github.com/google/cel-go/common/types/provider.go, vendor/github.com/google/cel-go/common/types/err.go,
vendor/github.com/google/cel-go/common/error.go, vendor/github.com/google/cel-go/common/errors.go
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pykubelet.api.cel.types import Type
from pykubelet.api.quantity import MAX_INT64, MIN_INT64


class CelError(Exception):
    """An evaluation failed, with cel-go's message. `&&` and `||` may absorb it."""

    @property
    def message(self) -> str:
        return str(self.args[0])


class OutOfBudgetError(Exception):
    """An evaluation exceeds its step budget; no operator absorbs this."""


class Issue(NamedTuple):
    """One error found while compiling an expression."""

    at: int
    """Offset of the character it refers to; negative if there is none."""
    message: str


class ExpressionError(ValueError):
    """The expression cannot be compiled; the message shows the position, as cel-go's does."""

    def __init__(self, source: str, issues: Iterable[Issue]) -> None:
        self.issues = sorted(issues, key=lambda issue: issue.at)
        super().__init__("\n".join(_shown(source, issue) for issue in self.issues))


def succeeds(read: Callable[..., Any]) -> Callable[..., bool]:
    """Returns a function that tells whether `read` accepts its arguments, for `isURL` and the like."""

    def check(*args: Any) -> bool:
        try:
            read(*args)
        except CelError:
            return False
        return True

    return check


def no_such_overload(what: str = "") -> CelError:
    """Creates the error for arguments that no overload accepts."""
    return CelError(f"no such overload: {what}" if what else "no such overload")


def _shown(source: str, issue: Issue) -> str:
    if issue.at < 0:
        return f"ERROR: <input>:-1:0: {issue.message}"
    before = source[: issue.at]
    start = before.rfind("\n") + 1
    line, column = before.count("\n") + 1, issue.at - start
    snippet = source[start:].partition("\n")[0].replace("\t", " ")
    # cel-go treats characters beyond ASCII as double-width, and so the marks below them.
    dots = "".join("." if char.isascii() else "\uff0e" for char in snippet[:column])
    mark = "^" if snippet[column : column + 1].isascii() else "\uff3e"
    return f"ERROR: <input>:{line}:{column + 1}: {issue.message}\n | {snippet}\n | {dots}{mark}"


MAX_UINT64 = 2**64 - 1
MISSING: Final = object()
"""The key does not exist."""
NANOSECONDS = 1_000_000_000
Frame = list[Any]
"""The state of an evaluation: the remaining steps, then the variables by position."""


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A duration in nanoseconds."""

    nanoseconds: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """An instant; its text shows the zone it was given in."""

    nanoseconds: int
    """Nanoseconds since 1970."""
    offset_seconds: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Optional:
    """An optional value: `value` is MISSING if there is none."""

    value: Any = MISSING

    @property
    def has_value(self) -> bool:
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
    """Registers a class of values under its CEL type name."""
    _KINDS[cls] = name


def kind_of(cls: type) -> str:
    """Returns the CEL type name of a class."""
    return _KINDS[cls]


def is_map(value: Any) -> bool:
    """Whether the value is a map or an object of a document."""
    return _KINDS[type(value)] == "map"


def spend_steps(frame: Frame, steps: int) -> None:
    """Deducts steps from the budget; raises OutOfBudgetError."""
    frame[0] -= steps
    if frame[0] < 0:
        raise OutOfBudgetError


def int64(number: int) -> int:
    """Returns the number; raises CelError if it overflows int64."""
    if MIN_INT64 <= number <= MAX_INT64:
        return number
    raise CelError("integer overflow")


def uint64(number: int) -> Uint:
    """Returns the number; raises CelError if it overflows uint64."""
    if 0 <= number <= MAX_UINT64:
        return Uint(number)
    raise CelError("unsigned integer overflow")


def lookup(value: Any, key: Any) -> Any:
    """Looks up a key of a map; returns MISSING if there is none."""
    if type(value) is not dict:
        return value.find(key)
    if type(key) is bool and not any(type(each) is bool for each in value):
        # Python treats True as 1.
        return MISSING
    try:
        return value.get(key, MISSING)
    except TypeError:
        raise no_such_overload() from None


def items(value: Any) -> Iterable[tuple[Any, Any]]:
    """Yields keys or indexes with their values."""
    if isinstance(value, list):
        return enumerate(value)
    if type(value) is dict:
        return list(value.items())
    return [(key, _found(value, key)) for key in value]


def _found(value: Any, key: Any) -> Any:
    found = value.find(key)
    if found is MISSING:
        # A null field counts as absent.
        raise CelError(f"no such key: {key}")
    return found


def elements(value: Any) -> Iterable[Any]:
    """Returns the items of a list, or the keys of a map."""
    if isinstance(value, list):
        return value
    if is_map(value):
        return list(value)
    raise no_such_overload()


def equal(left: Any, right: Any, frame: Frame | None = None) -> bool:
    """Whether two values are equal; across types only numbers can be. Deducts steps from `frame`."""
    mine, other = type(left), type(right)
    if mine in _NUMBERS and other in _NUMBERS:
        return _compared_numbers(left, right) == 0 if float in (mine, other) else bool(left == right)
    if frame is not None:
        spend_steps(frame, 1)
    if isinstance(left, list):
        return isinstance(right, list) and _equal_lists(left, right, frame)
    if _KINDS[mine] == "map" == _KINDS[other]:
        return _equal_maps(left, right, frame)
    if mine is Optional and other is Optional and left.has_value and right.has_value:
        return equal(left.value, right.value, frame)
    return mine is other and bool(left == right)


def _equal_lists(left: Any, right: list[Any], frame: Frame | None) -> bool:
    if type(left) is not list:
        # Lists of documents define their own equality.
        return bool(left.equals(right, frame))
    return len(left) == len(right) and all(equal(mine, other, frame) for mine, other in zip(left, right, strict=True))


def _equal_maps(left: Any, right: Any, frame: Frame | None) -> bool:
    if type(left) is not dict:
        return bool(left.equals(right, frame))
    if len(left) != len(right):
        return False
    for key, mine in left.items():
        other = lookup(right, key)
        if other is MISSING or not equal(mine, other, frame):
            return False
    return True


def compare(left: Any, right: Any) -> int:
    """Returns -1, 0 or 1; raises CelError if the values have no order."""
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
        # Like upstream, nearly equal integers compare as the doubles they round to.
        if math.isnan(left) or math.isnan(right):
            return 1
        left, right = float(left), float(right)
    return int(left > right) - int(left < right)
