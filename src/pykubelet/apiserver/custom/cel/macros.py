"""Calls that are no calls: `has`, `all`, `map` and others say how their arguments are to be evaluated.

In: a function's name, target and arguments. Out: what it stands for, or None if the function is none of these.

Upstream: parser/macro.go, ext/comprehensions.go, cel/library.go (optMap) and ext/lists.go (sortBy) of
github.com/google/cel-go
"""

from collections.abc import Callable, Sequence

from pykubelet.apiserver.custom.cel.nodes import Bind, Call, Fold, FoldKind, Ident, Node, Select

_RESULT = "__result__"
_SORTED = "@sorted"
_KINDS = {
    "all": FoldKind.ALL,
    "exists": FoldKind.EXISTS,
    "exists_one": FoldKind.EXISTS_ONE,
    "existsOne": FoldKind.EXISTS_ONE,
    "map": FoldKind.LIST,
    "filter": FoldKind.LIST,
    "transformList": FoldKind.LIST,
    "transformMap": FoldKind.MAP,
    "transformMapEntry": FoldKind.MERGE,
}


class MacroError(ValueError):
    """The arguments of a macro are not what it needs."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at
        self.message = message


def expanded(function: str, target: Node | None, args: Sequence[Node], at: int) -> Node | None:
    """What a call of a macro stands for."""
    if target is None:
        return _has(args[0], at) if function == "has" and len(args) == 1 else None
    macro = _MACROS.get((function, len(args)))
    return None if macro is None else macro(function, target, args, at)


def _has(arg: Node, at: int) -> Node:
    if not isinstance(arg, Select) or arg.is_optional or arg.is_test:
        raise MacroError(arg.at, "invalid argument to has() macro")
    return Select(at, arg.operand, arg.field, is_test=True)


def _variable(node: Node, message: str = "argument must be a simple name") -> str:
    if not isinstance(node, Ident):
        raise MacroError(node.at, message)
    if node.name == _RESULT:
        raise MacroError(node.at, "iteration variable overwrites accumulator variable")
    return node.name


def _quantified(function: str, target: Node, args: Sequence[Node], at: int) -> Node:
    return Fold(at, _KINDS[function], target, _variable(args[0]), "", None, args[1])


def _mapped(_function: str, target: Node, args: Sequence[Node], at: int) -> Node:
    name = _variable(args[0], "argument is not an identifier")
    return Fold(at, FoldKind.LIST, target, name, "", args[1] if len(args) == 3 else None, args[-1])


def _filtered(_function: str, target: Node, args: Sequence[Node], at: int) -> Node:
    name = _variable(args[0], "argument is not an identifier")
    return Fold(at, FoldKind.LIST, target, name, "", args[1], args[0])


def _in_pairs(function: str, target: Node, args: Sequence[Node], at: int) -> Node:
    first, second = _variable(args[0]), _variable(args[1])
    if first == second:
        raise MacroError(args[1].at, f"duplicate variable name: {first}")
    return Fold(at, _KINDS[function], target, first, second, args[2] if len(args) == 4 else None, args[-1])


def _optional(function: str, target: Node, args: Sequence[Node], at: int) -> Node:
    name = _variable(args[0], f"{function}() variable name must be a simple identifier")
    value: Node = Bind(at, name, Call(at, "value", target, ()), args[1])
    if function == "optMap":
        value = Call(at, "optional.of", None, (value,))
    return Call(at, "_?_:_", None, (Call(at, "hasValue", target, ()), value, Call(at, "optional.none", None, ())))


def _sorted_by(_function: str, target: Node, args: Sequence[Node], at: int) -> Node:
    items = Ident(at, _SORTED)
    keys = _mapped("map", items, args, at)
    return Bind(at, _SORTED, target, Call(at, "@sortByAssociatedKeys", items, (keys,)))


_Macro = Callable[[str, Node, Sequence[Node], int], Node]
_MACROS: dict[tuple[str, int], _Macro] = {
    **{(name, 2): _quantified for name in ("all", "exists", "exists_one", "existsOne")},
    **{(name, 3): _in_pairs for name in ("all", "exists", "exists_one", "existsOne")},
    **{(name, count): _in_pairs for name in ("transformList", "transformMap", "transformMapEntry") for count in (3, 4)},
    ("map", 2): _mapped,
    ("map", 3): _mapped,
    ("filter", 2): _filtered,
    ("optMap", 2): _optional,
    ("optFlatMap", 2): _optional,
    ("sortBy", 2): _sorted_by,
}
