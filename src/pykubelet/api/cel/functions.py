"""The function table of CEL: signatures and implementations of all libraries.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/environment/base.go
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pykubelet.api.cel.library import (
    authz,
    conversions,
    lists,
    networks,
    operators,
    quantity,
    semver,
    strings,
    times,
)
from pykubelet.api.cel.types import RUNTIME_NAMES, Signature, Type, signature
from pykubelet.api.cel.values import CelError, kind_of, no_such_overload

_ANY = frozenset({"dyn", "param"})


class Overload(NamedTuple):
    """One overload of a function."""

    signature: Signature
    compute: Callable[..., Any]

    def takes(self, values: Sequence[Any]) -> bool:
        return all(map(_is_taken, self.signature.args, values))


def _is_taken(wanted: Type, value: Any) -> bool:
    if wanted.kind in _ANY:
        return True
    if RUNTIME_NAMES.get(wanted.name, wanted.name) != kind_of(type(value)):
        return False
    # The first item stands for all; nested lists are left to the function.
    is_typed = wanted.kind == "list" and wanted.params[0].kind != "list" and value
    return _is_taken(wanted.params[0], value[0]) if is_typed else True


def _table() -> dict[str, list[Overload]]:
    libraries = (
        operators.OVERLOADS,
        conversions.OVERLOADS,
        strings.OVERLOADS,
        lists.OVERLOADS,
        times.OVERLOADS,
        operators.OPTIONAL_OVERLOADS,
        networks.URL_OVERLOADS,
        quantity.OVERLOADS,
        networks.OVERLOADS,
        strings.FORMAT_OVERLOADS,
        semver.OVERLOADS,
        authz.OVERLOADS,
    )
    found: dict[str, list[Overload]] = {}
    for library in libraries:
        for text, compute in library:
            read = signature(text)
            found.setdefault(read.name, []).append(Overload(read, compute))
    # The interpreter implements these itself; they are declared for the checker.
    for text in (
        "_==_(A, A) -> bool",
        "_!=_(A, A) -> bool",
        "@in(A, list<A>) -> bool",
        "@in(A, map<A, B>) -> bool",
        "_?_:_(bool, A, A) -> A",
        "(optional<V>).or(optional<V>) -> optional<V>",
        "(optional<V>).orValue(V) -> V",
    ):
        read = signature(text)
        found.setdefault(read.name, []).append(Overload(read, _never))
    return found


def _never(*_args: Any) -> Any:
    raise AssertionError("evaluated by the compiler")


FUNCTIONS = _table()


def resolve_overload(name: str, candidates: Sequence[Overload], values: Sequence[Any]) -> Callable[..., Any]:
    """Selects the implementation for these values; raises CelError if there is none."""
    for each in candidates:
        if each.takes(values):
            return each.compute
    raise _refusal(name, values)


def _refusal(name: str, values: Sequence[Any]) -> CelError:
    if "_" not in name:
        return no_such_overload(f"{name}({', '.join(kind_of(type(each)) for each in values)})")
    # An operator with a known left operand reports the right one in a shorter message.
    is_known = any(_is_taken(each.signature.args[0], values[0]) for each in FUNCTIONS[name])
    return no_such_overload("" if is_known else name)
