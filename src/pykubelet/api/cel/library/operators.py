"""Operators on numbers, times and containers, and functions on optional values.

Arithmetic raises on 64-bit overflow. The interpreter evaluates `or` and `orValue` itself, lazily.

Upstream: vendor/github.com/google/cel-go/common/stdlib/standard.go,
vendor/github.com/google/cel-go/common/types/overflow.go, vendor/github.com/google/cel-go/cel/library.go
"""

import math
import operator
from collections.abc import Callable
from typing import Any

from pykubelet.api.cel.library.times import MAX_SECONDS, MIN_SECONDS
from pykubelet.api.cel.values import (
    MISSING,
    NANOSECONDS,
    NONE,
    CelError,
    Duration,
    Optional,
    Timestamp,
    Uint,
    compare,
    int64,
    is_map,
    kind_of,
    lookup,
    uint64,
)
from pykubelet.api.quantity import MAX_INT64, MIN_INT64

_NUMBERS = ("int", "uint", "double")
_COMPARABLE = ("int", "uint", "bool", "string", "bytes", "timestamp", "duration")
# Pairs of numeric types that Python orders differently from CEL: doubles may be unordered.
_MIXED = [(left, right) for left in _NUMBERS for right in _NUMBERS if left != right or left == "double"]


def _duration(nanoseconds: int) -> Duration:
    if MIN_INT64 <= nanoseconds <= MAX_INT64:
        return Duration(nanoseconds)
    raise CelError("duration overflow")


def _timestamp(nanoseconds: int, like: Timestamp) -> Timestamp:
    if MIN_SECONDS <= nanoseconds // NANOSECONDS <= MAX_SECONDS:
        return Timestamp(nanoseconds, like.offset_seconds)
    raise CelError("timestamp overflow")


def _later(moment: Timestamp, duration: Duration) -> Timestamp:
    return _timestamp(moment.nanoseconds + duration.nanoseconds, moment)


def _earlier(moment: Timestamp, duration: Duration) -> Timestamp:
    return _timestamp(moment.nanoseconds - duration.nanoseconds, moment)


def _plus(left: Any, right: list[Any]) -> Any:
    # Lists of documents define their own addition.
    return [*left, *right] if type(left) is list else left.plus(right)


