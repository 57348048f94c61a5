"""Checks the constants of a CEL expression at compile time: times, patterns, formats, uniform lists.

Upstream: vendor/github.com/google/cel-go/cel/validator.go, vendor/github.com/google/cel-go/ext/formatting.go
"""

from collections.abc import Callable, Iterator

from pykubelet.api.cel import ast
from pykubelet.api.cel.library.strings import WRONG_TYPES, parse_clauses
from pykubelet.api.cel.library.times import MAX_SECONDS, MIN_SECONDS, read_duration, read_timestamp
from pykubelet.api.cel.types import Type
from pykubelet.api.cel.values import CelError, Issue
from pykubelet.api.regexp.regexp import go_pattern
from pykubelet.api.regexp.syntax import PatternError

TypeOf = Callable[[ast.Expr], Type]
_FORMATTED = frozenset(
    {"list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null_type"}
)
_CLAUSE_KINDS = {
    "s": _FORMATTED,
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "X": frozenset({"int", "uint", "string", "bytes"}),
    "o": frozenset({"int", "uint"}),
}


def literal_issues(root: ast.Expr, type_of: TypeOf) -> list[Issue]:
    """Returns the problems of constants in a checked expression."""
    return list(_issues(root, type_of, is_exempt=False))


def _issues(node: ast.Expr, type_of: TypeOf, *, is_exempt: bool) -> Iterator[Issue]:
    if isinstance(node, ast.CallExpr):
        yield from _call_issues(node, type_of)
        # Arguments of `format` may have any type.
        is_exempt = is_exempt or node.function == "format"
    elif isinstance(node, ast.ListNode | ast.MapNode) and not is_exempt:
        yield from _kind_issues(node, type_of)
    for inner in children(node):
        yield from _issues(inner, type_of, is_exempt=is_exempt)


def children(node: ast.Expr) -> list[ast.Expr]:
    match node:
        case ast.Select():
            return [node.operand]
        case ast.CallExpr():
            return [*([node.target] if node.target else []), *node.args]
        case ast.ListNode():
            return list(node.items)
        case ast.MapNode():
            return [each for entry in node.entries for each in (entry.key, entry.value)]
        case ast.Fold():
            return [node.range, *([node.filter] if node.filter else []), node.body]
        case ast.Bind():
            return [node.value, node.body]
    return []


def _call_issues(node: ast.CallExpr, type_of: TypeOf) -> Iterator[Issue]:
    first = node.args[0] if node.args else None
    if (
        isinstance(first, ast.Literal)
        and node.function in {"duration", "timestamp", "matches"}
        and not _is_valid(node, first)
    ):
        yield Issue(first.at, f"invalid {node.function} argument")
    if node.function == "format" and isinstance(node.target, ast.Literal) and isinstance(first, ast.ListNode):
        yield from _format_issues(node, node.target.value, first, type_of)


def _is_valid(node: ast.CallExpr, arg: ast.Literal) -> bool:
    if type(arg.value) is int:
        return node.function == "timestamp" and MIN_SECONDS <= arg.value <= MAX_SECONDS
    if not isinstance(arg.value, str):
        return False
    try:
        match node.function:
            case "duration":
                read_duration(arg.value)
            case "timestamp":
                read_timestamp(arg.value)
            case _ if node.target is not None:
                go_pattern(arg.value)
    except (ValueError, PatternError):
        return False
    return True


def _format_issues(node: ast.CallExpr, text: str, args: ast.ListNode, type_of: TypeOf) -> Iterator[Issue]:
    try:
        verbs = parse_clauses(text)
    except CelError as error:
        yield Issue(node.at, error.message)
        return
    if len(verbs) > len(args.items):
        yield Issue(node.at, f"index {len(args.items)} out of range")
        return
    for verb, arg in zip(verbs, args.items, strict=False):
        found = type_of(arg)
        if found.kind != "dyn" and found.kind not in _CLAUSE_KINDS[verb]:
            yield Issue(arg.at, f"error during formatting: {WRONG_TYPES[verb].format(found.name)}")
            return
    if len(args.items) > len(verbs):
        counts = f"(expected {len(verbs)}, got {len(args.items)})"
        yield Issue(node.at, f"too many arguments supplied to string.format {counts}")


def _kind_issues(node: ast.ListNode | ast.MapNode, type_of: TypeOf) -> Iterator[Issue]:
    """Reports lists and maps whose items, keys or values have different types."""
    if isinstance(node, ast.ListNode):
        yield from _mixed(node.items, [place in node.optional for place in range(len(node.items))], type_of)
        return
    yield from _mixed([entry.key for entry in node.entries], [False] * len(node.entries), type_of)
    yield from _mixed([e.value for e in node.entries], [e.is_optional for e in node.entries], type_of)


def _mixed(nodes: list[ast.Expr] | tuple[ast.Expr, ...], optional: list[bool], type_of: TypeOf) -> Iterator[Issue]:
    wanted: Type | None = None
    for node, is_optional in zip(nodes, optional, strict=True):
        found = type_of(node)
        if is_optional and found.kind == "optional":
            found = found.params[0]
        if wanted is None:
            wanted = found
        elif not _is_equivalent(wanted, found):
            yield Issue(node.at, f"expected type '{wanted}' but found '{found}'")
            return


def _is_equivalent(one: Type, other: Type) -> bool:
    if one.kind != other.kind or one.name != other.name or len(one.params) != len(other.params):
        return False
    return one.kind == "type" or all(map(_is_equivalent, one.params, other.params))
