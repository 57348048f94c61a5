"""Whether one type will do for another, and what that says of types that are to be found out.

In: two types and what is known of parameters so far. Out: what is known then, or None if the types do not fit.

Upstream: checker/types.go of github.com/google/cel-go
"""

from collections.abc import Mapping, Sequence

from pykubelet.apiserver.custom.cel.types import DYN, Type

Bindings = dict[str, Type]
_NULLABLE = frozenset({"object", "optional", "timestamp", "duration"})
_WITH_PARAMS = frozenset({"list", "map", "optional"})


def is_loose(given: Type) -> bool:
    """Whether nothing is known of a type, or nothing can be."""
    return given.kind in {"dyn", "error"}


def assigned(known: Mapping[str, Type], left: Sequence[Type], right: Sequence[Type]) -> Bindings | None:
    """What is known of parameters if each type on the left fits the one on the right."""
    bindings = dict(known)
    return bindings if _fit_all(bindings, left, right) else None


def substituted(known: Mapping[str, Type], given: Type, *, unknown_as_dyn: bool = False) -> Type:
    """The type with what is known put in."""
    if given.kind == "param":
        if given.name in known:
            return substituted(known, known[given.name], unknown_as_dyn=unknown_as_dyn)
        return DYN if unknown_as_dyn else given
    if not given.params:
        return given
    params = tuple(substituted(known, each, unknown_as_dyn=unknown_as_dyn) for each in given.params)
    return Type(given.kind, given.name, params)


def most_general(first: Type, second: Type) -> Type:
    """Of two types that fit each other, the one that says less."""
    return first if _says_no_more(first, second) else second


def _fit_all(bindings: Bindings, left: Sequence[Type], right: Sequence[Type]) -> bool:
    return len(left) == len(right) and all(_fit(bindings, *pair) for pair in zip(left, right, strict=True))


def _fit(bindings: Bindings, left: Type, right: Type) -> bool:
    if right.kind == "param":
        fits, was_known = _bind(bindings, left, right)
        if fits or was_known:
            return fits
    if left.kind == "param":
        return _bind(bindings, right, left)[0]
    if is_loose(left) or is_loose(right):
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
    """Whether a parameter can be this type, and whether something was known of it before."""
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


def _says_no_more(first: Type, second: Type) -> bool:
    if first.kind in {"dyn", "param"}:
        return True
    if second.kind in {"dyn", "param"} or first.kind != second.kind:
        return False
    if first.kind in _WITH_PARAMS:
        pairs = zip(first.params, second.params, strict=True)
        return first.name == second.name and all(_says_no_more(*pair) for pair in pairs)
    return first.kind == "type" or first == second