def _divided(left: int, right: int) -> int:
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    return int64(quotient if (left < 0) == (right < 0) else -quotient)


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise CelError("modulus by zero")
    if left == MIN_INT64 and right == -1:
        raise CelError("integer overflow")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _divided_doubles(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def element(value: Any, index: Any) -> Any:
    """Returns a list item or map value; raises CelError if there is none."""
    if type(value) is Optional:
        return optional_element(value, index)
    found = _find(value, index)
    if found is not MISSING:
        return found
    shown = str(index).lower() if isinstance(index, bool) else index
    raise CelError(f"index out of bounds: {shown}" if isinstance(value, list) else f"no such key: {shown}")


def _find(value: Any, index: Any) -> Any:
    if is_map(value):
        return lookup(value, index)
    if not isinstance(value, list):
        return MISSING
    place = _place(index)
    return value[place] if 0 <= place < len(value) else MISSING


def _place(index: Any) -> int:
    if type(index) is float:
        if not index.is_integer():
            raise CelError(f"unsupported index value {index} in list")
        return int(index)
    if type(index) is int or type(index) is Uint:
        return int(index)
    raise CelError(f"unsupported index type '{kind_of(type(index))}' in list")


def optional_element(value: Any, index: Any) -> Optional:
    """Returns a list item or map value as an optional."""
    if isinstance(value, Optional):
        if not value.has_value:
            return NONE
        value = value.value
    return Optional(_find(value, index))


def _compared(accepts: Callable[[int, int], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: accepts(compare(left, right), 0)


_ORDERS = {"_<_": operator.lt, "_<=_": operator.le, "_>_": operator.gt, "_>=_": operator.ge}

OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("_+_(int, int) -> int", lambda a, b: int64(a + b)),
    ("_+_(uint, uint) -> uint", lambda a, b: uint64(a + b)),
    ("_+_(double, double) -> double", lambda a, b: a + b),
    ("_+_(string, string) -> string", lambda a, b: a + b),
    ("_+_(bytes, bytes) -> bytes", lambda a, b: a + b),
    ("_+_(list<A>, list<A>) -> list<A>", _plus),
    ("_+_(duration, duration) -> duration", lambda a, b: _duration(a.nanoseconds + b.nanoseconds)),
    ("_+_(duration, timestamp) -> timestamp", lambda a, b: _later(b, a)),
    ("_+_(timestamp, duration) -> timestamp", _later),
    ("_-_(int, int) -> int", lambda a, b: int64(a - b)),
    ("_-_(uint, uint) -> uint", lambda a, b: uint64(a - b)),
    ("_-_(double, double) -> double", lambda a, b: a - b),
    ("_-_(duration, duration) -> duration", lambda a, b: _duration(a.nanoseconds - b.nanoseconds)),
    ("_-_(timestamp, duration) -> timestamp", _earlier),
    ("_-_(timestamp, timestamp) -> duration", lambda a, b: _duration(a.nanoseconds - b.nanoseconds)),
    ("_*_(int, int) -> int", lambda a, b: int64(a * b)),
    ("_*_(uint, uint) -> uint", lambda a, b: uint64(a * b)),
    ("_*_(double, double) -> double", lambda a, b: a * b),
    ("_/_(int, int) -> int", _divided),
    ("_/_(uint, uint) -> uint", lambda a, b: Uint(_divided(a, b))),
    ("_/_(double, double) -> double", _divided_doubles),
    ("_%_(int, int) -> int", _remainder),
    ("_%_(uint, uint) -> uint", lambda a, b: Uint(_remainder(a, b))),
    ("-_(int) -> int", lambda a: int64(-a)),
    ("-_(double) -> double", lambda a: -a),
    ("!_(bool) -> bool", lambda a: not a),
    *((f"{name}({kind}, {kind}) -> bool", accepts) for name, accepts in _ORDERS.items() for kind in _COMPARABLE),
    *(
        (f"{name}({left}, {right}) -> bool", _compared(accepts))
        for name, accepts in _ORDERS.items()
        for left, right in _MIXED
    ),
    ("_[_](list<A>, int) -> A", element),
    ("_[_](map<A, B>, A) -> B", element),
    ("_[_](optional<list<V>>, int) -> optional<V>", element),
    ("_[_](optional<map<K, V>>, K) -> optional<V>", element),
    ("_[?_](list<V>, int) -> optional<V>", optional_element),
    ("_[?_](optional<list<V>>, int) -> optional<V>", optional_element),
    ("_[?_](map<K, V>, K) -> optional<V>", optional_element),
    ("_[?_](optional<map<K, V>>, K) -> optional<V>", optional_element),
)


_ZEROS: tuple[Any, ...] = (None, False, 0, Uint(0), 0.0, "", b"", Duration(0), Timestamp(MIN_SECONDS * NANOSECONDS))


def _unless_zero(value: Any) -> Optional:
    # Empty lists and objects of documents count as nonzero.
    is_zero = any(type(value) is type(zero) and value == zero for zero in _ZEROS)
    return NONE if is_zero or (type(value) in (list, dict) and not value) else Optional(value)


def _value(value: Optional) -> Any:
    if not value.has_value:
        raise CelError("optional.none() dereference")
    return value.value


def _unwrapped(values: list[Any]) -> list[Any]:
    for value in values:
        if not isinstance(value, Optional):
            raise CelError(f"value {value} is not optional")
    return [value.value for value in values if value.has_value]


OPTIONAL_OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("optional.of(V) -> optional<V>", Optional),
    ("optional.ofNonZeroValue(V) -> optional<V>", _unless_zero),
    ("optional.none() -> optional<V>", lambda: NONE),
    ("(optional<V>).value() -> V", _value),
    ("(optional<V>).hasValue() -> bool", lambda value: value.has_value),
    ("(list<V>).first() -> optional<V>", lambda values: Optional(values[0]) if values else NONE),
    ("(list<V>).last() -> optional<V>", lambda values: Optional(values[-1]) if values else NONE),
    ("optional.unwrap(list<optional<V>>) -> list<V>", _unwrapped),
    ("(list<optional<V>>).unwrapOpt() -> list<V>", _unwrapped),
)
