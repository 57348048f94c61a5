"""Type conversions: `int('12')`, `string(1.5)`, `type(x)`.

Upstream: vendor/github.com/google/cel-go/common/stdlib/standard.go,
vendor/github.com/google/cel-go/common/types/int.go, vendor/github.com/google/cel-go/common/types/string.go
"""

import math
import re
from collections.abc import Callable
from typing import Any

from pykubelet.api.cel.library import times
from pykubelet.api.cel.types import DYN, OBJECTS, TYPE_NAMES, Type
from pykubelet.api.cel.values import (
    MAX_UINT64,
    NANOSECONDS,
    CelError,
    Duration,
    Timestamp,
    Uint,
    int64,
    kind_of,
    uint64,
)
from pykubelet.api.go_print import float_text
from pykubelet.api.quantity import MAX_INT64, MIN_INT64, parse_int64

_UINT = re.compile("0*([0-9]{1,20})", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE)
_TRUTH = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def _failed(source: str, target: str) -> CelError:
    return CelError(f"type conversion error from '{source}' to '{target}'")


def _bool_of_text(text: str) -> bool:
    if text not in _TRUTH:
        raise _failed("string", "bool")
    return _TRUTH[text]


def _int_of_text(text: str) -> int:
    number = parse_int64(text)
    if number is None:
        raise _failed("string", "int")
    return number


def _uint_of_text(text: str) -> Uint:
    match = _UINT.fullmatch(text)
    if match is None or int(match[1]) > MAX_UINT64:
        raise _failed("string", "uint")
    return Uint(match[1])


def _double_of_text(text: str) -> float:
    if _DOUBLE.fullmatch(text) is None:
        raise _failed("string", "double")
    number = float(text)
    if math.isinf(number) and text.lstrip("+-")[0].isdigit():
        raise _failed("string", "double")
    return number


def _int_of_double(number: float) -> int:
    if not MIN_INT64 < number < MAX_INT64:
        raise CelError("integer overflow")
    return int(number)


def _uint_of_double(number: float) -> Uint:
    if not 0 <= number < MAX_UINT64:
        raise CelError("unsigned integer overflow")
    return Uint(number)


def _duration_of_text(text: str) -> Duration:
    try:
        return times.read_duration(text)
    except ValueError:
        raise _failed("string", "google.protobuf.Duration") from None


def _timestamp_of_text(text: str) -> Timestamp:
    try:
        return times.read_timestamp(text)
    except times.TimeRangeError:
        raise CelError("timestamp overflow") from None
    except ValueError:
        raise _failed("string", "google.protobuf.Timestamp") from None


def _timestamp_of_int(seconds: int) -> Timestamp:
    if not times.MIN_SECONDS <= seconds <= times.MAX_SECONDS:
        raise CelError("timestamp overflow")
    return Timestamp(seconds * NANOSECONDS)


def _no_duration(_number: int) -> Duration:
    raise _failed("int", "google.protobuf.Duration")


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def double_text(number: float) -> str:
    """Formats a double like Go's `%g`."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return float_text(number)


def type_value(value: Any) -> Type:
    """Returns the type of a value as a CEL value."""
    name = kind_of(type(value))
    return TYPE_NAMES.get(name) or OBJECTS.get(name) or DYN


def _same(value: Any) -> Any:
    return value


OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("type(A) -> type<A>", type_value),
    ("dyn(A) -> dyn", _same),
    ("bool(bool) -> bool", _same),
    ("bool(string) -> bool", _bool_of_text),
    ("bytes(bytes) -> bytes", _same),
    ("bytes(string) -> bytes", lambda text: text.encode(errors="replace")),
    ("double(double) -> double", _same),
    ("double(int) -> double", float),
    ("double(string) -> double", _double_of_text),
    ("double(uint) -> double", float),
    ("duration(duration) -> duration", _same),
    ("duration(int) -> duration", _no_duration),
    ("duration(string) -> duration", _duration_of_text),
    ("int(int) -> int", _same),
    ("int(double) -> int", _int_of_double),
    ("int(duration) -> int", lambda value: value.nanoseconds),
    ("int(string) -> int", _int_of_text),
    ("int(timestamp) -> int", lambda value: value.nanoseconds // NANOSECONDS),
    ("int(uint) -> int", lambda number: int64(int(number))),
    ("string(string) -> string", _same),
    ("string(bool) -> string", lambda value: "true" if value else "false"),
    ("string(bytes) -> string", _text_of_bytes),
    ("string(double) -> string", double_text),
    ("string(duration) -> string", times.duration_text),
    ("string(int) -> string", str),
    ("string(timestamp) -> string", times.timestamp_text),
    ("string(uint) -> string", str),
    ("timestamp(timestamp) -> timestamp", _same),
    ("timestamp(int) -> timestamp", _timestamp_of_int),
    ("timestamp(string) -> timestamp", _timestamp_of_text),
    ("uint(uint) -> uint", _same),
    ("uint(double) -> uint", _uint_of_double),
    ("uint(int) -> uint", uint64),
    ("uint(string) -> uint", _uint_of_text),
)
