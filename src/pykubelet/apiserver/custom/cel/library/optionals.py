"""Values that may be none.

`or` and `orValue` are evaluated elsewhere: what they need not look at they do not.

Upstream: cel/library.go (OptionalTypes) of github.com/google/cel-go
"""

from collections.abc import Callable
from typing import Any

from pykubelet.apiserver.custom.cel.faults import CelError
from pykubelet.apiserver.custom.cel.time_texts import MIN_SECONDS
from pykubelet.apiserver.custom.cel.values import NANOSECONDS, NONE, Duration, Optional, Timestamp, Uint

_ZEROS: tuple[Any, ...] = (None, False, 0, Uint(0), 0.0, "", b"", Duration(0), Timestamp(MIN_SECONDS * NANOSECONDS))


def _unless_zero(value: Any) -> Optional:
    # Lists and objects of a document count as values even if they are empty.
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


OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
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
