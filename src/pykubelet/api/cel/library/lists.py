"""Functions on lists and maps, and on lists as sets.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/lists.go, vendor/github.com/google/cel-go/ext/lists.go,
vendor/github.com/google/cel-go/ext/sets.go
"""

from collections.abc import Callable
from functools import cmp_to_key, reduce
from itertools import pairwise
from typing import Any

from pykubelet.api.cel.library import operators
from pykubelet.api.cel.values import (
    CelError,
    Duration,
    OutOfBudgetError,
    Uint,
    compare,
    equal,
    no_such_overload,
)

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ZEROS: dict[str, Any] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_ADD = {
    type(zero): next(add for text, add in operators.OVERLOADS if text.startswith(f"_+_({kind}, {kind})"))
    for kind, zero in _ZEROS.items()
}
_MAX_RANGE = 100_000


def _is_sorted(values: list[Any]) -> bool:
    return all(compare(one, next_one) <= 0 for one, next_one in pairwise(values))


def _added(total: Any, value: Any) -> Any:
    if type(total) is not type(value):
        raise no_such_overload()
    return _ADD[type(value)](total, value)


def _sum(zero: Any) -> Callable[[list[Any]], Any]:
    return lambda values: reduce(_added, values, zero)


def _first(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def found(values: list[Any]) -> Any:
        if not values:
            raise CelError(f"{name} called on empty list")
        return reduce(lambda best, value: value if compare(best, value) == sign else best, values)

    return found


def _index_of(values: list[Any], wanted: Any) -> int:
    return next((place for place, value in enumerate(values) if equal(value, wanted)), -1)


def _last_index_of(values: list[Any], wanted: Any) -> int:
    back = _index_of(values[::-1], wanted)
    return len(values) - 1 - back if back >= 0 else -1


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        raise CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flattened(values: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    flat: list[Any] = []
    for value in values:
        flat += _flattened(value, depth - 1) if isinstance(value, list) and depth else [value]
    return flat


def _sorted_by(values: list[Any], keys: list[Any]) -> list[Any]:
    if any(type(key) is not type(keys[0]) for key in keys):
        raise CelError("list elements must have the same type")
    order = cmp_to_key(compare)
    return [values[index] for index in sorted(range(len(values)), key=lambda index: order(keys[index]))]


def _range(count: int) -> list[int]:
    if count > _MAX_RANGE:
        raise OutOfBudgetError
    return list(range(count))


def _distinct(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not any(equal(value, other) for other in found):
            found.append(value)
    return found


def _contains(values: list[Any], others: list[Any]) -> bool:
    return all(any(equal(value, other) for value in values) for other in others)


def _intersects(values: list[Any], others: list[Any]) -> bool:
    return any(any(equal(value, other) for other in others) for value in values)


QUADRATIC = frozenset({"distinct", "sets.contains", "sets.equivalent", "sets.intersects"})
"""Functions that compare all pairs of items."""
OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
    *((f"size({kind}) -> int", len) for kind in ("string", "bytes", "list<A>", "map<A, B>")),
    *((f"({kind}).size() -> int", len) for kind in ("string", "bytes", "list<A>", "map<A, B>")),
    *((f"(list<{kind}>).isSorted() -> bool", _is_sorted) for kind in _COMPARABLE),
    *((f"(list<{kind}>).sum() -> {kind}", _sum(zero)) for kind, zero in _ZEROS.items()),
    *((f"(list<{kind}>).min() -> {kind}", _first("min", 1)) for kind in _COMPARABLE),
    *((f"(list<{kind}>).max() -> {kind}", _first("max", -1)) for kind in _COMPARABLE),
    ("(list<A>).indexOf(A) -> int", _index_of),
    ("(list<A>).lastIndexOf(A) -> int", _last_index_of),
    ("(list<T>).slice(int, int) -> list<T>", _slice),
    ("(list<list<T>>).flatten() -> list<T>", _flattened),
    ("(list<dyn>).flatten(int) -> list<dyn>", _flattened),
    *((f"(list<{kind}>).sort() -> list<{kind}>", lambda values: _sorted_by(values, values)) for kind in _COMPARABLE),
    *((f"(list<T>).@sortByAssociatedKeys(list<{kind}>) -> list<T>", _sorted_by) for kind in _COMPARABLE),
    ("lists.range(int) -> list<int>", _range),
    ("(list<T>).reverse() -> list<T>", lambda values: values[::-1]),
    ("(list<T>).distinct() -> list<T>", _distinct),
    ("sets.contains(list<T>, list<T>) -> bool", _contains),
    ("sets.equivalent(list<T>, list<T>) -> bool", lambda a, b: _contains(a, b) and _contains(b, a)),
    ("sets.intersects(list<T>, list<T>) -> bool", _intersects),
)
